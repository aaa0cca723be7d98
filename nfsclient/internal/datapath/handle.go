// Handle: one open file and its errors.

package datapath

import (
	"context"
)

// A Handle is one open file. Its methods may be called concurrently.
//
// When a background WRITE or COMMIT fails, each open Handle returns the error once, from its next
// Write, Sync, Flush or Close. A Write that returns such an error has accepted nothing.
type Handle struct {
	file *File // set once

	// guarded by File.mu
	err     error // WRITE or COMMIT error not returned yet
	streams [4]readStream
	clock   uint64 // counts reads
}

// File returns the Handle's File.
func (h *Handle) File() *File { return h.file }

// takeErr returns and clears h's pending error. The caller holds the File's mu.
func (h *Handle) takeErr() error {
	err := h.err
	h.err = nil
	return err
}

// Sync makes stable all data written to the file so far, through any of its Handles (fsync).
func (h *Handle) Sync(ctx context.Context) error {
	f := h.file
	f.mu.Lock()
	defer f.unlock()
	if err := f.awaitStable(ctx); err != nil {
		return err
	}
	return h.takeErr()
}

// Settle is Sync, but returns only ctx's error or ErrClosed. Write errors stay pending.
func (h *Handle) Settle(ctx context.Context) error {
	f := h.file
	f.mu.Lock()
	defer f.unlock()
	return f.awaitStable(ctx)
}

// Flush is Sync for close(2), which may come more than once for a Handle (dup, fork).
func (h *Handle) Flush(ctx context.Context) error { return h.Sync(ctx) }

// Close ends the Handle. It does not wait: unflushed data is written in the background. It returns
// a pending error.
func (h *Handle) Close() error { return h.file.close(h) }
