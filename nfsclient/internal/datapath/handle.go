// Handle: one open file, and the errors that it is told.

package datapath

import (
	"context"
)

// A Handle is one open file. Its methods may be called at once.
//
// The error of a WRITE or COMMIT that was made in the background is returned once by
// each Handle that the file had at that time: by its next Write, Sync, Flush or Close.
// A Write that returns such an error has accepted nothing.
type Handle struct {
	file *File // set once

	// guarded by File.mu
	err     error // not told yet
	streams [4]stream
	clock   uint64 // counts reads
}

// File is the File that the Handle was opened of.
func (h *Handle) File() *File { return h.file }

// told returns the error that h is to be told, once. The File's lock is held.
func (h *Handle) told() error {
	err := h.err
	h.err = nil
	return err
}

// Sync makes all that was written to the file before it stable, through whichever
// Handle (fsync).
func (h *Handle) Sync(ctx context.Context) error {
	f := h.file
	f.mu.Lock()
	defer f.unlock()
	if err := f.stable(ctx); err != nil {
		return err
	}
	return h.told()
}

// Settle is Sync that tells of its own wait alone: errors of writes are left for others to be told.
func (h *Handle) Settle(ctx context.Context) error {
	f := h.file
	f.mu.Lock()
	defer f.unlock()
	return f.stable(ctx)
}

// Flush is Sync for close(2), which may come more than once for a Handle (dup, fork).
func (h *Handle) Flush(ctx context.Context) error { return h.Sync(ctx) }

// Close ends the use of the Handle. It does not wait: data that was not flushed is
// written in the background. The error is one that the Handle was not told of yet.
func (h *Handle) Close() error { return h.file.close(h) }
