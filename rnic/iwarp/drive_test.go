// Callers that receive their own replies: which goroutine receives when, and that no reply waits
// without a receiver.

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

// TestDrive: a lone caller runs the handler with its reply, call after call.
func TestDrive(t *testing.T) {
	inBubble(t, func(t *testing.T, d *driven) {
		d.rest()
		for range 20 {
			took := d.drive()
			d.wantOwner(ownerCaller)
			d.answer()
			if <-took > 0 {
				t.Fatal("the caller waits after its reply has come")
			}
		}
		if n := d.by[ownerCaller].Load(); n != 20 {
			t.Errorf("%d of 20 replies were handled by their callers", n)
		}
		time.Sleep(2 * parkTick)
		d.wantOwner(ownerLoop) // the loop waits for the socket again, without a timer
	})
}

// TestDriveTCP: a lone caller runs the handler with its reply on a socket too, in all modes, with
// payload that the caller places. If BlockThreads is set, the caller blocks its thread.
func TestDriveTCP(t *testing.T) {
	// With one processor the receive loop always comes first.
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(max(2, runtime.GOMAXPROCS(0))))
	for _, cfg := range []rnic.DeviceConfig{{}, {CRC: rnic.CRCStrict}, {BlockThreads: true}} {
		a, b := pipeTCP(t)
		d := newDriven(t, cfg, a, b)
		go d.echo(b, 100_000)
		for calls := 0; d.by[ownerCaller].Load() < 100; calls++ { // on a slow machine callers receive fewer replies
			done := d.ask()
			d.qp.PollUntil(func() bool { // called by the goroutine that receives
				if keeps := streamOf(d.qp).rx.blockThread; keeps != cfg.BlockThreads {
					t.Errorf("%v: the caller blocks its thread: %v, want %v", cfg, keeps, cfg.BlockThreads)
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

// echo answers each call on c, after n bytes of payload.
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

// TestDriveOthers: a second caller gets its reply from the caller that receives, and from the
// receive loop once the first caller has left.
func TestDriveOthers(t *testing.T) {
	inBubble(t, func(t *testing.T, d *driven) {
		took := d.begin()
		other := d.ask()
		d.qp.EnsureReceiver()
		d.qp.PollUntil(other) // another caller receives already
		if d.wantOwner(ownerCaller); other() {
			t.Fatal("the second call is answered before its reply has come")
		}
		d.answer()
		if <-took > 0 {
			t.Error("the caller that receives waited for the other's reply")
		}
		d.wantOwner(ownerLoop) // at once, not with the next tick
		d.answer()
		if synctest.Wait(); !other() || d.by[ownerLoop].Load() != 1 {
			t.Error("the second call has no receiver")
		}
	})
}

// TestEnsureReceiver: a caller that does not receive itself makes the receive loop work at once.
func TestEnsureReceiver(t *testing.T) {
	inBubble(t, func(t *testing.T, d *driven) {
		d.rest()
		d.ask()
		d.qp.EnsureReceiver()
		d.wantOwner(ownerLoop)
	})
}

// TestOfferIsReclaimed: if a caller begins to wait in the batch that precedes an offer, the receive
// loop takes the offer back and receives the caller's reply.
func TestOfferIsReclaimed(t *testing.T) {
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
			t.Error("the receive loop did not know that a caller wants the right")
		}
	})
}

// TestOfferIsTaken: a caller that begins to wait in the batch that precedes an offer takes the
// right to receive if it calls PollUntil.
func TestOfferIsTaken(t *testing.T) {
	// With several processors the caller's goroutine may start later than the receive loop yields.
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
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
	if taken < 10 { // the loop does not yield for long, and the machine may be busy
		t.Errorf("the right was taken %d of 20 times, want 10 at least", taken)
	}
}

// TestWaiterDrivesNext: a goroutine that had to wait in CQ.Wait for its first message, because the
// receive loop had the right, receives the next one itself. This holds with one processor too.
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
	if taken < 10 { // the scheduler may preempt the goroutine before it takes the right
		t.Errorf("the right was taken %d of 20 times, want 10 at least", taken)
	}
}

// TestRecall: a caller without a reply returns after two ticks, and the receive loop receives the
// late reply. Then the backoff lets many calls pass before a caller receives again.
func TestRecall(t *testing.T) {
	inBubble(t, func(t *testing.T, d *driven) {
		if took := <-d.begin(); took > 2*parkTick {
			t.Errorf("the caller received for %v, want %v at most", took, 2*parkTick)
		}
		time.Sleep(time.Hour) // the recall has no effect any more
		d.wantOwner(ownerLoop)
		d.answer()
		if synctest.Wait(); d.by[ownerLoop].Load() != 1 || d.qp.Err() != nil {
			t.Fatalf("the loop has handled %d replies, want 1; QP: %v", d.by[ownerLoop].Load(), d.qp.Err())
		}
		for range wait.Passes {
			<-d.drive()
			d.answer()
			d.wantOwner(ownerLoop)
		}
		d.rest()
	})
}

// TestRecallReceiver: a caller that the ULP recalls returns at once, and the receive loop receives
// the reply. Without a caller that receives, the ULP's recall changes nothing.
func TestRecallReceiver(t *testing.T) {
	inBubble(t, func(t *testing.T, d *driven) {
		took := d.begin()
		d.qp.RecallReceiver()
		if d := <-took; d > 0 {
			t.Errorf("the caller received for %v after the recall, want 0", d)
		}
		d.wantOwner(ownerLoop)
		d.qp.RecallReceiver()
		d.answer()
		if synctest.Wait(); d.by[ownerLoop].Load() != 1 || d.qp.Err() != nil {
			t.Fatalf("the loop has handled %d replies, want 1; QP: %v", d.by[ownerLoop].Load(), d.qp.Err())
		}
	})
}

// TestRecallBusy: a caller with much input, but no reply, is recalled as well.
func TestRecallBusy(t *testing.T) {
	inBubble(t, func(t *testing.T, d *driven) {
		took := d.begin()
		for range 10 {
			time.Sleep(parkTick / 4)
			d.fpdu(tagged(0xc1, 0x40, 1, 0, nil))
		}
		if <-took > 2*parkTick {
			t.Error("the caller goes on after two ticks")
		}
		d.wantOwner(ownerLoop)
	})
}

// TestDriveBesideHandler: while another goroutine runs the handler with the caller's reply, the
// caller does not wait for more input.
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
				for range 1000 { // the caller leaves the handler to us, and calls done
					runtime.Gosched()
				}
			}
		}
		n := d.asked.Add(1)
		post(t, d.qp, rnic.SendWR{Op: rnic.OpSend})
		start := time.Now()
		d.qp.PollUntil(func() bool { return d.got.Load() >= n })
		if time.Since(start) > 0 || d.got.Load() < n {
			t.Errorf("%d of %d replies after %v, want all at once", d.got.Load(), n, time.Since(start))
		}
	})
}

// TestDeferred: a handler is notified of a deferred Send with a later completion, or by
// FlushDeferred.
func TestDeferred(t *testing.T) {
	inBubble(t, func(t *testing.T, d *driven) {
		runs := 0
		d.onHandle = func() { runs++ }
		for range 3 {
			post(t, d.qp, rnic.SendWR{Op: rnic.OpSend, Hint: rnic.HintDeferred})
		}
		if synctest.Wait(); runs > 0 {
			t.Errorf("%d notifications at once, want 0", runs)
		}
		d.qp.FlushDeferred()
		if synctest.Wait(); runs != 1 {
			t.Errorf("%d notifications after FlushDeferred, want 1", runs)
		}
		post(t, d.qp, rnic.SendWR{Op: rnic.OpSend, Hint: rnic.HintDeferred}, rnic.SendWR{Op: rnic.OpSend})
		if synctest.Wait(); runs != 2 {
			t.Errorf("%d notifications after a Send that is not deferred, want 2", runs)
		}
	})
}

// TestNotDriven: over a connection with blocking calls, no caller receives and the loop never
// parks.
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
