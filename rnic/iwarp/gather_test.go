// Work that is kept for a moment: what is kept, and everything that has it leave.

package iwarp

import (
	"context"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nfsrdma/nfsrdma/rnic"
	"github.com/nfsrdma/nfsrdma/rnic/iwarp/mpa"
	"github.com/nfsrdma/nfsrdma/rnic/rnictest"
)

// A keeper is a QP whose program polls its CQ, and a peer that takes everything and says nothing.
type keeper struct {
	*script
	mr *rnic.MR
}

// keeping runs f with a keeper, in simulated time.
func keeping(t *testing.T, f func(k *keeper)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		ours, theirs := rnictest.ReadyPipe()
		s := newSide(t, rnic.DeviceConfig{}, 32)
		t.Cleanup(func() { theirs.Close() })
		k := &keeper{script: &script{side: s, t: t, c: theirs}}
		recv(t, s.qp, 1, nil)
		pl := &pipeListener{conns: make(chan net.Conn, 1), done: make(chan struct{})}
		l := s.dev.ListenOn(pl)
		pl.conns <- ours
		k.say(mpa.AppendFrame(nil, &mpa.Frame{CRC: true, Rev: mpa.Rev2, HasEnhanced: true, Enhanced: mpa.Enhanced{IRD: 16, ORD: 16}}))
		r, err := l.Accept(t.Context())
		if err == nil {
			err = r.Accept(s.qp, rnic.ConnParams{})
		}
		if err != nil {
			t.Fatal(err)
		}
		l.Close()
		k.hear(24)
		k.open()
		if k.mr, err = s.pd.RegMR(make([]byte, 4096), rnic.LocalWrite); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		f(k)
	})
}

// write posts an RDMA Write of n bytes, and reports whether it has left before the clock moves.
func (k *keeper) write(n int) bool {
	k.t.Helper()
	return k.left(func() {
		post(k.t, k.qp, rnic.SendWR{Op: rnic.OpWrite, RemoteSTag: 0x100, SGL: [][]byte{make([]byte, n)}})
	})
}

// left reports whether bytes leave by f, before the clock moves.
func (k *keeper) left(f func()) bool {
	before := k.qp.Moved()
	f()
	synctest.Wait()
	return k.qp.Moved() > before
}

// wants demands that what f posts leaves, or that it is kept.
func (k *keeper) wants(what string, got, want bool) {
	k.t.Helper()
	if got != want {
		k.t.Errorf("%s: leaves at once %v, want %v", what, got, want)
	}
}

// polled is how many completions there are.
func (k *keeper) polled() int {
	var wcs [64]rnic.WC
	return k.cq.Poll(wcs[:])
}

// The second post between two questions is kept, and the first when there were several before; one
// that is asked for leaves at once.
func TestSecondPostIsKept(t *testing.T) {
	keeping(t, func(k *keeper) {
		k.wants("the first", k.write(100), true)
		k.wants("the second", k.write(100), false)
		k.wants("the third", k.write(100), false)
		if n := k.polled(); n != 1 {
			t.Errorf("%d completions, want that of what has left", n)
		}
		k.wants("a question that finds nothing", k.left(func() {
			if n := k.polled(); n != 2 {
				t.Errorf("%d completions, want those of what was kept", n)
			}
		}), true)
		k.wants("one after several", k.write(100), false)
		k.wants("a wait", k.left(func() {
			if err := k.cq.Wait(k.t.Context()); err != nil {
				t.Error(err)
			}
		}), true)
		k.polled()
		k.wants("one after a single one", k.write(100), true)
	})
}

// What is kept leaves by the clock, with anything that is not kept, when there is much of it, and
// when the connection ends in good order.
func TestKeptWorkLeaves(t *testing.T) {
	for _, how := range []struct {
		name string
		do   func(k *keeper)
	}{
		{"the clock", func(*keeper) { time.Sleep(2 * keepTime) }},
		{"the clock, again", func(k *keeper) {
			time.Sleep(2 * keepTime)
			synctest.Wait()
			k.wants("kept", k.write(100), false)
			time.Sleep(2 * keepTime)
		}},
		{"a Send", func(k *keeper) { post(k.t, k.qp, rnic.SendWR{Op: rnic.OpSend, SGL: [][]byte{{1}}}) }},
		{"a Write that is not signaled", func(k *keeper) {
			post(k.t, k.qp, rnic.SendWR{Op: rnic.OpWrite, RemoteSTag: 0x100, SGL: [][]byte{{1}}, Unsignaled: true})
		}},
		{"a large Write", func(k *keeper) { k.write(17 << 10) }},
		{"many Writes", func(k *keeper) {
			for range 4 {
				k.write(16 << 10)
			}
		}},
		{"Disconnect", func(k *keeper) {
			ctx, cancel := context.WithCancel(k.t.Context())
			cancel()
			_ = k.qp.Disconnect(ctx) // the peer never answers; what was accepted has left by then
		}},
	} {
		t.Run(how.name, func(t *testing.T) {
			keeping(t, func(k *keeper) {
				k.write(100)
				k.wants("kept", k.write(100), false)
				k.wants(how.name, k.left(func() { how.do(k) }), true)
				if streamOf(k.qp).work.Outstanding() {
					t.Error("not all has left")
				}
			})
		})
	}
}

// The clock sends what is there at two of its looks, not what is kept anew, and later, by a program
// that asks for completions time and again.
func TestClockLeavesWorkToWhoAsks(t *testing.T) {
	keeping(t, func(k *keeper) {
		k.write(100)
		for range 5 {
			k.wants("kept", k.write(100), false)
			k.wants("kept until its program asks", k.left(func() { time.Sleep(keepTime * 3 / 4) }), false)
			k.wants("a question that finds nothing", k.left(func() {
				k.polled()
				k.polled()
			}), true)
			k.wants("kept", k.write(100), false)
		}
		k.wants("within a look and the next one", k.left(func() { time.Sleep(2 * keepTime) }), true)
		if streamOf(k.qp).work.Outstanding() {
			t.Error("not all has left")
		}
	})
}

// Nothing is kept where somebody waits for completions already, or where a handler has them: nobody
// would ask.
func TestNothingIsKeptForWhoDoesNotAsk(t *testing.T) {
	keeping(t, func(k *keeper) {
		for _, op := range []rnic.Opcode{rnic.OpRead, rnic.OpWrite} {
			k.polled()
			ctx, cancel := context.WithCancel(k.t.Context())
			go func() { _ = k.cq.Wait(ctx) }()
			synctest.Wait()
			for range 2 {
				wr := rnic.SendWR{Op: op, RemoteSTag: 0x100}
				if op == rnic.OpRead {
					wr.MR, wr.Length = k.mr, 16
				} else {
					wr.SGL = [][]byte{{1}}
				}
				before := k.sent()
				post(t, k.qp, wr)
				synctest.Wait()
				k.wants("beside one who waits", k.sent() > before, true)
				if op == rnic.OpWrite { // which completes, and ends the wait
					break
				}
			}
			cancel()
			synctest.Wait()
		}
		k.cq.SetHandler(func() { k.polled() })
		for range 3 {
			k.wants("with a handler", k.write(100), true)
		}
	})
}

// sent is the bytes that TCP has taken, those of Read Requests too.
func (k *keeper) sent() uint64 { return streamOf(k.qp).tx.handed.Load() }

// Reads are kept like Writes, and leave in one batch.
func TestReadsAreKept(t *testing.T) {
	keeping(t, func(k *keeper) {
		read := func() {
			post(t, k.qp, rnic.SendWR{Op: rnic.OpRead, MR: k.mr, RemoteSTag: 0x100, Length: 16})
			synctest.Wait()
		}
		read()
		first := k.sent()
		for range 5 {
			read()
		}
		if k.sent() != first {
			t.Error("left at once")
		}
		k.polled()
		synctest.Wait()
		if k.sent() != 6*first {
			t.Errorf("%d bytes, want those of six requests of %d", k.sent(), first)
		}
	})
}
