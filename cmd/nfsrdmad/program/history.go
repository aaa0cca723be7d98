// When the exports file was taken in, and why a newer one was not.

package program

import (
	"sync"
	"time"
)

// A history is what has become of the exports file so far. Unlike the set of exports it is never locked for long.
type history struct {
	mu      sync.Mutex // guards all below
	read    time.Time
	refused *refusedReport // nil: the file was taken in after it
}

// note records the end of an attempt to take the file in.
func (h *history) note(err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if err != nil {
		h.refused = &refusedReport{time.Now(), firstLine(err)}
		return
	}
	h.read, h.refused = time.Now(), nil
}

// last returns when the file was taken in, nil where there is none, and the attempt that failed since.
func (h *history) last() (read *time.Time, refused *refusedReport) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !h.read.IsZero() {
		t := h.read
		read = &t
	}
	return read, h.refused
}
