// Deadlines: a time after which a function runs, set again without allocation.

package rconn

import (
	"sync"
	"sync/atomic"
	"time"
)

// A deadline is one of a connection's two deadlines. Any goroutine may call its methods.
type deadline struct {
	wake func() // set once; runs when the deadline passes, with no lock held

	past atomic.Bool // the deadline has passed; written under mu

	mu    sync.Mutex
	at    time.Time   // guarded by mu; zero: none
	timer *time.Timer // guarded by mu; nil before the first deadline
	soon  atomic.Bool // a deadline is set; written under mu
}

// passed reports whether the deadline has passed.
func (d *deadline) passed() bool { return d.past.Load() }

// pending reports whether a deadline is set, passed or not.
func (d *deadline) pending() bool { return d.soon.Load() }

// set replaces the deadline; the zero time removes it.
func (d *deadline) set(t time.Time) {
	d.mu.Lock()
	if d.timer != nil {
		d.timer.Stop()
	}
	d.at = time.Time{}
	d.soon.Store(!t.IsZero())
	wait := time.Until(t)
	past := !t.IsZero() && wait <= 0
	d.past.Store(past)
	if !t.IsZero() && !past {
		d.at = time.Now().Add(wait) // with a monotonic reading, which the timer also follows
		if d.timer == nil {
			d.timer = time.AfterFunc(wait, d.fire)
		} else {
			d.timer.Reset(wait)
		}
	}
	d.mu.Unlock()
	if past {
		d.wake()
	}
}

// fire runs when the timer does. A timer that set was too late to stop fires early, and changes
// nothing: set has started it again.
func (d *deadline) fire() {
	d.mu.Lock()
	due := !d.at.IsZero() && !time.Now().Before(d.at)
	if due {
		d.past.Store(true)
	}
	d.mu.Unlock()
	if due {
		d.wake()
	}
}

// stop removes the deadline.
func (d *deadline) stop() { d.set(time.Time{}) }
