// Requests under way: their memory, and how the kernel ends the wait for one.

package fuseloop

import (
	"encoding/binary"
	"runtime"
	"sync"

	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"
)

// A request is one message of the kernel that gets a reply. The reader gives it to a worker; that
// one has it until finish.
type request struct {
	inHeader
	in     *buffer
	n      int  // bytes of it
	others bool // for which programs wait were under way when it came
	cancel chan struct{}

	// guarded by inflight.mu
	at          int  // in inflight.all
	interrupted bool // cancel is closed, or the ProtocolServer has taken the INTERRUPT

	// memory of a reply
	inv, outv [1][]byte
	vec       [4]unix.Iovec
}

// bytes is the message.
func (r *request) bytes() []byte { return r.in.b[:r.n] }

// direct reports whether the request does not go through the ProtocolServer, so that cancel is its
// own.
func (r *request) direct() bool { return r.opcode == opRead && r.n >= readLen }

var requestPool = sync.Pool{New: func() any { return &request{cancel: make(chan struct{})} }}

// newRequest is the request of which the reader's buffer has n bytes. A large one takes the buffer
// along.
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

// finish ends a request that has been answered.
func (s *Server) finish(r *request) {
	if s.inflight.remove(r) && r.direct() {
		r.cancel = make(chan struct{})
	}
	r.in.release()
	r.in, r.inv[0], r.outv[0], r.vec = nil, nil, nil, [4]unix.Iovec{}
	requestPool.Put(r)
}

// inflight is the requests that have been read and not answered.
type inflight struct {
	mu  sync.Mutex // guards all
	all []*request
}

// add enters r, and reports whether there are others for which programs wait.
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

// remove reports whether the request was interrupted.
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

// found is what interrupt knows of the request that it is for.
type found uint8

const (
	unknown   found = iota // it has been answered, or was never here
	foreign                // its channel is the ProtocolServer's
	delivered              // it has been interrupted
)

// interrupt closes the channel of a request that has one. A request that was interrupted before is
// left alone: the kernel may send an INTERRUPT twice, if the signal comes while the request is
// being read.
func (f *inflight) interrupt(unique uint64) found {
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

// taken notes that the ProtocolServer has interrupted a request of its own.
func (f *inflight) taken(unique uint64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, r := range f.all {
		r.interrupted = r.interrupted || r.unique == unique
	}
}

// close ends the wait of a direct request. The caller holds inflight.mu.
func (r *request) close() {
	if !r.interrupted {
		r.interrupted = true
		close(r.cancel)
	}
}

// interrupt answers an INTERRUPT. It is the reader's, so that it comes after the request that it is
// for has been entered.
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
		if what == foreign { // so b names a request
			s.inflight.taken(binary.NativeEndian.Uint64(b[interruptedAt:]))
		}
		return
	}
	if what == foreign {
		runtime.Gosched() // its worker has not begun: the kernel asks again at once
	}
	s.reply(h.unique, out[:n])
}

// interruptAll ends the waits of all requests that are under way. A request that its worker has not
// begun yet is left for another time.
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
		f.taken(unique)
	}
}
