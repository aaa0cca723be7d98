// Sync: waiting until data is at the server, and until it is stable there.

package datapath

import (
	"context"

	"github.com/nfsrdma/nfsrdma/xdr/nfs3"
)

// WriteOut waits until all data written before it is at the server, though maybe not on
// stable storage. Call it before SETATTR of mode, owner or times, which later WRITEs
// would fail by or undo, and before GETATTR where the exact mtime counts. Write
// errors are left to the Handles; the error is the context's.
func (f *File) WriteOut(ctx context.Context) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.writeOut(ctx)
}

// WriteThrough is WriteOut, and has data that one WRITE can take go to stable storage at once. Call
// it where the file is mostly closed next, as after its times were set: that close then needs no
// COMMIT.
func (f *File) WriteThrough(ctx context.Context) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.sendAlone()
	return f.writeOut(ctx)
}

// StartThrough begins a WriteThrough that is to follow.
func (f *File) StartThrough() {
	f.mu.Lock()
	defer f.unlock()
	f.sendAlone()
	f.push(f.seq)
	f.progress()
}

func (f *File) writeOut(ctx context.Context) error {
	mark := f.seq
	f.push(mark)
	f.progress()
	return f.sent(ctx, mark, 0, unbounded)
}

// sent waits until the data of Writes up to mark in [off, end) has been answered. It is
// in the queue, or will be (see due). Newer data does not prolong the wait, but data that took
// the place of older data that was not sent does, for it counts as old.
func (f *File) sent(ctx context.Context, mark uint64, off, end int64) error {
	at := off // there is nothing to wait for before it, except what came back since
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

// unsent returns an offset of [off, end) at which something of the Writes up to mark was not
// answered, or -1. So that a long list is not searched from the start after each reply, it is the
// first such extent.
func (f *File) unsent(mark uint64, off, end int64) int64 {
	for i := f.search(off); i < len(f.ext) && f.ext[i].off < end; i++ {
		if x := f.ext[i]; x.seq <= mark && x.state != unstable {
			return max(x.off, off)
		}
	}
	for _, o := range f.ops { // those whose data was overwritten since, too
		if o.seq <= mark && o.off < end && off < o.end() {
			return max(o.off, off)
		}
	}
	return -1
}

// stable waits until all data written before it is stable, or has failed. The
// File's lock is held.
//
// Each round sends what is dirty now, once, and then has one COMMIT cover the replies. A
// round during which the server was found to have restarted is not enough: what
// became dirty again by that, or took the place of data that is lost, is sent in the next one.
func (f *File) stable(ctx context.Context) error {
	c := &f.commits
	for {
		losses, mark := c.losses, f.seq
		f.push(mark)
		f.sendAlone()
		f.progress()
		if err := f.sent(ctx, mark, 0, unbounded); err != nil {
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

// sendAlone asks for FILE_SYNC where one WRITE is all there is to do, which spares the COMMIT.
func (f *File) sendAlone() {
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

// syncAll is Sync for nobody in particular. The error of a WRITE or COMMIT is returned if it
// came meanwhile.
func (f *File) syncAll(ctx context.Context) error {
	f.mu.Lock()
	defer f.unlock()
	before := f.failures
	if err := f.stable(ctx); err != nil {
		return err
	}
	if f.failures != before {
		return f.lastError
	}
	return nil
}
