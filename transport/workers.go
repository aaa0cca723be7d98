// The pool of worker goroutines that run procedures which may wait.

package transport

import (
	"sync"
	"time"
)

// workerIdle is how long a worker that nobody needs stays.
const workerIdle = 30 * time.Second

// A workerPool keeps the goroutines that have run calls, the one that became
// idle last on top: it is woken first, while its stack is still in the cache.
type workerPool struct {
	run func(c *Call)

	mu     sync.Mutex
	idle   []*worker
	closed bool
	wg     sync.WaitGroup
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

// park puts w on the stack; false when it shall end instead. The bottom of the
// stack, which has been idle longest, is retired when its time has come.
func (p *workerPool) park(w *worker) bool {
	now := time.Now()
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return false
	}
	w.since = now
	p.idle = append(p.idle, w)
	if old := p.idle[0]; old != w && now.Sub(old.since) > workerIdle {
		p.idle = append(p.idle[:0], p.idle[1:]...)
		close(old.work)
	}
	return true
}

// close retires all workers and waits for them. No call may be submitted any more.
func (p *workerPool) close() {
	p.mu.Lock()
	p.closed = true
	for _, w := range p.idle {
		close(w.work)
	}
	p.idle = nil
	p.mu.Unlock()
	p.wg.Wait()
}
