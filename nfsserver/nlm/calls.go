// The procedures' work: from arguments to results, for calls with a reply and for messages.

package nlm

import (
	"bytes"
	"errors"
	"syscall"
	"time"

	"github.com/nfsrdma/nfsrdma/nfsserver"
	"github.com/nfsrdma/nfsrdma/transport"
	"github.com/nfsrdma/nfsrdma/xdr/nlm4"
)

// A request is a call about a file's byte range, after file and owner were looked up and checked.
type request struct {
	svc    *Service
	target nfsserver.Target
	owner  *owner // with a reference, which on releases; nil: the owner holds nothing
	span
	exclusive bool
}

// on looks up a lock's file, owner and range, and runs do with them. With known, on creates no
// owner: do gets a nil owner if the owner holds nothing here.
func (s *Service) on(c *transport.Call, l *nlm4.Lock, exclusive, known bool, do func(*request) nlm4.Status) (st nlm4.Status) {
	if l.Offset > lastByte {
		return nlm4.FBig
	}
	// A range beyond the last byte ends at the last byte, as a client's fcntl(2) expects.
	q := request{svc: s, span: span{l.Offset, l.Offset + l.Length - 1}, exclusive: exclusive}
	if l.Length == 0 || q.end < q.start || q.end > lastByte {
		q.end = lastByte
	}
	hk, ok := s.hostOf(c, l.Caller), ownerKey{string(l.Owner), l.Svid}
	err := s.srv.OnTarget(c, l.FH, func(t nfsserver.Target) {
		if q.target = t; known {
			q.owner = s.ledger.known(hk, ok)
		} else if q.owner = s.ledger.enter(hk, ok); q.owner == nil {
			st = nlm4.DeniedNoLocks
			return
		}
		if q.owner != nil {
			defer s.ledger.leave(q.owner, 1)
		}
		st = do(&q)
	})
	if err != nil {
		return status(err)
	}
	return st
}

// lockFile returns the request's file, locked; pair it with unlockFile.
func (q *request) lockFile() *file {
	return q.svc.lockFile(fileKey{q.target.Export, q.target.Tree, q.target.Ref})
}

// mayLock checks the caller's right to lock the file at all. For each kind of lock the caller must
// be able to read the file, or own it, as with Linux's server. The client has checked its user's
// other rights when it opened the file.
func (q *request) mayLock() error {
	t := &q.target
	a, err := t.FS.Getattr(t.Ref)
	switch {
	case err != nil:
		return err
	case a.Type != nfsserver.TypeReg:
		return syscall.EINVAL
	case q.exclusive && t.ReadOnly:
		return syscall.EROFS
	case a.UID == t.Cred.UID:
		return nil
	}
	got, err := t.FS.Access(t.Cred, t.Ref, nfsserver.MayRead)
	if err == nil && got != nfsserver.MayRead {
		err = syscall.EACCES
	}
	return err
}

// test does TEST: it returns the first conflicting lock.
func (s *Service) test(c *transport.Call, a *nlm4.TestArgs) nlm4.TestRes {
	res := nlm4.TestRes{Cookie: a.Cookie, Status: nlm4.DeniedGracePeriod}
	if s.Grace() > 0 {
		return res
	}
	res.Status = s.on(c, &a.Lock, a.Exclusive, false, func(q *request) nlm4.Status {
		if err := q.mayLock(); err != nil && !errors.Is(err, syscall.EROFS) {
			return status(err)
		}
		f := q.lockFile()
		defer s.unlockFile(f)
		found, err := f.firstConflict(q)
		if found != nil {
			res.Holder = *found
			return nlm4.Denied
		}
		return status(err)
	})
	return res
}

// firstConflict returns the first lock conflicting with a request, or nil. The owner of a local
// program's lock is unknown, so the result's owner stays empty.
func (f *file) firstConflict(q *request) (*nlm4.Holder, error) {
	if h := f.locks.conflict(q.owner, q.span, q.exclusive); h != nil {
		return &nlm4.Holder{Exclusive: h.exclusive, Svid: h.owner.key.svid, Owner: []byte(h.owner.key.object),
			Offset: h.start, Length: wireLength(h.span)}, nil
	}
	if err := f.open(q.target.Locks, q.owner.host); err != nil || f.kernel == nil {
		return nil, err
	}
	start, end, kind, err := f.kernel.Test(q.start, q.end, kindOf(q.exclusive))
	if err != nil || kind == nfsserver.Unlocked {
		return nil, err
	}
	return &nlm4.Holder{Exclusive: kind == nfsserver.Exclusive, Offset: start, Length: wireLength(span{start, end})}, nil
}

// wireLength returns a span's length for messages; 0 means "to the end of the file".
func wireLength(s span) uint64 {
	if s.end == lastByte {
		return 0
	}
	return s.end - s.start + 1
}

// lock does LOCK and, for a client without monitoring, NM_LOCK. It counts the result.
func (s *Service) lock(c *transport.Call, a *nlm4.LockArgs, monitored bool) nlm4.Status {
	return s.tally.note(s.tryLock(c, a, monitored))
}

// tryLock is lock without counting.
func (s *Service) tryLock(c *transport.Call, a *nlm4.LockArgs, monitored bool) nlm4.Status {
	hk := s.hostOf(c, a.Lock.Caller)
	if !s.inTime(hk, a.Reclaim) {
		if a.Reclaim && s.Grace() == 0 {
			return s.reclaimLate(c, a)
		}
		return nlm4.DeniedGracePeriod
	}
	return s.on(c, &a.Lock, a.Exclusive, false, func(q *request) nlm4.Status {
		if err := q.mayLock(); err != nil {
			return status(err)
		}
		// Record the client before it gets the lock, so that every client with locks is notified
		// after a restart of this server.
		if monitored {
			if err := s.monitor.watch(hk); err != nil {
				s.log.Warn("no locks: the client cannot be kept", "error", err)
				return nlm4.DeniedNoLocks
			}
		}
		s.probeNew(q.owner.host)
		f := q.lockFile()
		defer s.unlockFile(f)
		return f.lock(q, a)
	})
}

// reclaimLate does a reclaiming LOCK after the grace period. It grants only a lock that the owner
// already holds: after a restart notice a client reclaims all its locks, including those granted
// since the restart. It refuses all other locks.
func (s *Service) reclaimLate(c *transport.Call, a *nlm4.LockArgs) nlm4.Status {
	return s.on(c, &a.Lock, a.Exclusive, true, func(q *request) nlm4.Status {
		if q.owner != nil {
			f := q.lockFile()
			defer s.unlockFile(f)
			if f.locks.covers(q.owner, q.span, q.exclusive) {
				return nlm4.Granted
			}
		}
		s.log.Warn("lock lost: its client reclaims it too late", "client", string(a.Lock.Caller), "peer", c.Remote)
		return nlm4.DeniedGracePeriod
	})
}

// inTime reports whether a host can lock now. During the grace period the host can only reclaim,
// and only if it had locks in the last run. Afterwards it can only take new locks.
func (s *Service) inTime(hk hostKey, reclaim bool) bool {
	grace := s.Grace() > 0
	return grace == reclaim && (!grace || s.monitor.mayReclaim(hk))
}

// lock grants the request, queues it (NLM4_BLOCKED), or refuses it. mu is held.
func (f *file) lock(q *request, a *nlm4.LockArgs) nlm4.Status {
	if err := f.open(q.target.Locks, q.owner.host); err != nil {
		return status(err)
	}
	f.endGranted(q.owner, q.span) // a client that retries after BLOCKED may hold the lock already
	err := f.acquire(q.owner, q.span, q.exclusive)
	w := f.find(q.owner, q.span, q.exclusive)
	if errors.Is(err, errConflict) {
		if h := f.locks.conflict(q.owner, q.span, q.exclusive); h.owner.host != q.owner.host {
			f.svc.ledger.wants(h.owner.host, time.Now())
		}
	}
	switch {
	case err == nil:
		if w != nil {
			f.drop(w)
		}
		f.grant() // others may share a lock that was exclusive before
		return nlm4.Granted
	case !errors.Is(err, errConflict) && !isForeign(err):
		return status(err)
	case !a.Block:
		return nlm4.Denied
	case w == nil:
		if st := f.enqueue(q, a, isForeign(err)); st != nlm4.Blocked {
			return st
		}
	// Local programs' waits may have closed a circle since the client last asked.
	case !f.svc.waits.wait(w, f.svc.programs(isForeign(err))):
		f.drop(w)
		return nlm4.Deadlock
	}
	if isForeign(err) {
		f.svc.poll(f)
	}
	return nlm4.Blocked
}

// enqueue queues a blocking request and returns Blocked. It returns DeniedNoLocks at a bound, and
// Deadlock if waiting would close a circle. foreign: another program's lock conflicts.
func (f *file) enqueue(q *request, a *nlm4.LockArgs, foreign bool) nlm4.Status {
	if !f.svc.ledger.charge(q.owner, counts{waiters: 1}) {
		return nlm4.DeniedNoLocks
	}
	l := a.Lock
	l.Caller, l.FH, l.Owner = bytes.Clone(l.Caller), bytes.Clone(l.FH), bytes.Clone(l.Owner)
	w := &waiter{file: f, span: q.span, owner: q.owner, exclusive: q.exclusive, since: time.Now(),
		call: nlm4.TestArgs{Cookie: bytes.Clone(a.Cookie), Exclusive: a.Exclusive, Lock: l}}
	if !f.svc.waits.wait(w, f.svc.programs(foreign)) {
		f.svc.ledger.credit(q.owner, counts{waiters: 1})
		return nlm4.Deadlock
	}
	f.waiters = append(f.waiters, w)
	return nlm4.Blocked
}

// cancel does CANCEL: the client stops waiting. It takes back a lock granted in the meantime, if
// the client does not know of the grant.
func (s *Service) cancel(c *transport.Call, a *nlm4.CancelArgs) nlm4.Status {
	return s.on(c, &a.Lock, a.Exclusive, true, func(q *request) nlm4.Status {
		if q.owner == nil {
			return nlm4.Denied
		}
		f := q.lockFile()
		defer s.unlockFile(f)
		w := f.find(q.owner, q.span, q.exclusive)
		if w == nil {
			return nlm4.Denied
		}
		if w.granted {
			f.undo(w)
		}
		f.drop(w)
		f.grant()
		return nlm4.Granted
	})
}

// unlock does UNLOCK. To release unlocked bytes is no error, because the reply to an earlier UNLOCK
// may have been lost.
func (s *Service) unlock(c *transport.Call, a *nlm4.UnlockArgs) nlm4.Status {
	return s.on(c, &a.Lock, false, true, func(q *request) nlm4.Status {
		if q.owner == nil {
			return nlm4.Granted
		}
		f := q.lockFile()
		defer s.unlockFile(f)
		f.endGranted(q.owner, q.span)
		if err := f.release(q.owner, q.span); err != nil {
			return status(err)
		}
		f.grant()
		return nlm4.Granted
	})
}

// status returns an error's nlm4_stats.
func status(err error) nlm4.Status {
	switch {
	case err == nil:
		return nlm4.Granted
	case errors.Is(err, nfsserver.ErrStale), errors.Is(err, syscall.ESTALE):
		return nlm4.StaleFH
	case errors.Is(err, nfsserver.ErrBusy):
		return nlm4.DeniedGracePeriod // clients retry after the grace period
	case errors.Is(err, syscall.EROFS):
		return nlm4.ROFS
	case errors.Is(err, errNoLocks), errors.Is(err, syscall.ENOLCK), errors.Is(err, syscall.ENOMEM), errors.Is(err, syscall.EMFILE),
		errors.Is(err, syscall.ENFILE):
		return nlm4.DeniedNoLocks
	case errors.Is(err, syscall.EAGAIN):
		return nlm4.Denied
	}
	return nlm4.Failed
}
