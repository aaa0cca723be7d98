// COMMIT: counting the WRITE replies covered by each, and comparing their verifiers.

package datapath

import (
	"github.com/nfsrdma/nfsrdma/xdr/nfs3"
)

// commits tracks a File's data that the server has and may still lose. One COMMIT of a file is in
// flight at a time. A COMMIT covers each WRITE answered before the COMMIT was sent, if both replies
// have the same verifier (RFC 1813 §3.3.21).
//
// Data overwritten or truncated after its WRITE has no extent left, but the reply still counts
// here: a Sync called before the overwrite waits until a COMMIT covers the reply.
type commits struct {
	replies uint64 // WRITEs answered UNSTABLE or DATA_SYNC
	covered uint64 // replies covered by COMMITs
	losses  uint64 // COMMITs that found another verifier

	cur  uncommitted // replies not covered by a COMMIT sent yet
	sent uncommitted // replies covered by the COMMIT in flight
	gen  uint64      // number of the next COMMIT

	running bool // a COMMIT is in flight
	wanted  bool // a COMMIT has to be sent
}

// uncommitted describes the replies for one COMMIT.
type uncommitted struct {
	some  bool
	mixed bool // the verifiers differ
	verf  nfs3.Verf
	cred  Cred
	last  uint64 // number of the last reply
}

// wrote records a reply to an unstable WRITE.
func (c *commits) wrote(verf nfs3.Verf, cred Cred, mixed bool) {
	c.replies++
	u := &c.cur
	if mixed || u.some && u.verf != verf {
		// The server has restarted. Replies may arrive out of order, so only a COMMIT can find out
		// the server's present verifier.
		u.mixed, c.wanted = true, true
	}
	u.some, u.verf, u.cred, u.last = true, verf, cred, c.replies
}

// commitIfDue starts a COMMIT if c.wanted is set, or to free memory. The caller holds f.mu.
func (f *File) commitIfDue(pressed bool) {
	c := &f.commits
	if c.running || !c.cur.some {
		return
	}
	e, held := f.engine, f.bytes[unstable]
	switch {
	case c.wanted:
	case 2*held >= e.cfg.DirtyFile:
	case 2*e.bytes[unstable].Load() >= e.cfg.DirtyMount && 2*held >= e.written.usedBy(&f.written):
	case pressed && len(f.ops) == 0 && f.queueHead == nil:
	case pressed && 2*held >= e.written.usedBy(&f.written):
	default:
		return
	}
	f.commit()
}

// commit starts a COMMIT. The caller holds f.mu.
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

// runCommit sends one COMMIT without holding f.mu and handles its reply.
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

// committed handles a COMMIT's reply: it releases stable data, resends lost data. The caller holds
// f.mu.
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
			f.resend(x)
		}
	}
	switch {
	case err != nil:
		f.fail(err)
	case u.mixed || u.verf != verf:
		c.losses++
	}
	f.changed()
}
