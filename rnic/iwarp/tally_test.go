// Counts of a device: the decisions of its streams.

package iwarp

import (
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/nfsrdma/nfsrdma/internal/tally"
	"github.com/nfsrdma/nfsrdma/internal/wait"
	"github.com/nfsrdma/nfsrdma/rnic"
)

// TestMechanismsOfDevice: a device has the decisions of all its streams, including ended ones.
func TestMechanismsOfDevice(t *testing.T) {
	a, b := newSide(t, rnic.DeviceConfig{}, 4), newSide(t, rnic.DeviceConfig{}, 4)
	join(t, a, b)
	names := slices.Sorted(maps.Keys(b.dev.Mechanisms()))
	if want := []string{"block", "call_yield", "caller_receive", "early_flush", "poller_mask", "spin", "yield"}; !slices.Equal(names, want) {
		t.Errorf("over TCP: mechanisms %v, want %v", names, want)
	}
	until(t, func() bool { return b.dev.Mechanisms()["spin"] != tally.Counts{} }) // b waits for input
	b.qp.Close()
	after := b.dev.Mechanisms()
	if after["spin"] == (tally.Counts{}) {
		t.Error("after the end of the stream: spin has no decisions, want some")
	}
	streamOf(b.qp).early.tally.Win()
	if got, want := b.dev.Mechanisms()["early_flush"], after["early_flush"]; got != want {
		t.Errorf("the device still asks a stream that has ended: got %+v, want %+v", got, want)
	}
}

// tallyOf returns the decisions of a QP's stream.
func tallyOf(qp *rnic.QP) tally.Table {
	t := tally.Table{}
	streamOf(qp).AddTo(t)
	return t
}

// TestCallerReceivesAreCounted: a caller that receives wins if it releases the right by itself, and
// loses if the loop recalls it. Callers refused by the backoff are passed.
func TestCallerReceivesAreCounted(t *testing.T) {
	inBubble(t, func(t *testing.T, d *driven) {
		d.rest()
		drive := func() tally.Counts { return tallyOf(d.qp)["caller_receive"] }
		before := drive()
		took := d.drive()
		d.wantOwner(ownerCaller)
		d.answer()
		<-took
		if got, want := drive().Since(before), (tally.Counts{Won: 1}); got != want {
			t.Errorf("with an answer: got %+v, want %+v", got, want)
		}
		<-d.drive() // until it is recalled
		if got, want := drive().Since(before), (tally.Counts{Won: 1, Lost: 1}); got != want {
			t.Errorf("without an answer: got %+v, want %+v", got, want)
		}
		d.wantOwner(ownerLoop)
		d.answer()
		for range wait.Passes {
			d.wantOwner(ownerLoop)
			<-d.drive()
			d.answer()
		}
		if got, want := drive().Since(before), (tally.Counts{Won: 1, Lost: 1, Passed: wait.Passes}); got != want {
			t.Errorf("in the backoff: got %+v, want %+v", got, want)
		}
	})
}

// TestEarlyFlushesAreCounted: an early flush is won if posted work leaves.
func TestEarlyFlushesAreCounted(t *testing.T) {
	answering(t, func(a *answerer, msn *uint32) {
		a.row(t, msn)
		a.batch(msn, 4)
		part := func() tally.Counts { return tallyOf(a.qp)["early_flush"] }
		if got, want := part(), (tally.Counts{}); got != want {
			t.Errorf("after a short batch: got %+v, want %+v", got, want)
		}
		a.after = []time.Duration{earlyFlushTime, earlyFlushTime}
		a.batch(msn, 4)
		if got, want := part(), (tally.Counts{Won: 1}); got != want {
			t.Errorf("after a long batch: got %+v, want %+v", got, want)
		}
	})
}
