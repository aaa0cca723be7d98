// The reader: who takes requests from the device, and who runs them.

package fuseloop

import (
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// aloneMin is from how many requests in a row on, with no other one beside them, the reader
	// runs them itself.
	aloneMin = 8

	// ownTick is between two looks at the request that the reader runs. One that is there at both
	// is slow, and other requests are not to wait for it: so it bounds for how long they do, which
	// is twice as long.
	ownTick = 2 * time.Millisecond

	// contendedPasses is how many requests are left to workers after one that has kept others
	// waiting.
	contendedPasses = 64

	// forgetsMost is how many messages without a reply the reader does before it runs a request
	// that it has read.
	forgetsMost = 4
)

// A reading is the right to take requests from the device. One goroutine has it, the reader.
//
// Where a single program makes one call after the other the reader runs each request itself: to
// have a worker do it is to wake a thread for it, and another one to look for more work, which
// takes longer than most requests. Meanwhile nobody reads. A clock ticks for as long as that is
// done, and where it finds the same request twice it starts another reader; the former one ends
// when it has answered. Other programs may wait in that time, so after each such wait workers get
// all requests for a while.
//
// What a program leaves to be done and does not wait for is no sign of another program: RELEASE,
// which comes beside the call after close(2), and FORGET, beside the one after unlink(2).
type reading struct {
	// set once
	ended chan struct{} // closed by the reader when there will be no more requests
	tick  *time.Timer   // calls Server.watch
	every time.Duration // between its calls: ownTick, but for tests
	await func() bool   // one read, for the poller

	// owned by the reader
	n      int // what the last read has brought
	errno  syscall.Errno
	look   looker
	alone  int    // requests in a row, up to aloneMin
	passes int    // requests that are left to workers, whoever is alone
	last   uint32 // thread of the one that the reader has run last
	number uint64 // of requests that readers have run

	own     atomic.Uint64 // number of the one that the reader runs; 0: none
	ticking atomic.Bool   // the clock runs, or is about to

	seen uint64 // what the clock found last; owned by it while it ticks
}

// initReading is called once, before the first reader.
func (s *Server) initReading() {
	g := &s.reading
	g.ended = make(chan struct{})
	g.tick = time.AfterFunc(time.Hour, s.watch)
	g.tick.Stop()
	g.await = func() bool {
		g.n, g.errno = s.poll()
		return g.errno != unix.EAGAIN
	}
}

// readOn is the reader, until there will be no more requests, or another goroutine is the reader.
func (s *Server) readOn() {
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
			close(s.reading.ended)
			return
		}
		n, errno = 0, unix.EAGAIN
		if r == nil || !r.releases() { // what comes with a RELEASE is by who has closed the file
			n, errno = s.pollRequest()
		}
		switch {
		case r == nil:
			if s.reading.solo() {
				n, errno = s.lookOn(n, errno)
			}
		case s.reading.takes(r, errno != unix.EAGAIN):
			if !s.runOwn(r) {
				return
			}
			n, errno = s.afterOwn()
		default:
			s.workers.do(r)
		}
		if errno == unix.EAGAIN {
			n, errno = s.await()
		}
	}
}

// poll is a read that does not wait.
func (s *Server) poll() (int, syscall.Errno) { return s.readOne(uintptr(s.dev.fd), s.next.b) }

// pollRequest is poll for a message that gets a reply.
func (s *Server) pollRequest() (n int, errno syscall.Errno) {
	for i := 0; ; i++ {
		n, errno = s.poll()
		if i == forgetsMost || errno != 0 || n < inHeaderLen || !parseHeader(s.next.b).forgets() {
			return n, errno
		}
		s.accept(n)
	}
}

// await is the next message, or what the device says at the end. Should the poller have an error of
// its own, then what has become of the connection the device says.
func (s *Server) await() (n int, errno syscall.Errno) {
	err := s.dev.await(s.reading.await)
	if err == nil {
		return s.reading.n, s.reading.errno
	}
	if n, errno = s.poll(); errno == unix.EAGAIN {
		s.log.Printf("waiting for requests: %v", err)
		errno = unix.ENODEV
	}
	return n, errno
}

// runOwn runs r, and reports whether this goroutine is still the reader.
func (s *Server) runOwn(r *request) bool {
	g := &s.reading
	g.number++
	if r.pid != 0 { // FLUSH and RELEASE are between requests of one program
		g.last = r.pid
	}
	mine := g.number
	g.own.Store(mine)
	if !g.ticking.Load() && g.ticking.CompareAndSwap(false, true) {
		g.tick.Reset(g.every)
	}
	s.workers.run(r)
	return g.own.CompareAndSwap(mine, 0)
}

// afterOwn is a poll after a request that the reader has run, and some more polls where it pays to
// look for the next request before sleeping. One that is there at once and is another thread's had
// to wait.
func (s *Server) afterOwn() (n int, errno syscall.Errno) {
	g := &s.reading
	n, errno = s.pollRequest()
	if errno == 0 && n >= inHeaderLen {
		if pid := parseHeader(s.next.b).pid; pid != 0 && pid != g.last {
			g.passes = contendedPasses
		}
	}
	return s.lookOn(n, errno)
}

// lookOn goes on after a poll: where nothing came, with more of them.
func (s *Server) lookOn(n int, errno syscall.Errno) (int, syscall.Errno) {
	g := &s.reading
	for errno == unix.EAGAIN && g.look.again(time.Now()) {
		yield()
		n, errno = s.poll()
	}
	if errno != unix.EAGAIN {
		g.look.found(time.Now())
	}
	return n, errno
}

// solo reports whether the reader is likely to run the next request.
func (g *reading) solo() bool { return g.passes == 0 && g.alone >= aloneMin }

// takes reports whether the reader is to run r.
func (g *reading) takes(r *request, more bool) bool {
	switch {
	case g.passes > 0:
		g.passes--
	case more || r.others:
		g.alone = 0
	case g.alone < aloneMin:
		if !r.releases() { // what came with it has not been asked for
			g.alone++
		}
	default:
		return r.opcode != opSetlkw
	}
	return false
}

// watch is what the clock does.
func (s *Server) watch() {
	g := &s.reading
	n := g.own.Load()
	if n != 0 && n != g.seen {
		g.seen = n
		g.tick.Reset(g.every)
		return
	}
	if n != 0 && g.own.CompareAndSwap(n, 0) {
		// What the former reader owned is this one's now.
		s.workers.active.Go(func() {
			g.alone, g.passes = 0, contendedPasses
			s.readOn()
		})
	}
	g.ticking.Store(false)
	// Asked for afterwards: a reader that has begun before has not started the clock.
	if g.own.Load() != 0 && g.ticking.CompareAndSwap(false, true) {
		g.tick.Reset(g.every)
	}
}
