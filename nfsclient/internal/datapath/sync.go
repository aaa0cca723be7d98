// Sync: waiting until data is on the server, and until it is stable there.

package datapath

import (
	"context"

	"github.com/nfsrdma/nfsrdma/xdr/nfs3"
)

// WriteOut waits until all data written so far is on the server, possibly unstable. Call it before
// SETATTR of mode, owner or times: later WRITEs would fail or undo it. Call it also before GETATTR
// if the exact mtime matters. Write errors stay with the Handles; WriteOut returns the context's.
func (f *File) WriteOut(ctx context.Context) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.writeOut(ctx)
}

// WriteThrough is WriteOut, but requests FILE_SYNC if one WRITE sends all data. Call it if a close
// is likely to follow, for example after setting times: the close then needs no COMMIT.
func (f *File) WriteThrough(ctx context.Context) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.requestFileSync()
	return f.writeOut(ctx)
}

// StartThrough starts the WRITEs for a WriteThrough, which the caller calls later.
func (f *File) StartThrough() {
	f.mu.Lock()
	defer f.unlock()
	f.requestFileSync()
	f.push(f.seq)
	f.progress()
}

// writeOut is WriteOut with f.mu held. Data written after its start does not prolong it.
func (f *File) writeOut(ctx context.Context) error {
	mark := f.seq
	f.push(mark)
	f.progress()
	return f.awaitSent(ctx, mark, 0, unbounded)
}

// awaitSent waits for the replies to data in [off, end) from Writes up to mark. The data is queued,
// or queueIfDue will queue it. Newer data does not prolong the wait, unless it replaced older
// unsent data and counts as old.
func (f *File) awaitSent(ctx context.Context, mark uint64, off, end int64) error {
	at := off // data before this offset is sent, except requeued data
	for {
		if at = f.unsent(mark, at, end); at < 0 {
			if at = f.unsent(mark, off, end); at < 0 {
				return nil
			}
		}
		if err := f.wait(ctx); err != nil {
			return err
		}
	}
}

// unsent returns the first offset in [off, end) with unanswered data from Writes up to mark, or -1.
// Its caller continues there, so a long list is not searched from the start after each reply.
func (f *File) unsent(mark uint64, off, end int64) int64 {
	for i := f.search(off); i < len(f.ext) && f.ext[i].off < end; i++ {
		if x := f.ext[i]; x.seq <= mark && x.state != unstable {
			return max(x.off, off)
		}
	}
	for _, o := range f.ops { // includes data overwritten since
		if o.seq <= mark && o.off < end && off < o.end() {
			return max(o.off, off)
		}
	}
	return -1
}

// awaitStable waits until all data written so far is stable or has failed. The caller holds f.mu.
//
// Each round sends the present dirty data once, then one COMMIT covers the replies. After a server
// restart during the round another round follows. It sends data that became dirty again or replaced
// lost data.
func (f *File) awaitStable(ctx context.Context) error {
	c := &f.commits
	for {
		losses, mark := c.losses, f.seq
		f.push(mark)
		f.requestFileSync()
		f.progress()
		if err := f.awaitSent(ctx, mark, 0, unbounded); err != nil {
			return err
		}
		for need := c.replies; c.covered < need && c.losses == losses; {
			if !c.running {
				f.commit()
			}
			if err := f.wait(ctx); err != nil {
				return err
			}
		}
		if c.losses == losses {
			return nil
		}
	}
}

// requestFileSync requests FILE_SYNC if one WRITE sends all data, which saves the COMMIT.
func (f *File) requestFileSync() {
	if len(f.ext) == 0 || len(f.ops) > 0 {
		return
	}
	for i, x := range f.ext {
		if x.state != dirty || x.cred != f.ext[0].cred || f.blockEnd(x.off) != f.blockEnd(f.ext[0].off) || i > 0 && f.ext[i-1].end() != x.off {
			return
		}
	}
	for _, x := range f.ext {
		x.how = nfs3.FileSync
	}
}

// syncAll is Sync without a Handle. It returns a WRITE or COMMIT error only if the error came
// during the call.
func (f *File) syncAll(ctx context.Context) error {
	f.mu.Lock()
	defer f.unlock()
	before := f.failures
	if err := f.awaitStable(ctx); err != nil {
		return err
	}
	if f.failures != before {
		return f.lastError
	}
	return nil
}
