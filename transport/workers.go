// The pool of worker goroutines for procedures that may wait, and for followers.

package transport

import (
	"slices"
	"sync"
	"time"

	"github.com/nfsrdma/nfsrdma/internal/lead"
)

// workerIdle is how long an unneeded worker stays.
const workerIdle = 30 * time.Second

// A workerPool keeps the goroutines that have run calls, the last idle one on top. The last idle
// goroutine is woken first, while its stack is still cached. The lanes decide the number and
// distribution of workers (lanes.go).
type workerPool struct {
	// Set once.
	run   func(c *Call) // runs a call and ends it
	shed  func(c *Call) // ends a call without a worker
	clock *lead.Clock   // of the receivers
	// stalled reports that calls in a lane have waited too long: inside of the running ones are
	// in the file system.
	stalled func(name string, inside, of int)

	mu sync.Mutex // guards all below
	schedule
	idle     []*worker
	sweep    *time.Timer // runs retire
	sweeping bool        // it is armed
	watch    *time.Timer // runs look
	watching bool        // it is armed
	closed   bool
	wg       sync.WaitGroup
}

type worker struct {
	work  chan job
	since time.Time // when the worker became idle
}

// A job is a worker's task: a call, or f.
type job struct {
	c *Call
	f func() // a receive loop
}

// A start is a job with the worker that runs it after mu is unlocked. A call already has its share.
// A call with a goroutine waiting in Call.Busy has no worker.
type start struct {
	job         // zero: nothing to start
	w   *worker // nil: a new worker, which wg counts already
}

// The result of a request for a share of a lane.
type shareResult uint8

const (
	shareTaken  shareResult = iota
	shareQueued             // the call waits for a share, and the pool owns the call
	// The call would wait in vain (connQueue.hopeless), or the connection has ended.
	shareHopeless
)

// submit makes a worker run c, now or later. It returns false, and the caller keeps c, if c would
// wait in vain.
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

// share requests a share for a call on its own goroutine. If begun, c's procedure runs, and the
// goroutine waits for c.turn if c is queued. Otherwise a worker runs a queued c later.
func (p *workerPool) share(c *Call, begun bool) shareResult {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.admit(c, begun)
}

// admit gives c a share of its lane, or queues it, or does neither if c would wait in vain. The
// caller holds mu.
func (p *workerPool) admit(c *Call, begun bool) shareResult {
	l := p.queueOf(c.via.queues(), c.lane)
	switch {
	case l.head == nil && p.mayBegin(l):
		p.begin(l)
		c.queue = l
		return shareTaken
	case begun && l.conn.withdrawn, l.hopeless() && c.proc.Busy != nil:
		return shareHopeless
	}
	if begun {
		c.turn = make(chan bool, 1)
	}
	c.become(standsQueued)
	p.push(l, c)
	p.watchQueues()
	return shareQueued
}

// assign chooses a job's worker. The caller holds mu.
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

// start passes a job to its worker, without mu.
func (p *workerPool) start(s start) {
	switch {
	case s.c == nil && s.f == nil:
	case s.c != nil && s.c.turn != nil:
		s.c.turn <- true
	case s.w == nil:
		go p.workLoop(&worker{work: make(chan job, 1)}, s.job)
	default:
		// The send never blocks: the worker is off the stack, so there is no other sender, and the
		// channel has a buffer of one.
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

// workLoop runs jobs until w is retired. After a call it runs waiting calls.
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

// runCalls runs c, and then waiting calls. It reports whether w is idle afterwards; otherwise w
// ends.
func (p *workerPool) runCalls(w *worker, c *Call) (stays bool) {
	for {
		l := c.queue // c may be another call after its run
		p.run(c)
		var more bool
		if c, more = p.done(w, l); c == nil {
			return more
		}
	}
}

// rest puts w on the stack; false means that it must end.
func (p *workerPool) rest(w *worker) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.park(w)
}

// release ends a call of l that no worker ran, and starts the calls that may begin now.
func (p *workerPool) release(l *connQueue) {
	p.mu.Lock()
	p.end(l)
	s := p.startNext(l)
	p.mu.Unlock()
	for ; s.c != nil; s = p.following(l) {
		p.start(s)
	}
}

// following returns another call that may begin after a call of l has ended: a call's end may make
// room in several lanes.
func (p *workerPool) following(l *connQueue) start {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.startNext(l)
}

// startNext returns the start of the next call; see schedule.next. The caller holds mu.
func (p *workerPool) startNext(l *connQueue) start {
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

// grant gives the queued c its share of the lane. The caller holds mu.
func (p *workerPool) grant(l *connQueue, c *Call) {
	c.queue = l
	c.become(standsApart)
}

// done ends a call of l. It returns the next call for this worker, or puts the worker on the stack;
// more is false if the worker must end.
func (p *workerPool) done(w *worker, l *connQueue) (c *Call, more bool) {
	if c, more = p.take(w, l); c == nil {
		return nil, more
	}
	for s := p.following(l); s.c != nil; s = p.following(l) {
		p.start(s)
	}
	return c, true
}

// take is done without starting calls for other workers.
func (p *workerPool) take(w *worker, l *connQueue) (c *Call, more bool) {
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
		c.turn <- true // never blocks: turn has a buffer of one
	}
}

// park puts w on the stack; false means that it must end. The caller holds mu.
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

// sweepIn schedules retire after d. The caller holds mu.
func (p *workerPool) sweepIn(d time.Duration) {
	p.sweeping = true
	if p.sweep == nil {
		p.sweep = time.AfterFunc(d, p.retire)
	} else {
		p.sweep.Reset(d)
	}
}

// retire ends workers idle for workerIdle: the bottom of the stack. retire reschedules itself while
// idle workers remain.
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

// close retires all workers and, if wait is set, waits for them. Workers with calls that never end
// must not be waited for. No more calls may be submitted.
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

// running returns the names of the lanes with running calls.
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
