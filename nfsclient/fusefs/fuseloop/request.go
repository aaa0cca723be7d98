// Requests in flight: their memory, and how the kernel interrupts them.

package fuseloop

import (
	"encoding/binary"
	"runtime"
	"sync"

	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"
)

// A request is one kernel message that needs a reply. The reader passes it to a worker, which owns
// it until finish.
type request struct {
	inHeader
	in     *buffer
	n      int  // bytes of the message
	others bool // at its arrival a program waited for another request
	cancel chan struct{}

	// guarded by inflight.mu
	at          int  // index in inflight.all
	interrupted bool // cancel is closed, or the ProtocolServer has taken the INTERRUPT

	// memory for a reply
	inv, outv [1][]byte
	vec       [4]unix.Iovec
}

// bytes returns the message.
func (r *request) bytes() []byte { return r.in.b[:r.n] }

// direct reports whether the request bypasses the ProtocolServer and uses its own cancel.
func (r *request) direct() bool { return r.opcode == opRead && r.n >= readLen }

var requestPool = sync.Pool{New: func() any { return &request{cancel: make(chan struct{})} }}

// newRequest makes a request from n bytes in the reader's buffer. A large request takes over the
// buffer.
func (s *Server) newRequest(h inHeader, n int) *request {
	r := requestPool.Get().(*request)
	r.inHeader, r.n = h, n
	if n <= smallBuffer {
		r.in = s.buffers.get(n)
		copy(r.in.b, s.next.b[:n])
	} else {
		r.in = s.next
		s.next = s.buffers.largest()
	}
	return r
}

// finish ends an answered request.
func (s *Server) finish(r *request) {
	if s.inflight.remove(r) && r.direct() {
		r.cancel = make(chan struct{})
	}
	r.in.release()
	r.in, r.inv[0], r.outv[0], r.vec = nil, nil, nil, [4]unix.Iovec{}
	requestPool.Put(r)
}

// inflight has the requests that are read and not answered.
type inflight struct {
	mu  sync.Mutex // guards all
	all []*request
}

// add enters r, and reports whether programs wait for other requests.
func (f *inflight) add(r *request) (others bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	r.at, r.interrupted = len(f.all), false
	for _, o := range f.all {
		if others = !o.releases(); others {
			break
		}
	}
	f.all = append(f.all, r)
	return others
}

// remove ends r, and reports whether it was interrupted.
func (f *inflight) remove(r *request) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	last := len(f.all) - 1
	f.all[r.at] = f.all[last]
	f.all[r.at].at = r.at
	f.all[last] = nil
	f.all = f.all[:last]
	return r.interrupted
}

// interruptResult is the result of finding an INTERRUPT's request.
type interruptResult uint8

const (
	unknown   interruptResult = iota // the request is answered, or was never received
	foreign                          // the ProtocolServer has the request's cancel channel
	delivered                        // interrupted
)

// interrupt closes the channel of a direct request. It ignores a repeated INTERRUPT: the kernel may
// send two if the signal arrives while the request is being read.
func (f *inflight) interrupt(unique uint64) interruptResult {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, r := range f.all {
		if r.unique != unique {
			continue
		}
		if !r.direct() && !r.interrupted {
			return foreign
		}
		r.close()
		return delivered
	}
	return unknown
}

// markInterrupted notes that the ProtocolServer has interrupted its request.
func (f *inflight) markInterrupted(unique uint64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, r := range f.all {
		r.interrupted = r.interrupted || r.unique == unique
	}
}

// close interrupts a direct request. The caller holds inflight.mu.
func (r *request) close() {
	if !r.interrupted {
		r.interrupted = true
		close(r.cancel)
	}
}

// interrupt answers an INTERRUPT. Only the reader calls it, so the named request is already
// entered.
func (s *Server) interrupt(h inHeader, b []byte) {
	what := unknown
	if len(b) >= interruptLen {
		what = s.inflight.interrupt(binary.NativeEndian.Uint64(b[interruptedAt:]))
	}
	if what == delivered {
		return
	}
	var out [outHeaderLen + outDataMost + pathMost]byte
	n, _ := s.protocol.HandleRequest([][]byte{b}, [][]byte{out[:]})
	if n == 0 {
		if what == foreign { // foreign means that b is long enough to name a request
			s.inflight.markInterrupted(binary.NativeEndian.Uint64(b[interruptedAt:]))
		}
		return
	}
	if what == foreign {
		runtime.Gosched() // let the worker begin: the kernel asks again at once
	}
	s.reply(h.unique, out[:n])
}

// interruptAll interrupts all requests in flight. It skips requests that no worker has begun; the
// next call retries them.
func (s *Server) interruptAll() {
	f := &s.inflight
	f.mu.Lock()
	var theirs []uint64
	for _, r := range f.all {
		if r.direct() {
			r.close()
		} else if !r.interrupted {
			theirs = append(theirs, r.unique)
		}
	}
	f.mu.Unlock()
	var out [outHeaderLen + outDataMost]byte
	for _, unique := range theirs {
		msg := appendInterrupt(nil, unique)
		if n, st := s.protocol.HandleRequest([][]byte{msg}, [][]byte{out[:]}); n > 0 || st != fuse.OK {
			continue
		}
		f.markInterrupted(unique)
	}
}
