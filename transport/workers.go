// The pool of worker goroutines that run procedures which may wait.

package transport

import (
	"slices"
	"sync"
	"time"
)

// workerIdle is how long a worker that nobody needs stays.
const workerIdle = 30 * time.Second

// A workerPool keeps the goroutines that have run calls, the one that became
// idle last on top: it is woken first, while its stack is still in the cache. How
// many there are, and for whom, the lanes decide (lanes.go).
type workerPool struct {
	// Set once.
	run     func(c *Call)                     // runs a call and ends it
	shed    func(c *Call)                     // ends a call that gets no worker
	stalled func(name string, inside, of int) // calls of a lane have waited for too long; of those that run, inside are in the file system

	mu sync.Mutex // guards all below
	schedule
	idle     []*worker
	sweep    *time.Timer // calls retire
	sweeping bool        // it is going to
	watch    *time.Timer // calls look
	watching bool        // it is going to
	closed   bool
	wg       sync.WaitGroup
}

type worker struct {
	work  chan *Call
	since time.Time // when it became idle
}

// submit has c run on a worker, now or when its turn comes. It returns false, and c is still the
// caller's, where calls of the same connection and lane have waited in vain, and none of the lane
// has ended since.
func (p *workerPool) submit(c *Call) bool {
	p.mu.Lock()
	return p.submitLocked(c, false)
}

// submitLent is submit for the receive loop, which can run c itself: to give it to a worker is to
// wake a thread, and takes longer than what most calls do.
func (p *workerPool) submitLent(c *Call) bool {
	p.mu.Lock()
	return p.submitLocked(c, true)
}

// submitLocked is entered with mu locked and returns with mu unlocked.
func (p *workerPool) submitLocked(c *Call, lends bool) bool {
	l := p.line(c.via.lines(), c.lane)
	if l.head == nil && p.mayBegin(l) {
		p.begin(l)
		c.line = l
		if lends && c.via.lend(c) {
			p.wg.Add(1)
			p.mu.Unlock()
			return true
		}
		p.give(l, c) // unlocks
		return true
	}
	if l.hopeless() && c.proc.Busy != nil {
		p.mu.Unlock()
		return false
	}
	p.push(l, c)
	p.watchLines()
	p.mu.Unlock()
	return true
}

// give hands c, which has been counted, to a worker. It is entered with mu locked and
// returns with mu unlocked.
func (p *workerPool) give(l *line, c *Call) {
	c.line = l
	if n := len(p.idle); n > 0 {
		w := p.idle[n-1]
		p.idle = p.idle[:n-1]
		p.mu.Unlock()
		// Never waits: the worker is off the stack, so nobody else sends to it, and its channel
		// holds one.
		w.work <- c
		return
	}
	p.wg.Add(1)
	p.mu.Unlock()
	w := &worker{work: make(chan *Call, 1)}
	go p.workLoop(w, c)
}

// workLoop runs calls until it is retired: first c, then those that wait for a worker,
// then whatever is submitted.
func (p *workerPool) workLoop(w *worker, c *Call) {
	defer p.wg.Done()
	for ; c != nil; c = <-w.work {
		for c != nil {
			l := c.line // c is another call's when it has been run
			p.run(c)
			var more bool
			if c, more = p.done(w, l); !more {
				return
			}
		}
	}
}

// runLent runs a call on a receive loop, and gives workers to those that have waited for its end.
func (p *workerPool) runLent(c *Call) {
	defer p.wg.Done()
	l := c.line // c is another call's when it has been run
	p.run(c)
	p.mu.Lock()
	p.end(l)
	for next, c := p.next(l); c != nil; next, c = p.next(l) {
		p.give(next, c) // unlocks
		p.mu.Lock()
	}
	p.mu.Unlock()
}

// done ends a call of l. It returns the next one for this worker, or puts the worker on
// the stack; more is false when it is to end instead.
func (p *workerPool) done(w *worker, l *line) (c *Call, more bool) {
	p.mu.Lock()
	p.end(l)
	next, c := p.next(l)
	if c == nil {
		defer p.mu.Unlock()
		return nil, p.park(w)
	}
	c.line = next
	p.mu.Unlock()
	// Each time under the lock anew: give releases it, since it may have to start a goroutine.
	for { // one that ends may make room in several lanes
		p.mu.Lock()
		other, oc := p.next(l)
		if oc == nil {
			p.mu.Unlock()
			return c, true
		}
		p.give(other, oc)
	}
}

// park puts w on the stack; false when it is to end instead. The caller holds mu.
func (p *workerPool) park(w *worker) bool {
	if p.closed {
		return false
	}
	w.since = time.Now()
	p.idle = append(p.idle, w)
	if !p.sweeping {
		p.sweepIn(workerIdle)
	}
	return true
}

// sweepIn has retire called after d. The caller holds mu.
func (p *workerPool) sweepIn(d time.Duration) {
	p.sweeping = true
	if p.sweep == nil {
		p.sweep = time.AfterFunc(d, p.retire)
	} else {
		p.sweep.Reset(d)
	}
}

// retire ends the workers that have been idle for their time: the bottom of the stack. It
// comes again as long as there are others.
func (p *workerPool) retire() {
	p.mu.Lock()
	defer p.mu.Unlock()
	now, n := time.Now(), 0
	for n < len(p.idle) && now.Sub(p.idle[n].since) >= workerIdle {
		close(p.idle[n].work)
		n++
	}
	p.idle = slices.Delete(p.idle, 0, n)
	if p.sweeping = false; len(p.idle) > 0 && !p.closed {
		p.sweepIn(workerIdle - now.Sub(p.idle[0].since))
	}
}

// close retires all workers and, unless some run calls that never end, waits for them. No
// call may be submitted any more.
func (p *workerPool) close(wait bool) {
	p.mu.Lock()
	p.closed = true
	for _, t := range [...]*time.Timer{p.sweep, p.watch} {
		if t != nil {
			t.Stop()
		}
	}
	for _, w := range p.idle {
		close(w.work)
	}
	p.idle = nil
	p.mu.Unlock()
	if wait {
		p.wg.Wait()
	}
}

// running returns the names of the lanes in which calls run.
func (p *workerPool) running() (names []string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for i := range p.lanes {
		if p.lanes[i].running > 0 {
			names = append(names, p.lanes[i].name)
		}
	}
	return names
}
