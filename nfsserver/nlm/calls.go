// The work of the procedures: from arguments to results, whichever way they have come.

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

// A request is a call about bytes of a file, its parts found and checked.
type request struct {
	svc    *Service
	target nfsserver.Target
	owner  *owner // with a reference
	span
	exclusive bool
}

// on finds the file, the owner and the range of a lock, and runs do. known: it is about an owner
// that has something; where it has nothing, do is called with no owner.
func (s *Service) on(c *transport.Call, l *nlm4.Lock, exclusive, known bool, do func(*request) nlm4.Status) (st nlm4.Status) {
	if l.Offset > lastByte {
		return nlm4.FBig
	}
	// As fcntl(2) of a client has it, a range that goes beyond the last byte ends with it.
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

// hold returns the locked file of the request.
func (q *request) hold() *file {
	return q.svc.hold(fileKey{q.target.Export, q.target.Ref})
}

// mayLock checks that the caller may lock the file at all. As with Linux's server it needs to be
// able to read it, whichever the lock, or own it: the client has opened the file, and its user's
// rights have been checked then.
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

// test is TEST: who would be in the way.
func (s *Service) test(c *transport.Call, a *nlm4.TestArgs) nlm4.TestRes {
	res := nlm4.TestRes{Cookie: a.Cookie, Status: nlm4.DeniedGracePeriod}
	if s.Grace() > 0 {
		return res
	}
	res.Status = s.on(c, &a.Lock, a.Exclusive, false, func(q *request) nlm4.Status {
		if err := q.mayLock(); err != nil && !errors.Is(err, syscall.EROFS) {
			return status(err)
		}
		f := q.hold()
		defer s.letGo(f)
		found, err := f.inTheWay(q)
		if found != nil {
			res.Holder = *found
			return nlm4.Denied
		}
		return status(err)
	})
	return res
}

// inTheWay returns the first lock that a request conflicts with, or nil. The owner of another
// program's is not known.
func (f *file) inTheWay(q *request) (*nlm4.Holder, error) {
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

// wireLength is the length of a span in messages, where 0 is "to the end of the file".
func wireLength(s span) uint64 {
	if s.end == lastByte {
		return 0
	}
	return s.end - s.start + 1
}

// lock is LOCK and, where the client is not to be monitored, NM_LOCK.
func (s *Service) lock(c *transport.Call, a *nlm4.LockArgs, monitored bool) nlm4.Status {
	return s.tally.note(s.tryLock(c, a, monitored))
}

// tryLock is lock, not counted.
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
		// Before the lock is there: a client that has one is always told of our restart.
		if monitored {
			if err := s.monitor.watch(hk); err != nil {
				s.log.Warn("no locks: the client cannot be kept", "error", err)
				return nlm4.DeniedNoLocks
			}
		}
		s.meet(q.owner.host)
		f := q.hold()
		defer s.letGo(f)
		return f.lock(q, a)
	})
}

// reclaimLate is a LOCK that reclaims when nobody can any more. It is refused, but for what its
// owner has: a client that has been told of a restart reclaims all that it knows of, also what it
// was given since.
func (s *Service) reclaimLate(c *transport.Call, a *nlm4.LockArgs) nlm4.Status {
	return s.on(c, &a.Lock, a.Exclusive, true, func(q *request) nlm4.Status {
		if q.owner != nil {
			f := q.hold()
			defer s.letGo(f)
			if f.locks.covers(q.owner, q.span, q.exclusive) {
				return nlm4.Granted
			}
		}
		s.log.Warn("lock lost: its client reclaims it too late", "client", string(a.Lock.Caller), "peer", c.Remote)
		return nlm4.DeniedGracePeriod
	})
}

// inTime reports whether a host can lock something now: in the period of grace reclaim what it had,
// and else what is new.
func (s *Service) inTime(hk hostKey, reclaim bool) bool {
	grace := s.Grace() > 0
	return grace == reclaim && (!grace || s.monitor.mayReclaim(hk))
}

// lock gives the caller a lock, or has it wait.
func (f *file) lock(q *request, a *nlm4.LockArgs) nlm4.Status {
	if err := f.open(q.target.Locks, q.owner.host); err != nil {
		return status(err)
	}
	f.settle(q.owner, q.span) // a client that asks again after BLOCKED, and has been granted it since
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
		f.grant() // others, where an exclusive lock has become a shared one
		return nlm4.Granted
	case !errors.Is(err, errConflict) && !isForeign(err):
		return status(err)
	case !a.Block:
		return nlm4.Denied
	case w == nil:
		if st := f.enqueue(q, a, isForeign(err)); st != nlm4.Blocked {
			return st
		}
	case !f.svc.waits.wait(w, f.svc.programs(isForeign(err))): // by now: what other programs do is seen when a client asks again
		f.drop(w)
		return nlm4.Deadlock
	}
	if isForeign(err) {
		f.svc.poll(f)
	}
	return nlm4.Blocked
}

// enqueue has a request wait if it can: then the status is Blocked. foreign: another program's lock
// is in the way.
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

// cancel is CANCEL: the client does not wait any more. One that has been granted its lock
// meanwhile, without knowing, has it taken back.
func (s *Service) cancel(c *transport.Call, a *nlm4.CancelArgs) nlm4.Status {
	return s.on(c, &a.Lock, a.Exclusive, true, func(q *request) nlm4.Status {
		if q.owner == nil {
			return nlm4.Denied
		}
		f := q.hold()
		defer s.letGo(f)
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

// unlock is UNLOCK. To release what is not locked is no error: the reply to an earlier UNLOCK may
// have been lost.
func (s *Service) unlock(c *transport.Call, a *nlm4.UnlockArgs) nlm4.Status {
	return s.on(c, &a.Lock, false, true, func(q *request) nlm4.Status {
		if q.owner == nil {
			return nlm4.Granted
		}
		f := q.hold()
		defer s.letGo(f)
		f.settle(q.owner, q.span)
		if err := f.release(q.owner, q.span); err != nil {
			return status(err)
		}
		f.grant()
		return nlm4.Granted
	})
}

// status is the nlm4_stats of an error.
func status(err error) nlm4.Status {
	switch {
	case err == nil:
		return nlm4.Granted
	case errors.Is(err, nfsserver.ErrStale), errors.Is(err, syscall.ESTALE):
		return nlm4.StaleFH
	case errors.Is(err, nfsserver.ErrBusy):
		return nlm4.DeniedGracePeriod // what clients ask again after
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
