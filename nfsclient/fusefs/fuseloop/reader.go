// The reader: takes requests from the device, and runs requests itself if they come one at a time.

package fuseloop

import (
	"syscall"
	"time"

	"github.com/nfsrdma/nfsrdma/internal/lead"
	"github.com/nfsrdma/nfsrdma/internal/tally"
	"github.com/nfsrdma/nfsrdma/internal/wait"
	"golang.org/x/sys/unix"
)

// A readerState is the right to take requests from the device. One goroutine has it: the reader.
//
// If a single program makes one call at a time, the reader runs each request itself, as the leader
// of package lead. During such a run nothing reads the device, so other programs' requests may have
// to wait. After each such wait workers get all requests for a while.
//
// A queued message without a waiting program does not count as another program's request: RELEASE,
// sent after close(2), and FORGET, sent after unlink(2), while the program makes its next call.
type readerState struct {
	// set once
	ended chan struct{} // closed by the reader after the last request
	await func() bool   // one poll, as argument for device.await

	lead lead.Leader

	// owned by the reader
	n          int // bytes of the last read
	errno      syscall.Errno
	spin       spinner
	row        lead.Row
	lastThread uint32 // thread of the last request run by the reader
}

// initReader prepares the reader's state, once, before the first reader.
func (s *Server) initReader() {
	g := &s.reader
	g.ended = make(chan struct{})
	g.await = func() bool {
		g.n, g.errno = s.poll()
		return g.errno != unix.EAGAIN
	}
}

// Mechanisms returns the decisions of the reader (fuse_reader) and its polls (fuse_spin). The
// caller owns the table.
func (s *Server) Mechanisms() tally.Table {
	return tally.Table{"fuse_reader": s.reader.lead.Counts().Tally(), "fuse_spin": s.reader.spin.tally.Counts()}
}

// startReader starts another reader, which takes over the reader's state.
func (s *Server) startReader() {
	s.workers.active.Go(func() {
		s.reader.row.Count(true) // counts a run during which other programs may have waited
		s.readLoop()
	})
}

// readLoop runs the reader until the last request, or until another goroutine is the reader.
func (s *Server) readLoop() {
	for n, errno := s.await(); ; {
		var r *request
		switch {
		case errno == 0 && n > 0:
			r = s.accept(n)
		case errno == unix.EINTR, errno == unix.ENOENT:
		default:
			if errno != 0 && errno != unix.ENODEV {
				s.log.Printf("reading requests: %v", errno)
			}
			close(s.reader.ended)
			return
		}
		n, errno = 0, unix.EAGAIN
		if r == nil || !r.releases() { // messages with a RELEASE are from the closing program
			n, errno = s.pollRequest()
		}
		switch {
		case r == nil:
			if s.reader.likelyAlone() {
				n, errno = s.spinForRequest(n, errno)
			}
		case s.reader.shouldRun(r, errno != unix.EAGAIN):
			if !s.runInline(r) {
				return
			}
			n, errno = s.pollAfterRun()
		default:
			s.workers.do(r)
		}
		if errno == unix.EAGAIN {
			n, errno = s.await()
		}
	}
}

// poll reads without waiting.
func (s *Server) poll() (int, syscall.Errno) { return s.readOne(uintptr(s.dev.fd), s.next.b) }

// pollRequest is poll for a message that needs a reply.
func (s *Server) pollRequest() (n int, errno syscall.Errno) {
	for i := 0; ; i++ {
		n, errno = s.poll()
		if i == forgetsMost || errno != 0 || n < inHeaderLen || !parseHeader(s.next.b).forgets() {
			return n, errno
		}
		s.accept(n)
	}
}

// await waits for the next message, or returns the device's error at the end. After an error of the
// poller itself, await polls the device for its error.
func (s *Server) await() (n int, errno syscall.Errno) {
	err := s.dev.await(s.reader.await)
	if err == nil {
		return s.reader.n, s.reader.errno
	}
	if n, errno = s.poll(); errno == unix.EAGAIN {
		s.log.Printf("waiting for requests: %v", err)
		errno = unix.ENODEV
	}
	return n, errno
}

// runInline runs r and reports whether this goroutine is still the reader.
func (s *Server) runInline(r *request) bool {
	g := &s.reader
	if r.pid != 0 { // FLUSH and RELEASE may come between a program's requests
		g.lastThread = r.pid
	}
	run := g.lead.Begin()
	if r.opcode == opSetlkw { // a waiting lock request: waits until the lock is free
		g.lead.Busy(run)
	}
	s.workers.run(r)
	return g.lead.End(run)
}

// pollAfterRun polls after a request run by the reader, and spins if that pays. A request found
// ready at once and sent by another thread had to wait for this run.
func (s *Server) pollAfterRun() (n int, errno syscall.Errno) {
	g := &s.reader
	n, errno = s.pollRequest()
	if errno == 0 && n >= inHeaderLen {
		if pid := parseHeader(s.next.b).pid; pid != 0 && pid != g.lastThread {
			g.lead.Backoff.Start()
		}
	}
	return s.spinForRequest(n, errno)
}

// spinForRequest continues after a poll: it spins if the poll found nothing.
func (s *Server) spinForRequest(n int, errno syscall.Errno) (int, syscall.Errno) {
	g := &s.reader
	for errno == unix.EAGAIN && g.spin.keepSpinning(time.Now()) {
		wait.Yield()
		n, errno = s.poll()
	}
	if errno != unix.EAGAIN {
		g.spin.end(time.Now())
	}
	return n, errno
}

// likelyAlone reports whether the reader is likely to run the next request.
func (g *readerState) likelyAlone() bool { return !g.lead.Backoff.Active() && g.row.Alone() }

// shouldRun reports whether the reader has to run r.
func (g *readerState) shouldRun(r *request, more bool) bool {
	if g.lead.Backoff.Pass() {
		return false
	}
	alone := g.row.Alone()
	// Messages sent along with a RELEASE have not been read yet.
	if others := more || r.others; others || !r.releases() {
		g.row.Count(others)
		return alone && !others
	}
	return alone
}
