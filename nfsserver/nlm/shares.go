// SHARE, UNSHARE and FREE_ALL: the procedures of DOS clients.

package nlm

import (
	"github.com/nfsrdma/nfsrdma/transport"
	"github.com/nfsrdma/nfsrdma/xdr/nlm4"
)

// onShare is on for a share, which covers a whole file. Its owner has no process, so it is never
// the owner of a lock.
func (s *Service) onShare(c *transport.Call, a *nlm4.ShareArgs, known bool, do func(*request) nlm4.Status) nlm4.Status {
	l := nlm4.Lock{Caller: a.Caller, FH: a.FH, Owner: a.Owner, Svid: -1}
	return s.on(c, &l, a.Access&nlm4.ShareWrite != 0, known, do)
}

// doShare is SHARE.
func (s *Service) doShare(c *transport.Call, a *nlm4.ShareArgs) nlm4.Status {
	if !s.inTime(s.hostOf(c, a.Caller), a.Reclaim) {
		return nlm4.DeniedGracePeriod
	}
	return s.onShare(c, a, false, func(q *request) nlm4.Status {
		if err := q.mayLock(); err != nil {
			return status(err)
		}
		f := q.lockFile()
		defer s.unlockFile(f)
		return f.share(q.owner, a.Mode, a.Access)
	})
}

// doUnshare is UNSHARE. Removing a missing share is no error.
func (s *Service) doUnshare(c *transport.Call, a *nlm4.ShareArgs) nlm4.Status {
	return s.onShare(c, a, true, func(q *request) nlm4.Status {
		if q.owner != nil {
			f := q.lockFile()
			defer s.unlockFile(f)
			f.unshare(q.owner)
		}
		return nlm4.Granted
	})
}

// freeAll is FREE_ALL: the caller restarted and has no locks. It frees only locks taken from the
// caller's own address.
func (s *Service) freeAll(c *transport.Call, n *nlm4.Notify) {
	hk := s.hostOf(c, n.Name)
	for _, h := range s.ledger.hostsAt(hk.addr) {
		if h.key == hk {
			s.freeHosts([]*host{h})
		}
	}
}
