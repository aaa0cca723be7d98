// Package tally counts the decisions of mechanisms, to show whether a mechanism pays.
package tally

import (
	"maps"
	"sync"
	"sync/atomic"
)

// Counts has one mechanism's decisions.
type Counts struct {
	Won    uint64 `json:"won"`    // it acted, and that paid
	Lost   uint64 `json:"lost"`   // it acted in vain, or for too long
	Passed uint64 `json:"passed"` // a backoff or a limit kept it from acting
}

// plus returns the sum of c and d.
func (c Counts) plus(d Counts) Counts {
	return Counts{c.Won + d.Won, c.Lost + d.Lost, c.Passed + d.Passed}
}

// Since returns the decisions after the earlier counts before.
func (c Counts) Since(before Counts) Counts {
	return Counts{c.Won - before.Won, c.Lost - before.Lost, c.Passed - before.Passed}
}

// A Counter counts decisions. Its zero value is ready. A Counter belongs to at most one connection,
// so that counting goroutines do not contend. Any goroutine may call Counts.
type Counter struct{ won, lost, passed atomic.Uint64 }

// Win counts a decision that paid.
func (c *Counter) Win() { c.won.Add(1) }

// Lose counts a decision that did not pay.
func (c *Counter) Lose() { c.lost.Add(1) }

// Note calls Win if the decision paid, and otherwise Lose.
func (c *Counter) Note(paid bool) {
	if paid {
		c.Win()
	} else {
		c.Lose()
	}
}

// Pass counts one case in which the mechanism did not act.
func (c *Counter) Pass() { c.passed.Add(1) }

// Counts returns the counts, each as of some moment during the call.
func (c *Counter) Counts() Counts { return Counts{c.won.Load(), c.lost.Load(), c.passed.Load()} }

// A Table has counts by the mechanism's name.
type Table map[string]Counts

// Add adds a mechanism's counts.
func (t Table) Add(name string, c Counts) { t[name] = t[name].plus(c) }

// AddAll adds all counts in other.
func (t Table) AddAll(other Table) {
	for name, c := range other {
		t.Add(name, c)
	}
}

// A Source is a connection with mechanisms that count.
type Source interface {
	// AddTo adds the counts to t. Any goroutine may call it.
	AddTo(t Table)
}

// A Sum adds up the counts of sources that come and go. Its zero value is ready. Its lock is held
// while a source's AddTo runs. Any goroutine may call its methods.
type Sum struct {
	mu    sync.Mutex
	live  map[Source]struct{} // guarded by mu, as is ended
	ended Table               // counts of sources that have left
}

// Join adds a source.
func (s *Sum) Join(src Source) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.live == nil {
		s.live, s.ended = map[Source]struct{}{}, Table{}
	}
	s.live[src] = struct{}{}
}

// Leave removes a source, and keeps the counts that it has by then. Its later counts are lost.
func (s *Sum) Leave(src Source) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, ok := s.live[src]; ok {
		delete(s.live, src)
		src.AddTo(s.ended)
	}
}

// Table returns the sum over all joined sources; the caller owns it.
func (s *Sum) Table() Table {
	s.mu.Lock()
	defer s.mu.Unlock()
	sum := Table{}
	maps.Copy(sum, s.ended)
	for src := range s.live {
		src.AddTo(sum)
	}
	return sum
}
