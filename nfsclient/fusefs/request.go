// Kernel requests in flight, and ending one by a signal to its program.
//
// FUSE reports any signal, once for each request, though most do not end a system call. For
// example, a runtime preempts its threads by signals, and many handlers do not concern the file.
// Like the kernel's own client, the mount interrupts server waits only if the signal ends the
// program. The kernel reports only the first signal. So after that signal the mount polls the
// process's pending signals until it answers the request.

package fusefs

import (
	"context"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/hanwen/go-fuse/v2/fuse"
)

const (
	signalPoll = 100 * time.Millisecond // between two checks of the interrupted requests
	unseenFor  = 5 * time.Second        // wait after a signal to an unseen process
)

// A request is one operation of the kernel. It is the context for its calls.
type request struct {
	fs     *fileSystem
	who    *caller
	cancel <-chan struct{} // closed at the first signal, and when the connection is gone
	done   chan struct{}   // closed when the operation has to end
	pid    uint32          // 0: /proc does not show the process
	signal time.Time       // guarded by requests.mu: when poll first found a signal
	ended  bool            // guarded by requests.mu: done is closed
	at     int             // guarded by requests.mu: index in requests.inFlight
}

var requestPool = sync.Pool{New: func() any { return &request{done: make(chan struct{})} }}

// begin starts each operation; the caller calls end after it.
func (f *fileSystem) begin(what op, cancel <-chan struct{}, from *fuse.Caller) *request {
	f.counts.ops[what].Add(1)
	r := requestPool.Get().(*request)
	r.fs, r.cancel, r.pid, r.who = f, cancel, procPID(from.Pid), f.callers.of(from)
	f.requests.add(r)
	return r
}

// end returns r to the pool. A closed done channel cannot be reused, so end replaces it first.
func (r *request) end() {
	if r.fs.requests.remove(r) {
		r.done, r.ended = make(chan struct{}), false
	}
	r.signal = time.Time{}
	r.fs, r.who, r.cancel = nil, nil, nil
	requestPool.Put(r)
}

// A request is a context.Context that ends with context.Canceled.

func (r *request) Done() <-chan struct{}       { return r.done }
func (r *request) Deadline() (time.Time, bool) { return time.Time{}, false }
func (r *request) Value(any) any               { return nil }
func (r *request) Err() error {
	select {
	case <-r.done:
		return context.Canceled
	default:
		return nil
	}
}

// requests has all requests in flight.
type requests struct {
	mu       sync.Mutex // guards all
	unseen   time.Duration
	inFlight []*request
	timer    *time.Timer // runs while there are any
	running  bool
	stopped  bool
}

// add starts the timer with the first request: idle mounts do not poll.
func (q *requests) add(r *request) {
	q.mu.Lock()
	defer q.mu.Unlock()
	r.at = len(q.inFlight)
	q.inFlight = append(q.inFlight, r)
	if q.running || q.stopped {
		return
	}
	q.running = true
	if q.timer == nil {
		q.timer = time.AfterFunc(signalPoll, q.poll)
	} else {
		q.timer.Reset(signalPoll)
	}
}

// remove ends a request. It reports whether the request's done channel is closed.
func (q *requests) remove(r *request) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	last := len(q.inFlight) - 1
	q.inFlight[r.at] = q.inFlight[last]
	q.inFlight[r.at].at = r.at
	q.inFlight[last] = nil
	q.inFlight = q.inFlight[:last]
	return r.ended
}

// poll ends the requests of dying programs.
func (q *requests) poll() {
	q.mu.Lock()
	defer q.mu.Unlock()
	var gone func() bool
	for _, r := range q.inFlight {
		select {
		case <-r.cancel:
		default:
			continue
		}
		if gone == nil {
			gone = sync.OnceValue(r.fs.disconnected)
		}
		if r.signal.IsZero() {
			r.signal = time.Now()
		}
		if !r.ended && (q.dying(r) || gone()) {
			r.ended = true
			close(r.done)
		}
	}
	if q.running = len(q.inFlight) > 0 && !q.stopped; q.running {
		q.timer.Reset(signalPoll)
	}
}

// stop ends the polling. All requests have ended by then.
func (q *requests) stop() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.stopped = true
	if q.timer != nil {
		q.timer.Stop()
	}
}

// dying reports whether the program of a request with a signal ends. A program in another PID
// namespace counts as dying if the server stays silent. A wait longer than unseenFor then ends with
// EINTR, even if the signal was harmless. The caller holds q.mu.
func (q *requests) dying(r *request) bool {
	if r.pid == 0 {
		return time.Since(r.signal) >= q.unseen
	}
	return dying(r.pid)
}

// harmless are the signals without a deadly default action.
const harmless = 1<<(syscall.SIGCHLD-1) | 1<<(syscall.SIGCONT-1) | 1<<(syscall.SIGSTOP-1) | 1<<(syscall.SIGTSTP-1) |
	1<<(syscall.SIGTTIN-1) | 1<<(syscall.SIGTTOU-1) | 1<<(syscall.SIGURG-1) | 1<<(syscall.SIGWINCH-1)

// dying reports whether a process has a pending signal that ends it. An ended process is dying too.
func dying(pid uint32) bool {
	var pending, kept uint64
	found := statusLines(pid, func(key string, rest []byte) {
		switch key {
		case "SigPnd", "ShdPnd":
			pending |= signalSet(rest)
		case "SigBlk", "SigIgn", "SigCgt":
			kept |= signalSet(rest)
		}
	})
	return !found || pending&^(kept|harmless) != 0
}

// signalSet parses a signal set of /proc; signal n is bit n-1.
func signalSet(text []byte) uint64 {
	set, _ := strconv.ParseUint(strings.TrimSpace(string(text)), 16, 64)
	return set
}

// disconnected reports whether the kernel has aborted the mount, by a notice, which fails then.
func (f *fileSystem) disconnected() bool {
	const noNode = 1<<63 - 1
	st := f.server.InodeNotify(noNode, -1, 0)
	return st != fuse.OK && st != fuse.ENOENT
}
