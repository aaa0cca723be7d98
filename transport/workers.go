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
// idle last on top: it is woken first, while its stack is still in the cache.
type workerPool struct {
	run func(c *Call)

	mu       sync.Mutex
	idle     []*worker
	sweep    *time.Timer // calls retire
	sweeping bool        // it is going to
	closed   bool
	wg       sync.WaitGroup
}

type worker struct {
	work  chan *Call
	since time.Time // when it became idle
}

// submit has c run on a worker. The gates of the connections bound how many there can be.
func (p *workerPool) submit(c *Call) {
	p.mu.Lock()
	if n := len(p.idle); n > 0 {
		w := p.idle[n-1]
		p.idle = p.idle[:n-1]
		p.mu.Unlock()
		w.work <- c
		return
	}
	p.wg.Add(1)
	p.mu.Unlock()
	w := &worker{work: make(chan *Call, 1)}
	go p.workLoop(w, c)
}

// workLoop runs calls until it is retired: first c, then those of the same
// connection that wait for a worker, then whatever is submitted.
func (p *workerPool) workLoop(w *worker, c *Call) {
	defer p.wg.Done()
	for ; c != nil; c = <-w.work {
		for c != nil {
			g := c.via.gate()
			p.run(c)
			c = g.done()
		}
		if !p.park(w) {
			return
		}
	}
}

// park puts w on the stack; false when it is to end instead.
func (p *workerPool) park(w *worker) bool {
	w.since = time.Now()
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return false
	}
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

// close retires all workers and waits for them. No call may be submitted any more.
func (p *workerPool) close() {
	p.mu.Lock()
	p.closed = true
	if p.sweep != nil {
		p.sweep.Stop()
	}
	for _, w := range p.idle {
		close(w.work)
	}
	p.idle = nil
	p.mu.Unlock()
	p.wg.Wait()
}
