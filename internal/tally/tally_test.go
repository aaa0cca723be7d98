// The sum over sources that come and go.

package tally

import (
	"maps"
	"testing"
)

// A counting is a source with one mechanism.
type counting struct{ c Counter }

func (c *counting) AddTo(t Table) { t.Add("poll", c.c.Counts()) }

// TestSum: the sum includes the counts of joined sources, and of sources that have left.
func TestSum(t *testing.T) {
	var s Sum
	if got := s.Table(); len(got) != 0 {
		t.Errorf("the sum of no sources is %v, want none", got)
	}
	var a, b counting
	s.Join(&a)
	s.Join(&b)
	a.c.Win()
	a.c.Lose()
	b.c.Win()
	b.c.Pass()
	want := Table{"poll": {Won: 2, Lost: 1, Passed: 1}}
	if got := s.Table(); !maps.Equal(got, want) {
		t.Errorf("two sources: got %v, want %v", got, want)
	}
	s.Leave(&a)
	s.Leave(&a)
	a.c.Win()
	if got := s.Table(); !maps.Equal(got, want) {
		t.Errorf("after one has left: got %v, want %v", got, want)
	}
	before := s.Table()
	b.c.Win()
	if got, want := s.Table()["poll"].Since(before["poll"]), (Counts{Won: 1}); got != want {
		t.Errorf("since then: got %v, want %v", got, want)
	}
}

// TestCountingAllocatesNothing: counting allocates nothing, because it is for the data path.
func TestCountingAllocatesNothing(t *testing.T) {
	var c Counter
	if n := testing.AllocsPerRun(100, func() { c.Win(); c.Lose(); c.Pass() }); n != 0 {
		t.Errorf("%v allocations for three counts, want 0", n)
	}
}
