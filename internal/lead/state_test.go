// The drawing of a Leader's states, compared with the changes that each method makes.

package lead

import (
	"slices"
	"testing"
	"time"
)

// TestStates calls each method in each state in which it can be called.
func TestStates(t *testing.T) {
	all := []state{receiving, ticking, running, late}
	under := []state{running, late}
	taken := map[[2]state]bool{}
	for _, m := range []struct {
		name    string
		do      func(l *Leader) (did bool)
		in      []state
		next    map[state]state // where did is true
		follows []state
	}{
		{"Begin", func(l *Leader) bool { return l.Begin() == 8 }, []state{receiving, ticking},
			map[state]state{receiving: running, ticking: running}, nil},
		{"End", func(l *Leader) bool { return l.End(7) }, all, map[state]state{running: ticking, late: ticking}, nil},
		{"End of an earlier run", func(l *Leader) bool { return l.End(6) }, all, nil, nil},
		{"Busy", func(l *Leader) bool { l.Busy(7); return l.Counts().Busy == 1 }, all,
			map[state]state{running: ticking, late: ticking}, under},
		{"Busy of an earlier run", func(l *Leader) bool { l.Busy(6); return l.Counts().Busy == 1 }, all, nil, nil},
		{"tick", func(l *Leader) bool { l.tick(); return true }, []state{ticking, running, late},
			map[state]state{ticking: receiving, running: late, late: ticking}, []state{late}},
	} {
		for _, from := range m.in {
			followers := 0
			var l Leader
			l.Init(NewClock(time.Hour), func() { followers++ })
			l.clock.add(&l)
			l.now.Store(uint64(at(7, from)))
			l.onState = func(from, to state) { taken[[2]state{from, to}] = true }
			did := m.do(&l)
			want, moves := m.next[from]
			if !moves {
				want = from
			}
			if did != moves {
				t.Errorf("%s in state %d: reports %v, want %v", m.name, from, did, moves)
			}
			if got := moment(l.now.Load()).state(); got != want {
				t.Errorf("%s in state %d: is in state %d, want %d", m.name, from, got, want)
			}
			if got, want := followers == 1, slices.Contains(m.follows, from); got != want {
				t.Errorf("%s in state %d: %d followers, want one: %v", m.name, from, followers, want)
			}
			l.clock.timer.Stop()
		}
	}
	wantDrawn(t, taken)
}

// wantDrawn checks that the transitions taken are exactly the drawn ones.
func wantDrawn(t *testing.T, taken map[[2]state]bool) {
	t.Helper()
	for arrow := range taken {
		if !slices.Contains(nexts[arrow[0]], arrow[1]) {
			t.Errorf("state %d becomes %d, which is not drawn", arrow[0], arrow[1])
		}
	}
	for from, next := range nexts {
		for _, to := range next {
			if !taken[[2]state{state(from), to}] {
				t.Errorf("state %d never becomes %d, which is drawn", from, to)
			}
		}
	}
}

// Current returns the run while the leader runs a request, and otherwise 0.
func TestCurrent(t *testing.T) {
	for s, want := range map[state]Run{receiving: 0, ticking: 0, running: 7, late: 7} {
		var l Leader
		l.now.Store(uint64(at(7, s)))
		if got := l.Current(); got != want {
			t.Errorf("state %d: run %d is under way, want %d", s, got, want)
		}
	}
}
