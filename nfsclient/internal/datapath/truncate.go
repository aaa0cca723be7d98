// Truncate: ordering size changes with reads and writes.

package datapath

import (
	"context"
)

// Truncate orders a change of size with reads and writes. It waits for WRITEs in flight beyond
// size, then calls do, which sets the size on the server. If do returns nil, written data beyond
// size is dropped. Writes wait for do. do must not call methods of the File or its Handles.
func (f *File) Truncate(ctx context.Context, size int64, do func(context.Context) error) error {
	f.mu.Lock()
	defer f.unlock()
	for f.truncating {
		if err := f.wait(ctx); err != nil {
			return err
		}
	}
	f.truncating = true
	err := f.drain(ctx, size)
	if err == nil {
		f.mu.Unlock()
		err = do(ctx)
		f.mu.Lock()
	}
	f.truncating = false
	f.dropPieces(0, unbounded) // read before or during the change
	f.limit = -1
	if err == nil {
		f.carve(size, unbounded)
		f.limit = size
	}
	f.changed()
	return err
}

// drain waits for WRITEs beyond size. No new one starts while truncating is set.
func (f *File) drain(ctx context.Context, size int64) error {
	beyond := func() bool {
		for _, o := range f.ops {
			if o.end() > size {
				return true
			}
		}
		return false
	}
	for beyond() {
		if err := f.wait(ctx); err != nil {
			return err
		}
	}
	return nil
}
