// The receive right: each owner and each transition between them, as drawn.

package iwarp

import (
	"slices"
	"testing"

	"github.com/nfsrdma/nfsrdma/internal/wait"
)

// rightOf returns a right that callers have taken seven times.
func rightOf(o owner) *receiveRight {
	r := new(receiveRight)
	r.init()
	r.now.Store(7<<3 | uint64(o))
	return r
}

// TestReceiveRight calls each method of a right in each state in which it can be called.
func TestReceiveRight(t *testing.T) {
	all := []owner{ownerLoop, ownerWanted, ownerNone, ownerCaller, ownerRecalled}
	caller := []owner{ownerCaller, ownerRecalled}
	parked := []owner{ownerLoop, ownerNone, ownerCaller, ownerRecalled}
	for _, m := range []struct {
		name string
		do   func(*receiveRight) bool
		in   []owner // the states in which it can be called
		next map[owner]owner
		did  []owner // the states in which it reports true
	}{
		{"take", (*receiveRight).take, all, map[owner]owner{ownerNone: ownerCaller, ownerLoop: ownerWanted}, []owner{ownerNone}},
		{"release", func(r *receiveRight) bool { return r.release(false) }, caller,
			map[owner]owner{ownerCaller: ownerNone, ownerRecalled: ownerLoop}, []owner{ownerCaller}},
		{"release with an error", func(r *receiveRight) bool { return r.release(true) }, caller,
			map[owner]owner{ownerCaller: ownerLoop, ownerRecalled: ownerLoop}, nil},
		{"offer", (*receiveRight).offer, []owner{ownerLoop, ownerWanted}, map[owner]owner{ownerWanted: ownerNone}, []owner{ownerWanted}},
		{"reclaim", (*receiveRight).reclaim, parked, map[owner]owner{ownerNone: ownerLoop}, []owner{ownerNone}},
		{"recall", (*receiveRight).recall, parked, map[owner]owner{ownerCaller: ownerRecalled}, []owner{ownerCaller}},
	} {
		for _, from := range m.in {
			r := rightOf(from)
			before := r.moment()
			if got, want := m.do(r), slices.Contains(m.did, from); got != want {
				t.Errorf("%s in state %d: reports %v, want %v", m.name, from, got, want)
			}
			want, moves := m.next[from]
			if !moves {
				want = from
			}
			if got := r.owner(); got != want {
				t.Errorf("%s in state %d: is in state %d, want %d", m.name, from, got, want)
			}
			if moves && !slices.Contains(nextOwners[from], want) {
				t.Errorf("%s from %d to %d is not drawn", m.name, from, want)
			}
			if got := r.moment() == before; got == moves {
				t.Errorf("%s in state %d: the moment is the same: %v", m.name, from, got)
			}
		}
	}
}

// TestReceiveRightBackoff: after a recall, callers want the right no sooner than after many calls.
func TestReceiveRightBackoff(t *testing.T) {
	r := rightOf(ownerLoop)
	r.slow.Start()
	for range wait.Passes {
		if r.take() || r.wanted() {
			t.Fatal("a caller wants the right while replies are slow")
		}
	}
	if r.take() || !r.wanted() {
		t.Error("a caller does not want the right after the backoff")
	}
}

// TestReceiveRightMoment: the parked loop can distinguish two successive callers.
func TestReceiveRightMoment(t *testing.T) {
	r := rightOf(ownerNone)
	r.take()
	first := r.moment()
	r.release(false)
	if r.take(); r.moment() == first {
		t.Error("the second caller has the moment of the first")
	}
}

// TestReceiveRightWantedAgain: a parked loop that gets the right back runs, even if a caller
// already wants the right again.
func TestReceiveRightWantedAgain(t *testing.T) {
	for _, end := range []func(*receiveRight){
		func(r *receiveRight) { r.release(true) },              // the caller's read failed
		func(r *receiveRight) { r.recall(); r.release(false) }, // the loop has recalled it
	} {
		s := new(stream)
		s.right.init()
		s.right.now.Store(uint64(ownerCaller))
		end(&s.right)
		if s.right.take() || !s.right.wanted() {
			t.Fatalf("owner %d, want %d", s.right.owner(), ownerWanted)
		}
		s.park()
		s.regain()
	}
}
