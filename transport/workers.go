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

// A start is a call that has been counted, and the worker that is to run it once mu is unlocked.
// The zero value starts nothing.
type start struct {
	c *Call
	w *worker // nil: a new one, which wg counts already
}

// submit has c run on a worker, now or when its turn comes. With lends the receive loop may run it
// in place of a worker: to wake a thread takes longer than most calls do. It returns false, and c
// is still the caller's, where calls of the same connection and lane have waited in vain, and none
// of the lane has ended since.
func (p *workerPool) submit(c *Call, lends bool) bool {
	s, taken := p.admit(c, lends)
	p.start(s)
	return taken
}

// admit counts c, or queues it. It returns false where c waits in vain.
func (p *workerPool) admit(c *Call, lends bool) (s start, taken bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	l := p.line(c.via.lines(), c.lane)
	switch {
	case l.head == nil && p.mayBegin(l):
		p.begin(l)
		c.line = l
		if lends && c.via.lend(c) {
			p.wg.Add(1)
			return start{}, true
		}
		return p.assign(c), true
	case l.hopeless() && c.proc.Busy != nil:
		return start{}, false
	}
	p.push(l, c)
	p.watchLines()
	return start{}, true
}

// assign chooses the worker of c, which has been counted. The caller holds mu.
func (p *workerPool) assign(c *Call) start {
	n := len(p.idle) - 1
	if n < 0 {
		p.wg.Add(1)
		return start{c: c}
	}
	w := p.idle[n]
	p.idle = p.idle[:n]
	return start{c, w}
}

// start hands a call to its worker, without mu.
func (p *workerPool) start(s start) {
	switch {
	case s.c == nil:
	case s.w == nil:
		go p.workLoop(&worker{work: make(chan *Call, 1)}, s.c)
	default:
		// Never waits: the worker is off the stack, so there is no other sender, and its channel
		// holds one.
		s.w.work <- s.c
	}
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

// runLent runs a call on a receive loop, and then starts the calls that may begin after its end.
func (p *workerPool) runLent(c *Call) {
	defer p.wg.Done()
	l := c.line // c is another call's when it has been run
	p.run(c)
	for s := p.doneLent(l); s.c != nil; s = p.following(l) {
		p.start(s)
	}
}

// doneLent ends a call of l that has run on a receive loop, and returns one that may begin.
func (p *workerPool) doneLent(l *line) start {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.end(l)
	return p.startNext(l)
}

// following returns one more call that may begin after a call of l has ended: one end may make room
// in several lanes.
func (p *workerPool) following(l *line) start {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.startNext(l)
}

// startNext is the start of the next call, see schedule.next. The caller holds mu.
func (p *workerPool) startNext(l *line) start {
	next, c := p.next(l)
	if c == nil {
		return start{}
	}
	c.line = next
	return p.assign(c)
}

// done ends a call of l. It returns the next one for this worker, or puts the worker on
// the stack; more is false when it is to end instead.
func (p *workerPool) done(w *worker, l *line) (c *Call, more bool) {
	if c, more = p.take(w, l); c == nil {
		return nil, more
	}
	for s := p.following(l); s.c != nil; s = p.following(l) {
		p.start(s)
	}
	return c, true
}

// take is done for one lane.
func (p *workerPool) take(w *worker, l *line) (c *Call, more bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.end(l)
	next, c := p.next(l)
	if c == nil {
		return nil, p.park(w)
	}
	c.line = next
	return c, true
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
