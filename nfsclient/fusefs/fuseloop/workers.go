// Workers: goroutines that are kept for the requests to come.

package fuseloop

import "sync"

// idleMost is how many workers are kept with nothing to do. As many as there are requests may be at
// work.
const idleMost = 64

// workers run requests, each as soon as it is given to them.
type workers struct {
	run func(*request) // set once

	mu     sync.Mutex // guards all below
	idle   []chan *request
	ended  bool
	active sync.WaitGroup // all workers; counted up by the reader alone
}

// do has r run, by the worker that became idle last: its stack and its data are the ones most
// likely to be in a cache.
func (w *workers) do(r *request) {
	w.mu.Lock()
	if last := len(w.idle) - 1; last >= 0 {
		k := w.idle[last]
		w.idle = w.idle[:last]
		w.mu.Unlock()
		k <- r // it has room
		return
	}
	w.mu.Unlock()
	w.active.Go(func() { w.work(r) })
}

// work runs r and then what comes.
func (w *workers) work(r *request) {
	next := make(chan *request, 1)
	for ; r != nil; r = <-next {
		w.run(r)
		if !w.rest(next) {
			return
		}
	}
}

// rest reports whether the worker is kept.
func (w *workers) rest(next chan *request) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.ended || len(w.idle) >= idleMost {
		return false
	}
	w.idle = append(w.idle, next)
	return true
}

// end lets all workers go, and calls done when the last request has ended. do must not be called
// any more.
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
