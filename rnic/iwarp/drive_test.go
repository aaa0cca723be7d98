// Callers that take in their answers themselves: who reads when, and that no answer waits for
// nobody.

package iwarp

import (
	"net"
	"runtime"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nfsrdma/nfsrdma/internal/wait"
	"github.com/nfsrdma/nfsrdma/rnic"
	"github.com/nfsrdma/nfsrdma/rnic/iwarp/mpa"
	"github.com/nfsrdma/nfsrdma/rnic/rnictest"
)

// TestDrive: a caller that is alone runs the handler that has its answer, call after call.
func TestDrive(t *testing.T) {
	inBubble(t, func(t *testing.T, d *driven) {
		d.rest()
		for range 20 {
			took := d.drive()
			d.wantOwner(ownerCaller)
			d.answer()
			if <-took > 0 {
				t.Fatal("an answer that is there was waited for")
			}
		}
		if n := d.by[ownerCaller].Load(); n != 20 {
			t.Errorf("%d of 20 answers were handled by who waited for them", n)
		}
		time.Sleep(2 * parkTick)
		d.wantOwner(ownerLoop) // which waits for the socket again, with no clock
	})
}

// TestDriveTCP: the same on a socket, in all modes, with payload that is placed by who drives, who
// keeps his thread if that was asked for.
func TestDriveTCP(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(max(2, runtime.GOMAXPROCS(0)))) // with one processor the receive loop is always there first
	for _, cfg := range []rnic.DeviceConfig{{}, {CRC: rnic.CRCStrict}, {BlockThreads: true}} {
		a, b := pipeTCP(t)
		d := newDriven(t, cfg, a, b)
		go d.echo(b, 100_000)
		for calls := 0; d.by[ownerCaller].Load() < 100; calls++ { // a machine that is slow has fewer of them
			done := d.ask()
			d.qp.PollUntil(func() bool { // called by who drives
				if keeps := streamOf(d.qp).rx.blockThread; keeps != cfg.BlockThreads {
					t.Errorf("%v: the driver keeps his thread: %v", cfg, keeps)
				}
				return done()
			})
			if !done() {
				d.qp.EnsureReceiver()
				until(t, done)
			}
			if calls == 100_000 || d.qp.Err() != nil {
				t.Fatalf("%v: %d of %d calls: %v", cfg, d.by[ownerCaller].Load(), calls, d.qp.Err())
			}
		}
		d.qp.Close()
	}
}

// echo answers each call on c, after it has written n bytes.
func (d *driven) echo(c net.Conn, n int) {
	mr, _ := d.pd.RegMR(make([]byte, n), rnic.RemoteWrite)
	half := noise(n / 2)
	var out []byte
	for in := make([]byte, 4096); ; {
		if _, err := c.Read(in); err != nil {
			return
		}
		d.answers++
		out = mpa.AppendFPDU(out[:0], true, tagged(0x81, 0x40, mr.STag(), mr.Base(), half))
		out = mpa.AppendFPDU(out, true, tagged(0xc1, 0x40, mr.STag(), mr.Base()+uint64(n/2), half))
		out = mpa.AppendFPDU(out, true, untagged(0x41, 0x43, 0, 0, uint32(d.answers), 0, nil))
		c.Write(out)
	}
}

// TestDriveOthers: who waits beside a driver gets the answer from it, and from the receive loop
// once it has left.
func TestDriveOthers(t *testing.T) {
	inBubble(t, func(t *testing.T, d *driven) {
		took := d.begin()
		other := d.ask()
		d.qp.EnsureReceiver()
		d.qp.PollUntil(other) // somebody drives already
		if d.wantOwner(ownerCaller); other() {
			t.Fatal("answered")
		}
		d.answer()
		if <-took > 0 {
			t.Error("the driver waited for the other's answer")
		}
		d.wantOwner(ownerLoop) // at once, and not when the clock says so
		d.answer()
		if synctest.Wait(); !other() || d.by[ownerLoop].Load() != 1 {
			t.Error("nobody reads for who does not drive")
		}
	})
}

// TestRouse: who waits and does not drive has the receive loop work at once.
func TestRouse(t *testing.T) {
	inBubble(t, func(t *testing.T, d *driven) {
		d.rest()
		d.ask()
		d.qp.EnsureReceiver()
		d.wantOwner(ownerLoop)
	})
}

// TestRestIsRefused: who begins to wait while the receive loop is about to rest finds it at work.
func TestRestIsRefused(t *testing.T) {
	inBubble(t, func(t *testing.T, d *driven) {
		<-d.drive()
		d.onHandle = func() {
			if d.owner() == ownerWanted {
				d.onHandle = nil
				d.ask()
				d.qp.EnsureReceiver()
			}
		}
		d.answer()
		d.wantOwner(ownerLoop)
		if d.onHandle != nil {
			t.Error("the receive loop did not say that it is about to rest")
		}
	})
}

// TestRestIsTaken: who would drive at that moment does so, and is not refused because it waits.
func TestRestIsTaken(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1)) // with more, the receive loop can be on one that others of the machine have for longer than it is waited for
	taken := 0
	for range 20 {
		inBubble(t, func(t *testing.T, d *driven) {
			<-d.drive()
			d.onHandle = func() {
				d.onHandle = nil
				done := d.ask()
				go d.qp.PollUntil(done)
			}
			d.answer()
			if synctest.Wait(); d.owner() == ownerCaller {
				taken++
			}
			d.answer()
		})
	}
	if taken < 10 { // it does not wait for long, on a machine with no time for the receive loop
		t.Errorf("%d of 20 times", taken)
	}
}

// TestWaiterDrivesNext: a goroutine that waits for completions, since the receive loop has been
// there first, drives once it has been woken, where the scheduler has one processor too.
func TestWaiterDrivesNext(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	taken := 0
	for range 20 {
		byPipe(t, func(k *piped) {
			s := streamOf(k.qp)
			var waits atomic.Bool
			s.waiting = waits.Load
			recv(t, k.qp, 2, nil)
			ended := make(chan struct{})
			go func() {
				defer close(ended)
				var wc [1]rnic.WC
				for msg := uint64(1); msg <= 2; msg++ {
					got := false
					k.qp.PollUntil(func() bool {
						got = k.cq.Poll(wc[:]) > 0
						return got
					})
					if !got {
						waits.Store(true)
						k.qp.EnsureReceiver()
						got = k.cq.Wait(k.t.Context()) == nil && k.cq.Poll(wc[:]) > 0
						waits.Store(false)
					}
					if !got {
						k.t.Errorf("message %d: no completion", msg)
					}
					if wc[0].ID != msg || wc[0].Status != rnic.WCSuccess {
						k.t.Errorf("message %d: completion %+v", msg, wc[0])
					}
				}
			}()
			synctest.Wait()
			if r := s.right.owner(); r != ownerWanted {
				k.t.Fatalf("owner %d, want the receive loop, with a caller that wants the right", r)
			}
			var msn uint32
			k.say(messages(&msn, 1))
			synctest.Wait()
			if s.right.owner() == ownerCaller {
				taken++
			}
			k.say(messages(&msn, 1))
			<-ended
		})
	}
	if taken < 10 { // the scheduler may take the processor from who is about to drive
		t.Errorf("%d of 20 times", taken)
	}
}

// TestRecall: a driver whose answer does not come is back after two ticks, and the receive loop
// takes in what comes later; after that many calls are made before one drives again.
func TestRecall(t *testing.T) {
	inBubble(t, func(t *testing.T, d *driven) {
		if took := <-d.begin(); took > 2*parkTick {
			t.Errorf("driven for %v", took)
		}
		time.Sleep(time.Hour) // nothing is left of the interruption
		d.wantOwner(ownerLoop)
		d.answer()
		if synctest.Wait(); d.by[ownerLoop].Load() != 1 || d.qp.Err() != nil {
			t.Fatal(d.by[ownerLoop].Load(), d.qp.Err())
		}
		for range wait.Passes {
			<-d.drive()
			d.answer()
			d.wantOwner(ownerLoop)
		}
		d.rest()
	})
}

// TestRecallBusy: a driver to which much comes, but not its answer, is called back as well.
func TestRecallBusy(t *testing.T) {
	inBubble(t, func(t *testing.T, d *driven) {
		took := d.begin()
		for range 10 {
			time.Sleep(parkTick / 4)
			d.fpdu(tagged(0xc1, 0x40, 1, 0, nil))
		}
		if <-took > 2*parkTick {
			t.Error("it goes on")
		}
		d.wantOwner(ownerLoop)
	})
}

// TestDriveBesideHandler: where another goroutine runs the handler that has the answer, the driver
// does not go on to wait for what does not come.
func TestDriveBesideHandler(t *testing.T) {
	inBubble(t, func(t *testing.T, d *driven) {
		d.rest()
		wire, seen := d.ours.(*rnictest.Ready), false
		d.onHandle = func() { // the first is for the Send, on the transmit loop
			if !seen {
				seen = true
				d.answer()
				for d.owner() != ownerCaller || wire.Unread() > 0 {
					runtime.Gosched()
				}
				for range 1000 { // the driver has it handled by us, and looks whether it is done
					runtime.Gosched()
				}
			}
		}
		n := d.asked.Add(1)
		post(t, d.qp, rnic.SendWR{Op: rnic.OpSend})
		start := time.Now()
		d.qp.PollUntil(func() bool { return d.got.Load() >= n })
		if time.Since(start) > 0 || d.got.Load() < n {
			t.Errorf("%d of %d answers after %v", d.got.Load(), n, time.Since(start))
		}
	})
}

// TestDeferred: of a Send that is posted as deferred a handler is told with what comes later, or
// when it is asked for.
func TestDeferred(t *testing.T) {
	inBubble(t, func(t *testing.T, d *driven) {
		runs := 0
		d.onHandle = func() { runs++ }
		for range 3 {
			post(t, d.qp, rnic.SendWR{Op: rnic.OpSend, Deferred: true})
		}
		if synctest.Wait(); runs > 0 {
			t.Error("told at once")
		}
		d.qp.FlushDeferred()
		if synctest.Wait(); runs != 1 {
			t.Error("not told when asked for: ", runs)
		}
		post(t, d.qp, rnic.SendWR{Op: rnic.OpSend, Deferred: true}, rnic.SendWR{Op: rnic.OpSend})
		if synctest.Wait(); runs != 2 {
			t.Error("not told with one that is not deferred: ", runs)
		}
	})
}

// TestNotDriven: over a connection whose calls block nobody drives, and nobody rests.
func TestNotDriven(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ours, theirs := rnictest.ReadyPipe()
		d := newDriven(t, rnic.DeviceConfig{}, blocking{ours}, theirs)
		for range 3 {
			<-d.drive()
			d.answer()
			d.wantOwner(ownerLoop)
		}
	})
}
