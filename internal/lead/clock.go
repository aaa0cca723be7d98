// The clock of leaders: it finds requests that take long.

package lead

import (
	"sync"
	"time"
)

// A Clock takes the right to receive from Leaders whose requests take long, and starts a follower.
// Leaders that are seldom busy at the same time, such as those of a server's connections, share one
// Clock: with separate timers, each of a thousand leaders would start and stop its timer for nearly
// every request.
type Clock struct {
	every time.Duration // set once

	mu      sync.Mutex // guards all below
	leaders []*Leader  // leaders that have begun a run since the tick before the last
	spare   []*Leader  // the other array of leaders, empty
	timer   *time.Timer
	runs    bool // the timer runs
}

// NewClock returns a stopped Clock. every is [Tick], except in tests.
func NewClock(every time.Duration) *Clock { return &Clock{every: every} }

// add adds a leader that is not among leaders, and starts the timer.
func (c *Clock) add(l *Leader) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.leaders = append(c.leaders, l)
	c.start()
}

// start starts the timer, unless it runs. The caller holds mu.
func (c *Clock) start() {
	switch {
	case c.runs:
		return
	case c.timer == nil:
		c.timer = time.AfterFunc(c.every, c.tick)
	default:
		c.timer.Reset(c.every)
	}
	c.runs = true
}

// tick runs when the timer fires. It ticks each leader, with no lock held, and keeps the leaders
// that are not idle.
func (c *Clock) tick() {
	c.mu.Lock()
	list := c.leaders
	c.leaders, c.spare = c.spare, nil
	c.mu.Unlock()
	kept := list[:0]
	for _, l := range list {
		if l.tick() {
			kept = append(kept, l)
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.leaders = append(c.leaders, kept...)
	clear(list)
	c.spare = list[:0]
	if c.runs = false; len(c.leaders) > 0 {
		c.start()
	}
}
