// INTERRUPT, for requests in each possible state.

package fuseloop

import (
	"testing"

	"github.com/nfsrdma/nfsrdma/test/must"
	"golang.org/x/sys/unix"
)

// An INTERRUPT ends its request's wait, in either implementation, and gets no reply itself.
func TestInterruptEndsTheWait(t *testing.T) {
	f := newTestFS()
	f.interruptible()
	k := start(t, f)
	k.serve()
	for i, msg := range [][]byte{readMessage(10, 1, 0, 4096), lkwMessage(10), readMessage(10, 1, 0, 4096)} {
		k.send(msg)
		must.Become(t, "the request at work", func() bool { return f.waiters() == i+1 })
		k.send(interruptMessage(11, 10))
		if out := k.next(); out.unique != 10 || out.status != -int32(unix.EINTR) {
			t.Fatalf("%+v", out)
		}
		k.ended()
	}
	k.send(getattrMessage(12, 1))
	if out := k.next(); out.unique != 12 {
		t.Errorf("%+v", out)
	}
}

// An interrupted request does not affect later requests in the same memory.
func TestInterruptEndsOneWaitOnly(t *testing.T) {
	f := newTestFS()
	f.interruptible()
	k := start(t, f)
	k.serve()
	const count = 50
	for i := range count {
		k.send(readMessage(10, 1, 0, 4096))
		must.Become(t, "the request at work", func() bool { return f.waiters() == i+1 })
		k.silent()
		k.send(interruptMessage(11, 10))
		if out := k.next(); out.unique != 10 {
			t.Fatalf("%+v", out)
		}
		k.ended()
	}
}

// If the request has not begun yet, the reply EAGAIN makes the kernel send the INTERRUPT again. If
// the request is already answered, the kernel drops the reply.
func TestInterruptThatComesTooEarlyOrLate(t *testing.T) {
	f := newTestFS()
	k := start(t, f)
	begin := make(chan struct{})
	k.s.workers.run = func(r *request) {
		<-begin
		k.s.serve(r)
	}
	k.serve()
	k.send(lkwMessage(10))
	k.send(interruptMessage(11, 10))
	if out := k.next(); out.unique != 11 || out.status != -int32(unix.EAGAIN) {
		t.Fatalf("before it has begun: %+v", out)
	}
	close(begin)
	must.Become(t, "the request at work", func() bool { return f.waiters() == 1 })
	k.send(interruptMessage(12, 10))
	if out := k.next(); out.unique != 10 || out.status != -int32(unix.EINTR) {
		t.Fatalf("%+v", out)
	}
	k.ended()
	for _, msg := range [][]byte{interruptMessage(13, 10), interruptMessage(13, 4711)} {
		k.send(msg)
		if out := k.next(); out.unique != 13 || out.status != -int32(unix.EAGAIN) {
			t.Errorf("after it has ended: %+v", out)
		}
	}
}

// A READ interrupted before its worker begins finds its wait ended.
func TestInterruptOfAReadThatHasNotBegun(t *testing.T) {
	f := newTestFS()
	f.interruptible()
	k := start(t, f)
	begin := make(chan struct{})
	k.s.workers.run = func(r *request) {
		<-begin
		k.s.serve(r)
	}
	k.serve()
	k.send(readMessage(10, 1, 0, 4096))
	k.send(interruptMessage(11, 10))
	k.send(interruptMessage(12, 4711)) // its reply shows that the INTERRUPT before is done
	if out := k.next(); out.unique != 12 {
		t.Fatalf("%+v", out)
	}
	close(begin)
	if out := k.next(); out.unique != 10 || out.status != -int32(unix.EINTR) {
		t.Errorf("%+v", out)
	}
}

// An INTERRUPT that is too short names no request.
func TestInterruptThatIsCut(t *testing.T) {
	k := start(t, newTestFS())
	k.serve()
	k.send(interruptMessage(11, 10)[:inHeaderLen])
	if out := k.next(); out.unique != 11 || out.status >= 0 {
		t.Errorf("%+v", out)
	}
}

// Linux may send an INTERRUPT twice, if the signal comes while the request is being read. The
// second must not get EAGAIN, because the kernel would repeat it as long as the request runs.
func TestInterruptThatComesTwice(t *testing.T) {
	f := newTestFS()
	goOn := make(chan struct{})
	f.linger = goOn
	k := start(t, f)
	k.serve()
	k.send(lkwMessage(10))
	must.Become(t, "the request at work", func() bool { return f.waiters() == 1 })
	for range 3 {
		k.send(interruptMessage(11, 10))
	}
	k.send(interruptMessage(13, 4711)) // its reply shows that both INTERRUPTs are done
	if out := k.next(); out.unique != 13 {
		t.Errorf("%+v", out)
	}
	close(goOn)
	for out := k.next(); out.unique != 10; out = k.next() {
		t.Errorf("%+v", out)
	}
}
