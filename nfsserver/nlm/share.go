// Shares: the access DOS clients deny one another when opening a file. Other programs do not see
// them.

package nlm

import (
	"slices"

	"github.com/nfsrdma/nfsrdma/xdr/nlm4"
)

// A share is one open file of an owner: its own access, and the access it denies others (mode).
type share struct {
	owner        *owner
	mode, access uint32
}

// share gives o a share, replacing the owner's earlier share.
func (f *file) share(o *owner, mode, access uint32) nlm4.Status {
	mine := -1
	for i, s := range f.shares {
		switch {
		case s.owner == o:
			mine = i
		case s.access&mode != 0 || s.mode&access != 0:
			return nlm4.Denied
		}
	}
	if mine >= 0 {
		f.shares[mine] = share{o, mode, access}
		return nlm4.Granted
	}
	if !f.svc.ledger.charge(o, counts{locks: 1}) {
		return nlm4.DeniedNoLocks
	}
	f.shares = append(f.shares, share{o, mode, access})
	return nlm4.Granted
}

// unshare removes the share of o, if any.
func (f *file) unshare(o *owner) {
	f.shares = slices.DeleteFunc(f.shares, func(s share) bool {
		if s.owner != o {
			return false
		}
		f.svc.ledger.credit(o, counts{locks: 1})
		return true
	})
}

// free releases matching clients' locks, waiters and shares on the file, and returns the number of
// lost locks.
func (f *file) free(gone func(*host) bool) (lost int) {
	for _, w := range slices.Clone(f.waiters) {
		if gone(w.owner.host) {
			f.drop(w)
		}
	}
	for _, h := range slices.Clone(f.locks) {
		if gone(h.owner.host) {
			if err := f.release(h.owner, h.span); err != nil {
				f.svc.log.Warn("a lock of a client that has started again is not released", "error", err)
				continue
			}
			f.svc.tally.lost.Add(1)
			lost++
		}
	}
	for _, s := range slices.Clone(f.shares) {
		if gone(s.owner.host) {
			f.unshare(s.owner)
		}
	}
	f.grant()
	return lost
}
