// The server's sequence window (RFC 2203 §5.3.3.1).

package gss

import "sync"

// A window remembers which of the last windowSize sequence numbers have been seen. The highest
// number seen is the window's end.
type window struct {
	mu   sync.Mutex // guards all: a context's calls arrive over several connections
	last uint32
	seen [windowSize / 64]uint64 // a bit for each number modulo windowSize
}

// fresh reports whether seq would be taken now. For a replayed call it saves the check of the MIC
// (RFC 2203 §7.2.2).
func (w *window) fresh(seq uint32) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.mayTake(seq)
}

// take marks seq as seen, and moves the window. It returns false for a number that is repeated or
// below the window. Call it only for a call with a valid MIC: a forged number could move the
// window.
func (w *window) take(seq uint32) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.mayTake(seq) {
		return false
	}
	if seq > w.last {
		if seq-w.last >= windowSize {
			clear(w.seen[:])
		} else {
			for n := w.last + 1; n != seq; n++ {
				w.seen[n%windowSize/64] &^= 1 << (n % 64)
			}
		}
		w.last = seq
	}
	w.seen[seq%windowSize/64] |= 1 << (seq % 64)
	return true
}

// mayTake is fresh under mu.
func (w *window) mayTake(seq uint32) bool {
	switch {
	case seq > w.last:
		return true
	case w.last-seq >= windowSize:
		return false
	}
	return w.seen[seq%windowSize/64]&(1<<(seq%64)) == 0
}
