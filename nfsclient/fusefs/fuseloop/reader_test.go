// Requests that the reader runs itself, and messages that arrive meanwhile.

package fuseloop

import (
	"testing"
	"time"

	"github.com/hanwen/go-fuse/v2/fuse"
	"github.com/nfsrdma/nfsrdma/internal/lead"
	"github.com/nfsrdma/nfsrdma/internal/tally"
	"github.com/nfsrdma/nfsrdma/internal/wait"
	"github.com/nfsrdma/nfsrdma/test/must"
	"golang.org/x/sys/unix"
)

// alone sends requests one at a time until the reader runs the next one itself.
func (k *kernel) alone() {
	k.t.Helper()
	for i := range uint64(lead.AloneMin) {
		k.send(getattrMessage(1000+i, 1))
		if out := k.next(); out.unique != 1000+i {
			k.t.Fatalf("%+v", out)
		}
		k.ended()
	}
}

// The reader runs the requests of a program with one call at a time; workers get none.
func TestReaderRunsRequestsThatAreAlone(t *testing.T) {
	f := newTestFS()
	f.interruptible()
	k := start(t, f)
	byWorker := make(chan uint64, 100)
	leader := &k.s.reader.lead
	leader.Init(lead.NewClock(time.Hour), k.s.startReader) // the machine may be slow
	k.s.workers.run = func(r *request) {
		if leader.Current() == 0 {
			byWorker <- r.unique
		}
		k.s.serve(r)
	}
	k.serve()
	k.alone()
	if n := len(byWorker); n != lead.AloneMin {
		t.Fatalf("workers have run %d of the first %d", n, lead.AloneMin)
	}
	for i := range uint64(20) {
		k.send(getattrMessage(10+i, 1))
		if out := k.next(); out.unique != 10+i || out.status != 0 {
			t.Fatalf("%+v", out)
		}
		k.ended()
	}
	k.send(lkwMessage(7)) // SETLKW always waits, so another reader takes later messages
	must.Become(t, "the SETLKW at work", func() bool { return f.waiters() == 1 })
	k.send(interruptMessage(8, 7))
	if out := k.next(); out.unique != 7 {
		t.Fatalf("%+v", out)
	}
	k.cut()
	if got, want := leader.Counts(), (lead.Counts{Ran: 21, Busy: 1}); got != want {
		t.Errorf("the reader's requests: %+v, want %+v", got, want)
	}
	if got, want := k.s.Mechanisms()["fuse_reader"], (tally.Counts{Won: 20, Lost: 1}); got != want {
		t.Errorf("outcomes of the reader: got %+v, want %+v", got, want)
	}
	if n := len(byWorker); n != lead.AloneMin+1 {
		t.Errorf("workers have run %d requests, want %d and SETLKW", n, lead.AloneMin)
	}
}

// Messages for which no program waits do not count as another program's: the reader still runs the
// program's calls.
func TestQueuedMessagesAreNoOtherProgram(t *testing.T) {
	f := newTestFS()
	begun, goOn := make(chan struct{}), make(chan struct{})
	f.read = func(<-chan struct{}, *fuse.ReadIn, []byte) (fuse.ReadResult, fuse.Status) {
		begun <- struct{}{}
		<-goOn
		return fuse.ReadResultData(nil), fuse.OK
	}
	k := start(t, f)
	byWorker := make(chan uint32, 100)
	leader := &k.s.reader.lead
	leader.Init(lead.NewClock(time.Hour), k.s.startReader) // the machine may be slow
	k.s.workers.run = func(r *request) {
		if leader.Current() == 0 {
			byWorker <- r.opcode
		}
		k.s.serve(r)
	}
	k.serve()
	by := func(msg []byte, pid byte) []byte {
		msg[32] = pid
		return msg
	}
	k.alone()
	for range lead.AloneMin {
		<-byWorker
	}
	for _, c := range []struct {
		what     string
		messages [][]byte
		replies  int
	}{
		{"RELEASE and the next call", [][]byte{message(opRelease, 3, 2, make([]byte, 24)...), by(getattrMessage(4, 1), 5)}, 2},
		{"RELEASEDIR and the next call", [][]byte{message(opReleasedir, 3, 2, make([]byte, 24)...), by(getattrMessage(4, 1), 5)}, 2},
		{"a call and FORGET", [][]byte{by(getattrMessage(4, 1), 5), message(opForget, 0, 7, words(uint64(1))...)}, 1},
	} {
		k.send(by(readMessage(2, 1, 0, 4096), 5))
		<-begun
		for _, m := range c.messages {
			k.send(m)
		}
		goOn <- struct{}{} // only now does the reader find all messages
		for range 1 + c.replies {
			if out := k.next(); out.status != 0 {
				t.Fatalf("%s: %+v", c.what, out)
			}
		}
		k.ended()
		k.send(by(getattrMessage(4, 1), 5))
		k.next()
		k.ended()
		select {
		case op := <-byWorker:
			t.Errorf("%s: a worker runs request %d", c.what, op)
		default:
		}
	}
	k.cut()
}

// A waiting request run by the reader delays others only for a moment, and can be interrupted.
// Afterwards workers get all requests until enough requests have come one at a time.
func TestSlowRequestOfTheReader(t *testing.T) {
	f := newTestFS()
	f.interruptible()
	k := start(t, f)
	k.serve()
	k.alone()
	k.send(readMessage(5, 1, 0, 4096))
	must.Become(t, "the READ at work", func() bool { return f.waiters() == 1 })
	for range 2 {
		k.send(getattrMessage(6, 1))
		if out := k.next(); out.unique != 6 || out.status != 0 {
			t.Fatalf("%+v", out)
		}
	}
	k.send(interruptMessage(7, 5))
	if out := k.next(); out.unique != 5 || out.status != -int32(unix.EINTR) {
		t.Fatalf("%+v", out)
	}
	ran := func(requests int) uint64 {
		for range requests {
			k.ended()
			k.send(getattrMessage(8, 1))
			k.next()
		}
		k.ended()
		return k.s.reader.lead.Counts().Ran
	}
	if n := ran(wait.Passes - 2 + lead.AloneMin); n != 1 {
		t.Errorf("readers have run %d requests, want 1", n)
	}
	if n := ran(1); n != 2 {
		t.Errorf("readers have run %d requests after a while, want 2", n)
	}
	k.cut()
}

// The end of the connection is noticed while the reader runs a request, and ends its wait.
func TestEndWhileTheReaderRunsARequest(t *testing.T) {
	f := newTestFS()
	f.interruptible()
	k := start(t, f)
	k.serve()
	k.alone()
	k.send(readMessage(5, 1, 0, 4096))
	must.Become(t, "the READ at work", func() bool { return f.waiters() == 1 })
	k.cut()
}

// The reader runs requests that come one at a time, except after a request that delayed another
// thread.
func TestChoiceOfReaderOrWorker(t *testing.T) {
	var g readerState
	one := &request{}
	passAll := func(want int) {
		t.Helper()
		n := 0
		for ; !g.shouldRun(one, false); n++ {
			if n > 10*wait.Passes {
				t.Fatal("the reader runs none")
			}
		}
		if n != want {
			t.Fatalf("workers get %d requests, want %d", n, want)
		}
	}
	passAll(lead.AloneMin)
	passAll(0)
	for what, taken := range map[string]bool{
		"one with another after it": g.shouldRun(one, true),
		"one beside others":         !g.takesAgain() || g.shouldRun(&request{others: true}, false),
	} {
		if taken {
			t.Errorf("the reader runs %s", what)
		}
	}
	g.takesAgain()
	g.lead.Backoff.Start()
	passAll(wait.Passes)

	g.row = lead.Row{}
	released := &request{inHeader: inHeader{opcode: opRelease}}
	for range 2 * lead.AloneMin {
		if g.shouldRun(released, false) {
			t.Error("the reader runs a RELEASE beside who knows what")
		}
	}
	passAll(lead.AloneMin)
	if !g.shouldRun(released, false) {
		t.Error("a worker runs a RELEASE of a program that is alone")
	}
}

// Requests for which no program waits do not count as another program's; all other requests do.
func TestRequestsOfOtherPrograms(t *testing.T) {
	var f inflight
	for _, c := range []struct {
		opcode uint32
		others bool
	}{{opGetattr, false}, {opRelease, true}, {opGetattr, true}} {
		if others := f.add(&request{inHeader: inHeader{opcode: c.opcode}}); others != c.others {
			t.Errorf("request %d with %d under way: %v", c.opcode, len(f.all)-1, others)
		}
	}
	f = inflight{}
	f.add(&request{inHeader: inHeader{opcode: opRelease}})
	f.add(&request{inHeader: inHeader{opcode: opReleasedir}})
	if f.add(&request{inHeader: inHeader{opcode: opGetattr}}) {
		t.Error("a RELEASE keeps a request from being alone")
	}
}

// takesAgain makes the reader run requests again, and reports whether it does.
func (g *readerState) takesAgain() bool {
	for range lead.AloneMin {
		g.shouldRun(&request{}, false)
	}
	return g.shouldRun(&request{}, false)
}

// If another thread's request is ready after the reader's own request, it had to wait.
func TestRequestsOfTwoThreads(t *testing.T) {
	k := start(t, newTestFS())
	by := func(unique uint64, pid byte) []byte {
		msg := getattrMessage(unique, 1)
		msg[32] = pid
		return msg
	}
	g := &k.s.reader
	for pid, want := range map[byte]bool{5: false, 0: false, 6: true} {
		g.lead, g.lastThread = lead.Leader{}, 5
		k.send(by(9, pid))
		if n, errno := k.s.pollAfterRun(); errno != 0 || n == 0 {
			t.Errorf("thread %d: %d bytes, %v", pid, n, errno)
		}
		if got := g.lead.Backoff.Active(); got != want {
			t.Errorf("thread %d: requests are left to workers: %v, want %v", pid, got, want)
		}
	}
	k.s.dev.close()
}
