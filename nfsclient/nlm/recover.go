// After a restart of the server: reclaiming locks, or losing them.
//
// A status monitor of this machine would receive the restart notice, but passes it only to the
// kernel (notice.go covers machines without a monitor). So while there are locks the mount probes
// the connection every few seconds. It also checks each second whether other calls have
// reconnected. A new connection may mean a restart; then each lock is reclaimed. A server outside
// its grace period refuses, and the mount asks that server for the holder. If only the connection
// was lost, this mount is the holder. After a failover the new server has none of the locks. The
// mount sends it new LOCKs, which succeed for free bytes. Other clients may have locked these bytes
// in between, which the log reports.

package nlm

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/nfsrdma/nfsrdma/xdr/nlm4"
)

// Times between two checks of the connection, and between two probes: much less than any server's
// grace period.
const (
	checkEvery = time.Second
	probeEvery = 10 * time.Second
)

// watch runs while there are locks, or requests in server queues.
func (l *Locks) watch() {
	tick := time.NewTicker(checkEvery)
	defer tick.Stop()
	var last time.Time // time of the last accepted notice
	for looks := 1; ; looks++ {
		told := false
		select {
		case <-tick.C:
		case <-l.ctx.Done():
			return
		}
		if time.Since(last) >= noticeEvery {
			select {
			case <-l.notices.arrived:
				told, last = true, time.Now()
			default:
			}
		}
		l.mu.Lock()
		seen, all := l.seen, l.ownersWithLocks()
		if len(all) == 0 && l.queued == 0 {
			l.watching = false
			l.mu.Unlock()
			return
		}
		l.mu.Unlock()
		if looks%int(probeEvery/checkEvery) == 0 && l.opt.Server.NLM(l.ctx, nil, nlm4.ProcNull, nil, nil) != nil {
			continue
		}
		// Read before the calls below, because they may reconnect again.
		now := l.connID()
		if now.connects == seen.connects && !told {
			continue
		}
		_ = l.monitor(l.ctx, nil, false) // before another server gets our locks
		l.reclaimAll()
		l.mu.Lock()
		l.seen = now
		for _, f := range l.files {
			f.wakeAll() // the server's queues are gone too
		}
		l.mu.Unlock()
	}
}

// A connID identifies a connection to a server.
type connID struct{ connects, moves uint64 }

// connID returns the present connection. It reads Moves first, so that no lock counts as checked at
// a new server after a move in between; the move is only detected later.
func (l *Locks) connID() connID {
	moves := l.opt.Server.Moves()
	return connID{l.opt.Server.Connections(), moves}
}

// ownersWithLocks returns the owners with locks, oldest first. The caller holds l.mu.
func (l *Locks) ownersWithLocks() (all []*owner) {
	for _, f := range l.files {
		for _, o := range f.owners {
			if len(o.locked) > 0 {
				all = append(all, o)
			}
		}
	}
	slices.SortFunc(all, func(a, b *owner) int { return cmp.Compare(a.svid, b.svid) })
	return all
}

// reclaimAll reclaims all locks. It defers an owner with a call in flight: a server may delay that
// call until its grace period ends.
func (l *Locks) reclaimAll() {
	l.mu.Lock()
	left := l.ownersWithLocks()
	for _, o := range left {
		o.refs++
	}
	l.mu.Unlock()
	var f reclaimResult
	for len(left) > 0 {
		var busy []*owner
		for _, o := range left {
			select {
			case o.slot <- struct{}{}:
				l.reclaimOf(o, l.lockedIn(o, allBytes), &f)
				<-o.slot
				l.unref(o)
			default:
				busy = append(busy, o)
			}
		}
		if left = busy; len(left) > 0 && l.pause(l.ctx, pollLeast) != nil {
			for _, o := range left {
				l.unref(o)
			}
			break
		}
	}
	l.logReclaimed(&f)
}

// A reclaimResult counts lost locks, and locks taken again at another server.
type reclaimResult struct {
	lost, anew int
	until      time.Time // end of retries at another server; zero: not set yet
}

func (l *Locks) logReclaimed(f *reclaimResult) {
	if f.lost > 0 && l.ctx.Err() == nil {
		l.log(fmt.Sprintf("locks that are lost: %d; the server has started again, or is another one, and did not give them back", f.lost))
	}
	if f.anew > 0 && l.ctx.Err() == nil {
		l.log(fmt.Sprintf("locks that were taken again at another server: %d; others may have held them meanwhile", f.anew))
	}
}

// reclaimRest reclaims an owner's locks outside a span being released; nil: all. The caller holds
// the owner's slot.
func (l *Locks) reclaimRest(o *owner, released *span) {
	rest := l.lockedIn(o, allBytes)
	if released != nil {
		rest = rest.without(*released)
	}
	var f reclaimResult
	l.reclaimOf(o, rest, &f)
	l.logReclaimed(&f)
}

// reclaimOf reclaims locks of an owner. The caller holds its slot.
func (l *Locks) reclaimOf(o *owner, held ranges, f *reclaimResult) {
	for _, s := range held {
		switch {
		case l.reclaim(o, s):
		case l.moved() && l.lockAgain(o, s, f):
			f.anew++
		default:
			l.dropped(o, s)
			f.lost++
		}
	}
}

// moved reports whether the server has changed since the last check.
func (l *Locks) moved() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.seen.moves != l.opt.Server.Moves()
}

// goneMost bounds the wait for a dead server's locks on shared files to disappear: its process is
// about to end.
const goneMost = 5 * time.Second

// lockAgain takes a lock at a server that lacks it. All locks of one check share goneMost.
func (l *Locks) lockAgain(o *owner, s span, f *reclaimResult) bool {
	if f.until.IsZero() {
		f.until = time.Now().Add(goneMost)
	}
	for {
		r := l.lock(o, s, false, false)
		switch {
		case r.err == nil && r.status == nlm4.Granted:
			return true
		case isRefused(r.err), r.err == nil && !mayChange(r.status, f.until), l.pause(l.ctx, pollMost/10) != nil:
			return false
		}
	}
}

// mayChange reports whether a retry may get a lock refused with st. A missing file is final.
func mayChange(st nlm4.Status, until time.Time) bool {
	return st == nlm4.DeniedGracePeriod || st == nlm4.Denied && !time.Now().After(until)
}

// reclaim reports whether the owner holds s as before. It waits for a silent server.
func (l *Locks) reclaim(o *owner, s span) bool {
	for {
		r := l.lock(o, s, false, true)
		// Servers also answer a reclaim with this status outside a grace period.
		if r.err == nil && r.status == nlm4.DeniedGracePeriod {
			var known bool
			if r.status, known = l.stillLocked(o, s); known {
				return r.status == nlm4.Granted
			}
		} else if r.err == nil {
			return r.status == nlm4.Granted
		}
		if l.pause(l.ctx, graceWait) != nil {
			return true
		}
	}
}

// stillLocked asks for the holder of s: Granted means that o is the holder. known is false without
// an answer.
func (l *Locks) stillLocked(o *owner, s span) (st nlm4.Status, known bool) {
	full := s
	full.exclusive = true
	res, err := l.test(l.ctx, o.fh, l.probe, full, l.credOf(o))
	switch {
	case err != nil || res.Status == nlm4.DeniedGracePeriod:
		return 0, false
	case res.Status != nlm4.Denied:
		return nlm4.Denied, true
	case l.isOwn(&res.Holder, o.svid):
		return nlm4.Granted, true
	}
	// Linux's server does not identify the holder: the svid is its own thread number. But an
	// owner's locks do not conflict with its own TEST. So if no other owner conflicts, the holder
	// is the owner.
	others, err := l.test(l.ctx, o.fh, o.svid, full, l.credOf(o))
	switch {
	case err != nil || others.Status == nlm4.DeniedGracePeriod:
		return 0, false
	case others.Status != nlm4.Denied:
		// Another owner may have released its lock between the two calls. If so, s is free now.
		again, err := l.test(l.ctx, o.fh, l.probe, full, l.credOf(o))
		if err != nil || again.Status == nlm4.DeniedGracePeriod {
			return 0, false
		}
		if again.Status != nlm4.Denied {
			return nlm4.Denied, true
		}
		return others.Status, true
	case others.Holder.Exclusive || s.exclusive:
		return nlm4.Denied, true
	}
	// Other owners share the lock. While they do, no client can have written since we lost it.
	r := l.lock(o, s, false, false)
	return r.status, r.err == nil && r.status != nlm4.DeniedGracePeriod
}
