// The reader: it takes requests from the device, and runs those that come one by one.

package fuseloop

import (
	"syscall"
	"time"

	"github.com/nfsrdma/nfsrdma/internal/lead"
	"github.com/nfsrdma/nfsrdma/internal/tally"
	"github.com/nfsrdma/nfsrdma/internal/wait"
	"golang.org/x/sys/unix"
)

// forgetsMost is how many messages without a reply the reader does before it runs a request that it
// has read.
const forgetsMost = 4

// A reading is the right to take requests from the device. One goroutine has it, the reader.
//
// Where a single program makes one call after the other the reader runs each request itself: it is
// the leader of package lead. Other programs may wait for the device in that time, so after each
// such wait workers get all requests for a while.
//
// A message that is left to be done, and for which its program does not wait, is no sign of another
// program: RELEASE, which comes beside the call after close(2), and FORGET, beside the one after
// unlink(2).
type reading struct {
	// set once
	ended chan struct{} // closed by the reader when there will be no more requests
	await func() bool   // one read, for the poller

	lead lead.Leader

	// owned by the reader
	n     int // what the last read has brought
	errno syscall.Errno
	look  looker
	row   lead.Row
	last  uint32 // thread of the one that the reader has run last
}

// initReading is called once, before the first reader.
func (s *Server) initReading() {
	g := &s.reading
	g.ended = make(chan struct{})
	g.await = func() bool {
		g.n, g.errno = s.poll()
		return g.errno != unix.EAGAIN
	}
}

// Mechanisms are the decisions of the reader (fuse_reader) and its polls (fuse_poll). The table is
// the caller's.
func (s *Server) Mechanisms() tally.Table {
	return tally.Table{"fuse_reader": s.reading.lead.Counts().Tally(), "fuse_poll": s.reading.look.tally.Counts()}
}

// follow starts another reader, which owns what the former one did.
func (s *Server) follow() {
	s.workers.active.Go(func() {
		s.reading.row.Count(true) // others may have waited
		s.readOn()
	})
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
	if r.pid != 0 { // FLUSH and RELEASE are between requests of one program
		g.last = r.pid
	}
	run := g.lead.Begin()
	if r.opcode == opSetlkw { // it waits by its nature
		g.lead.Busy(run)
	}
	s.workers.run(r)
	return g.lead.End(run)
}

// afterOwn is a poll after a request that the reader has run, and some more polls where it pays to
// look for the next request before sleeping. One that is there at once and is another thread's had
// to wait.
func (s *Server) afterOwn() (n int, errno syscall.Errno) {
	g := &s.reading
	n, errno = s.pollRequest()
	if errno == 0 && n >= inHeaderLen {
		if pid := parseHeader(s.next.b).pid; pid != 0 && pid != g.last {
			g.lead.Backoff.Start()
		}
	}
	return s.lookOn(n, errno)
}

// lookOn goes on after a poll: where nothing came, with more of them.
func (s *Server) lookOn(n int, errno syscall.Errno) (int, syscall.Errno) {
	g := &s.reading
	for errno == unix.EAGAIN && g.look.again(time.Now()) {
		wait.Yield()
		n, errno = s.poll()
	}
	if errno != unix.EAGAIN {
		g.look.found(time.Now())
	}
	return n, errno
}

// solo reports whether the reader is likely to run the next request.
func (g *reading) solo() bool { return !g.lead.Backoff.Active() && g.row.Alone() }

// takes reports whether the reader is to run r.
func (g *reading) takes(r *request, more bool) bool {
	if g.lead.Backoff.Pass() {
		return false
	}
	alone := g.row.Alone()
	// Of what comes beside a RELEASE nothing has been read yet.
	if others := more || r.others; others || !r.releases() {
		g.row.Count(others)
		return alone && !others
	}
	return alone
}
