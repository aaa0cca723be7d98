// Workers: goroutines kept for later requests.

package fuseloop

import "sync"

// workers run requests, each at once.
type workers struct {
	run func(*request) // set once

	mu     sync.Mutex // guards all below
	idle   []chan *request
	ended  bool
	active sync.WaitGroup // all workers; only the reader adds
}

// do runs r on the last idle worker, because a CPU cache most likely has its stack, or on a new
// worker.
func (w *workers) do(r *request) {
	w.mu.Lock()
	if last := len(w.idle) - 1; last >= 0 {
		k := w.idle[last]
		w.idle = w.idle[:last]
		w.mu.Unlock()
		k <- r // never blocks: an idle worker's channel has room
		return
	}
	w.mu.Unlock()
	w.active.Go(func() { w.work(r) })
}

// work runs r and then later requests.
func (w *workers) work(r *request) {
	next := make(chan *request, 1)
	for ; r != nil; r = <-next {
		w.run(r)
		if !w.rest(next) {
			return
		}
	}
}

// rest reports whether to keep the worker idle.
func (w *workers) rest(next chan *request) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.ended || len(w.idle) >= idleMost {
		return false
	}
	w.idle = append(w.idle, next)
	return true
}

// end releases all idle workers and waits for the last request. do must not be called any more.
func (w *workers) end() {
	w.mu.Lock()
	w.ended = true
	for _, k := range w.idle {
		close(k)
	}
	w.idle = nil
	w.mu.Unlock()
	w.active.Wait()
}
