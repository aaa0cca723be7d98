// The pool of worker goroutines that run procedures which may wait.

package transport

import (
	"slices"
	"sync"
	"time"

	"github.com/nfsrdma/nfsrdma/internal/lead"
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
	clock   *lead.Clock                       // of the receivers
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
	work  chan job
	since time.Time // when it became idle
}

// A job is what a worker does: it runs a call, or f.
type job struct {
	c *Call
	f func() // a receive loop
}

// A start is a job, and the worker that does it once mu is unlocked. A call has its share already;
// one whose goroutine waits in Call.Busy has no worker.
type start struct {
	job
	w *worker // nil: a new one, which wg counts already
}

// A share of a lane, as it is asked for.
type verdict uint8

const (
	shareTaken    verdict = iota
	shareQueued           // the call waits for it, and is the pool's
	shareHopeless         // calls of the connection and lane have waited in vain, and none of the lane has ended since
)

// submit makes a worker run c, now or when its turn comes. It returns false, and c is still the
// caller's, where c would wait in vain.
func (p *workerPool) submit(c *Call) bool {
	p.mu.Lock()
	v := p.admit(c, false)
	var s start
	if v == shareTaken {
		c.become(standsApart)
		s = p.assign(job{c: c})
	}
	p.mu.Unlock()
	p.start(s)
	return v != shareHopeless
}

// share is for a call with a goroutine of its own. begun: its procedure runs, and the goroutine
// waits for c.turn where c is queued; else a worker runs c later.
func (p *workerPool) share(c *Call, begun bool) verdict {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.admit(c, begun)
}

// admit gives c a share of its lane, or queues it. The caller holds mu.
func (p *workerPool) admit(c *Call, begun bool) verdict {
	l := p.line(c.via.lines(), c.lane)
	switch {
	case l.head == nil && p.mayBegin(l):
		p.begin(l)
		c.line = l
		return shareTaken
	case l.hopeless() && c.proc.Busy != nil:
		return shareHopeless
	}
	if begun {
		c.turn = make(chan bool, 1)
	}
	c.become(standsQueued)
	p.push(l, c)
	p.watchLines()
	return shareQueued
}

// assign chooses the worker of a job. The caller holds mu.
func (p *workerPool) assign(j job) start {
	n := len(p.idle) - 1
	if n < 0 {
		p.wg.Add(1)
		return start{job: j}
	}
	w := p.idle[n]
	p.idle = p.idle[:n]
	return start{j, w}
}

// start hands a job to its worker, without mu.
func (p *workerPool) start(s start) {
	switch {
	case s.c == nil && s.f == nil:
	case s.c != nil && s.c.turn != nil:
		s.c.turn <- true
	case s.w == nil:
		go p.workLoop(&worker{work: make(chan job, 1)}, s.job)
	default:
		// Never waits: the worker is off the stack, so there is no other sender, and its channel
		// holds one.
		s.w.work <- s.job
	}
}

// follow makes a worker run f, a receive loop.
func (p *workerPool) follow(f func()) {
	p.mu.Lock()
	s := p.assign(job{f: f})
	p.mu.Unlock()
	p.start(s)
}

// workLoop does jobs until it is retired. After a call it runs those that wait for a worker.
func (p *workerPool) workLoop(w *worker, j job) {
	defer p.wg.Done()
	for ok := true; ok; j, ok = <-w.work {
		stays := false
		if j.c != nil {
			stays = p.runCalls(w, j.c)
		} else {
			j.f()
			stays = p.rest(w)
		}
		if !stays {
			return
		}
	}
}

// runCalls runs c, and then calls that wait for a worker. It reports whether w is idle afterwards;
// else w ends.
func (p *workerPool) runCalls(w *worker, c *Call) (stays bool) {
	for {
		l := c.line // c is another call's when it has been run
		p.run(c)
		var more bool
		if c, more = p.done(w, l); c == nil {
			return more
		}
	}
}

// rest puts w on the stack; false when it is to end instead.
func (p *workerPool) rest(w *worker) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.park(w)
}

// release ends a call of l that no worker has run, and starts the calls that may begin after it.
func (p *workerPool) release(l *line) {
	p.mu.Lock()
	p.end(l)
	s := p.startNext(l)
	p.mu.Unlock()
	for ; s.c != nil; s = p.following(l) {
		p.start(s)
	}
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
	p.grant(next, c)
	if c.turn != nil {
		return start{job: job{c: c}}
	}
	return p.assign(job{c: c})
}

// grant gives c, which was queued, its share of the lane. The caller holds mu.
func (p *workerPool) grant(l *line, c *Call) {
	c.line = l
	c.become(standsApart)
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
	for {
		next, c := p.next(l)
		if c == nil {
			return nil, p.park(w)
		}
		p.grant(next, c)
		if c.turn == nil {
			return c, true
		}
		c.turn <- true // never waits: it holds one
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
