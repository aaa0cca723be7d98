// READs in flight and notices that become due: a model with random schedules.

package fusefs

import (
	"math/rand/v2"
	"slices"
	"testing"
)

// A notice becomes due while READs of one group are in flight. It is sent when all of these have
// ended, whatever begins meanwhile. Without READs no notice waits.
func TestNoticesWaitForReads(t *testing.T) {
	for seed := range uint64(2000) {
		rnd := rand.New(rand.NewPCG(seed, 1))
		var r readGroups
		type read struct{ group int }
		var under []read
		for range 100 {
			switch n := rnd.IntN(5); {
			case n < 2:
				under = append(under, read{r.begin()})
			case n == 2:
				if deferred := r.defers(); deferred != (len(under) > 0) {
					t.Fatalf("seed %d: got deferred %t with %d READs under way", seed, deferred, len(under))
				}
			case len(under) > 0:
				i := rnd.IntN(len(under))
				group := under[i].group
				under = slices.Delete(under, i, i+1)
				due := r.end(group)
				if due && slices.ContainsFunc(under, func(u read) bool { return u.group == group }) {
					t.Fatalf("seed %d: got a notice beside a READ that it waits for", seed)
				}
			}
			for group, waits := range r.waiting {
				if waits && !slices.ContainsFunc(under, func(u read) bool { return u.group == group }) {
					t.Fatalf("seed %d: a notice waits for no READ", seed)
				}
			}
		}
	}
}

// If READs overlap without a pause, a notice is sent after those that were in flight.
func TestNewReadsDoNotPutANoticeOff(t *testing.T) {
	var r readGroups
	last := r.begin()
	for i := range 10 {
		if !r.defers() {
			t.Fatalf("round %d: got a notice at once, want it after the READ", i)
		}
		next := r.begin()
		if !r.end(last) {
			t.Fatalf("round %d: got no notice after the READ that was under way", i)
		}
		last = next
	}
	if r.end(last) {
		t.Error("got a notice that nothing made due")
	}
}
