// COMMIT: which replies it covers, and what its verifier means for them.

package datapath

import (
	"github.com/nfsrdma/nfsrdma/xdr/nfs3"
)

// commits is what a File knows of data that the server has and may still lose. One
// COMMIT of a file is on its way at a time. It covers each WRITE that was answered
// before it was sent, if the verifier is the same in its own reply (RFC 1813 §3.3.21).
//
// Of data that was overwritten or cut since, no extent is left, but it counts here: until
// it is covered, a Sync that was called before it was overwritten is not done.
type commits struct {
	replies uint64 // WRITEs answered UNSTABLE or DATA_SYNC
	covered uint64 // COMMITs have covered these many of them
	losses  uint64 // times that a COMMIT has found another verifier

	cur  uncommitted // replies that no COMMIT sent yet covers
	sent uncommitted // those that the COMMIT on its way covers
	gen  uint64      // number of the next COMMIT

	running bool // one is on its way
	wanted  bool // one is to be sent
}

// uncommitted describes replies that one COMMIT covers.
type uncommitted struct {
	some  bool
	mixed bool // not all have the same verifier
	verf  nfs3.Verf
	cred  Cred
	last  uint64 // the number of the last
}

// wrote records a reply whose data is not stable.
func (c *commits) wrote(verf nfs3.Verf, cred Cred, mixed bool) {
	c.replies++
	u := &c.cur
	if mixed || u.some && u.verf != verf {
		// The server has restarted. Replies may have overtaken each other, so which
		// verifier is the server's now only a COMMIT can find out.
		u.mixed, c.wanted = true, true
	}
	u.some, u.verf, u.cred, u.last = true, verf, cred, c.replies
}

// commitIfDue starts a COMMIT if one is wanted, or if memory is to be freed.
func (f *File) commitIfDue(pressed bool) {
	c := &f.commits
	if c.running || !c.cur.some {
		return
	}
	e, held := f.engine, f.bytes[unstable]
	switch {
	case c.wanted:
	case 2*held >= e.cfg.DirtyFile:
	case 2*e.bytes[unstable].Load() >= e.cfg.DirtyMount && 2*held >= e.written.heldBy(&f.written):
	case pressed && len(f.ops) == 0 && f.queueHead == nil:
	case pressed && 2*held >= e.written.heldBy(&f.written):
	default:
		return
	}
	f.commit()
}

// commit starts a COMMIT.
func (f *File) commit() {
	if f.abandoned {
		return
	}
	c := &f.commits
	c.running, c.wanted = true, false
	c.sent, c.cur = c.cur, uncommitted{}
	c.gen++
	f.engine.running.Add(1)
	go f.commitFn()
}

func (f *File) runCommit() {
	e := f.engine
	defer e.running.Done()
	f.mu.Lock()
	cred := f.commits.sent.cred
	f.mu.Unlock()
	verf, err := e.srv.Commit(e.ctx, f.fh, cred)
	e.commits.Add(1)
	f.mu.Lock()
	f.committed(verf, err)
	f.unlock()
}

// committed forgets the data that is stable, and sends the data again that may be lost.
func (f *File) committed(verf nfs3.Verf, err error) {
	c := &f.commits
	u := c.sent
	c.running, c.sent, c.covered = false, uncommitted{}, u.last
	for i := 0; i < len(f.ext); i++ {
		x := f.ext[i]
		if x.state != unstable || x.gen >= c.gen {
			continue
		}
		if err != nil || x.verf == verf {
			f.release(i)
			i--
		} else {
			f.again(x)
		}
	}
	switch {
	case err != nil:
		f.fail(err)
	case u.mixed || u.verf != verf:
		c.losses++
	}
	f.settle()
}
