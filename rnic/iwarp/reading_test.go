// The right to run the receive side: each state and each way between them, by the drawing.

package iwarp

import (
	"slices"
	"testing"

	"github.com/nfsrdma/nfsrdma/internal/wait"
)

// TestReading walks the drawing of reading: what each method does in each state in which it can be
// called.
func TestReading(t *testing.T) {
	all := []reader{readLoop, readEnding, readNobody, readDriver, readRecall}
	for _, m := range []struct {
		name string
		do   func(*reading) bool
		in   []reader // the states in which it can be called
		next map[reader]reader
	}{
		{"ending", (*reading).ending, []reader{readLoop}, map[reader]reader{readLoop: readEnding}},
		{"offer", func(r *reading) bool { r.offer(); return true }, []reader{readEnding}, map[reader]reader{readEnding: readNobody}},
		{"take", (*reading).take, all, map[reader]reader{readNobody: readDriver}},
		{"leave", (*reading).leave, []reader{readDriver, readRecall}, map[reader]reader{readDriver: readNobody}},
		{"handBack", func(r *reading) bool { r.handBack(nil); return len(r.back) == 1 }, []reader{readDriver, readRecall},
			map[reader]reader{readDriver: readLoop, readRecall: readLoop}},
		{"reclaim", (*reading).reclaim, []reader{readLoop, readNobody, readDriver, readRecall}, map[reader]reader{readNobody: readLoop}},
		{"recall", (*reading).recall, []reader{readLoop, readNobody, readDriver, readRecall}, map[reader]reader{readDriver: readRecall}},
	} {
		for _, from := range m.in {
			var r reading
			r.init()
			r.state.Store(from)
			r.wishes.Store(1)
			did := m.do(&r)
			want, moves := m.next[from]
			if !moves {
				want = from
			}
			if got := r.state.Load(); got != want || did != moves {
				t.Errorf("%s in state %d: %v, is %d, want %d", m.name, from, did, got, want)
			}
			if moves && !slices.Contains(readerNext[from], want) {
				t.Errorf("%s from %d to %d is not drawn", m.name, from, want)
			}
		}
	}
}

// TestReadingWishes: the receive loop rests when somebody would have driven, and after a recall not
// before many have.
func TestReadingWishes(t *testing.T) {
	var r reading
	r.init()
	if r.ending() {
		t.Error("rests with nobody to drive")
	}
	r.slow.Start()
	for range wait.Passes {
		if r.take() || r.ending() {
			t.Fatal("rests though answers are slow")
		}
	}
	if r.take() || !r.ending() {
		t.Error("does not rest")
	}
	r.rouse()
	if r.offer(); len(r.poke) != 0 || r.wishes.Load() != 0 {
		t.Error("something of an earlier time is left")
	}
	if !r.take() || r.drives.Load() != 1 {
		t.Error("cannot be taken")
	}
}
