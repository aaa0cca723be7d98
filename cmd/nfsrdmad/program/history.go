// The time of the last reload of the exports file, and the failure since.

package program

import (
	"sync"
	"time"
)

// A history has the results of reading the exports file. Unlike exportSet.mu, its lock is never
// held for long.
type history struct {
	mu      sync.Mutex // guards all below
	read    time.Time
	refused *refusedReport // nil: the last attempt succeeded
}

// note records the result of reading the file.
func (h *history) note(err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if err != nil {
		h.refused = &refusedReport{time.Now(), firstLine(err)}
		return
	}
	h.read, h.refused = time.Now(), nil
}

// last returns the time of the last successful reading, or nil, and the failure since.
func (h *history) last() (read *time.Time, refused *refusedReport) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !h.read.IsZero() {
		t := h.read
		read = &t
	}
	return read, h.refused
}
