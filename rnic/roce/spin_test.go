// When the receive loop spins before it sleeps.

package roce

import (
	"context"
	"sync/atomic"
	"testing"

	"github.com/nfsrdma/nfsrdma/rnic"
	"github.com/nfsrdma/nfsrdma/rnic/roce/udp"
)

// A spinWire counts spins and sleeps of the receive loop.
type spinWire struct {
	udp.Wire
	spins, sleeps atomic.Int64
}

func (w *spinWire) Receive(look bool) (int, error) {
	if look {
		w.spins.Add(1)
	} else {
		w.sleeps.Add(1)
	}
	return w.Wire.Receive(look)
}

// TestNoSpinAfterWakeup: the receive loop does not spin after it has woken a goroutine that waits
// for completions; if a handler takes the completions, the loop spins.
func TestNoSpinAfterWakeup(t *testing.T) {
	at, to := hosts(t)
	asking := new(spinWire)
	x, y := pairAt(t, rnic.RC, Options{Wrap: func(w udp.Wire) udp.Wire {
		if w.Local().Addr() != at {
			return w
		}
		asking.Wire = w
		return asking
	}}, 4096, at, to)
	mr, _ := y.region(64, rnic.RemoteWrite)
	wr := rnic.SendWR{Op: rnic.OpWrite, SGL: [][]byte{make([]byte, 64)}, RemoteSTag: mr.STag(), RemoteTO: mr.Base()}
	// A completion that comes before the goroutine waits causes no wakeup, so try again.
	for tries := 0; asking.sleeps.Load() == 0; tries++ {
		if tries == 50_000 {
			t.Fatal("whoever is woken waits for a look")
		}
		waits := make(chan error, 1)
		go func() { waits <- x.cq.Wait(t.Context()) }()
		x.post(wr)
		if err := <-waits; err != nil {
			t.Fatalf("waits: %v", err)
		}
		x.good(1)
	}
	done := make(chan struct{}, 1)
	x.cq.SetHandler(func() {
		var wcs [4]rnic.WC
		for x.cq.Poll(wcs[:]) > 0 {
			done <- struct{}{}
		}
	})
	write := func() {
		x.post(wr)
		select {
		case <-done:
		case <-t.Context().Done():
			t.Fatal(context.Cause(t.Context()))
		}
	}
	write() // the previous wakeup's sleep ends with its batch
	write()
	slept, looked := asking.sleeps.Load(), asking.spins.Load()
	for range 10 {
		write()
	}
	if n := asking.sleeps.Load(); n != slept || asking.spins.Load() == looked {
		t.Errorf("a handler takes the completions: %d times without a look, %d times with one", n-slept, asking.spins.Load()-looked)
	}
}
