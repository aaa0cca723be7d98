// Requests that the reader runs itself, and what comes meanwhile.

package fuseloop

import (
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// alone makes requests one after the other until the reader runs the next one itself.
func (k *kernel) alone() {
	k.t.Helper()
	for i := range uint64(aloneMin) {
		k.send(getattrMessage(1000+i, 1))
		if out := k.next(); out.unique != 1000+i {
			k.t.Fatalf("%+v", out)
		}
		k.ended()
	}
}

// A program that makes one call after the other has them run by the reader: no worker is given any.
func TestReaderRunsRequestsThatAreAlone(t *testing.T) {
	k := start(t, newTestFS())
	byWorker := make(chan uint64, 100)
	own := &k.s.reading.own
	k.s.reading.every = time.Hour // the machine may be slow
	k.s.workers.run = func(r *request) {
		if own.Load() == 0 {
			byWorker <- r.unique
		}
		k.s.serve(r)
	}
	k.serve()
	k.alone()
	if n := len(byWorker); n != aloneMin {
		t.Fatalf("workers have run %d of the first %d", n, aloneMin)
	}
	for i := range uint64(20) {
		k.send(getattrMessage(10+i, 1))
		if out := k.next(); out.unique != 10+i || out.status != 0 {
			t.Fatalf("%+v", out)
		}
		k.ended()
	}
	k.send(lkwMessage(7)) // waits by its nature
	k.send(interruptMessage(8, 7))
	for out := k.next(); out.unique != 7; out = k.next() {
		k.send(interruptMessage(8, 7)) // it had not begun
	}
	k.cut()
	if n := len(byWorker); n != aloneMin+1 {
		t.Errorf("workers have run %d requests, want %d and SETLKW", n, aloneMin)
	}
}

// A request of the reader's own that waits holds others back for a moment only, and can be interrupted; then workers get
// what comes.
func TestSlowRequestOfTheReader(t *testing.T) {
	f := newTestFS()
	f.interruptible()
	k := start(t, f)
	k.serve()
	k.alone()
	k.send(readMessage(5, 1, 0, 4096))
	eventually(t, "the READ at work", func() bool { return f.waiters() == 1 })
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
	k.alone()
	k.cut()
	if n := k.s.reading.number; n != 1 {
		t.Errorf("readers have run %d requests", n)
	}
}

// The end of the connection is seen while the reader runs a request, and ends its wait.
func TestEndWhileTheReaderRunsARequest(t *testing.T) {
	f := newTestFS()
	f.interruptible()
	k := start(t, f)
	k.serve()
	k.alone()
	k.send(readMessage(5, 1, 0, 4096))
	eventually(t, "the READ at work", func() bool { return f.waiters() == 1 })
	k.cut()
}

// Whose requests the reader runs: those that come one by one, and not after one that kept another thread waiting.
func TestWhoRunsARequest(t *testing.T) {
	var g reading
	one := &request{}
	passAll := func(want int) {
		t.Helper()
		n := 0
		for ; !g.takes(one, false); n++ {
			if n > 10*contendedPasses {
				t.Fatal("the reader runs none")
			}
		}
		if n != want {
			t.Fatalf("workers get %d requests, want %d", n, want)
		}
	}
	passAll(aloneMin)
	passAll(0)
	for what, taken := range map[string]bool{
		"one with another after it":    g.takes(one, true),
		"one beside others":            g.takes(&request{others: true}, false),
		"one that waits by its nature": !g.takesAgain() || g.takes(&request{inHeader: inHeader{opcode: opSetlkw}}, false),
	} {
		if taken {
			t.Errorf("the reader runs %s", what)
		}
	}
	g.passes = contendedPasses
	passAll(contendedPasses)
}

// takesAgain has the reader be alone again.
func (g *reading) takesAgain() bool {
	for range aloneMin {
		g.takes(&request{}, false)
	}
	return g.takes(&request{}, false)
}

// The request of another thread that was there when the reader had done one had to wait.
func TestRequestsOfTwoThreads(t *testing.T) {
	k := start(t, newTestFS())
	by := func(unique uint64, pid byte) []byte {
		msg := getattrMessage(unique, 1)
		msg[32] = pid
		return msg
	}
	g := &k.s.reading
	for _, c := range []struct {
		pid  byte
		want int
	}{{5, 0}, {0, 0}, {6, contendedPasses}} {
		g.passes, g.last = 0, 5
		k.send(by(9, c.pid))
		if n, errno := k.s.afterOwn(); errno != 0 || n == 0 || g.passes != c.want {
			t.Errorf("thread %d: %d bytes, %v, %d to pass", c.pid, n, errno, g.passes)
		}
	}
	k.s.dev.file.Close()
}
