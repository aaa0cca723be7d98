// After a restart of the server: locks are reclaimed, and those that cannot be are lost.
//
// A status monitor of this machine would be told of the restart, but programs cannot ask it: it
// tells the kernel alone (notice.go is for machines without). So as long as there are locks the
// connection is tried every few seconds, and looked at each second, since what else goes over it
// may have found it lost. A new connection may mean a restart; then each lock is reclaimed. A
// server that is not in its period of grace refuses that, and is asked who holds the bytes: we do
// where only the connection was lost. Another server of the same files, which has taken the place
// of a dead one, knows nothing of the locks: where nobody holds them there they are taken anew.
// Others may have held them in between, which the log says.

package nlm

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/nfsrdma/nfsrdma/xdr/nlm4"
)

// Between two looks at the connection, and two calls that try it: much less than the grace of any
// server.
const (
	lookEvery  = time.Second
	probeEvery = 10 * time.Second
)

// watch runs while there are locks, or requests in queues of the server.
func (l *Locks) watch() {
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	var last time.Time // that a notice counted
	for looks := 1; ; looks++ {
		told := false
		select {
		case <-tick.C:
		case <-l.ctx.Done():
			return
		}
		if time.Since(last) >= noticeEvery {
			select {
			case <-l.notices.told:
				told, last = true, time.Now()
			default:
			}
		}
		l.mu.Lock()
		seen, all := l.seen, l.holding()
		if len(all) == 0 && l.queued == 0 {
			l.watching = false
			l.mu.Unlock()
			return
		}
		l.mu.Unlock()
		if looks%int(probeEvery/lookEvery) == 0 && l.opt.Server.NLM(l.ctx, nil, nlm4.ProcNull, nil, nil) != nil {
			continue
		}
		now := l.place() // before the calls below, which may need yet another
		if now.connects == seen.connects && !told {
			continue
		}
		_ = l.monitor(l.ctx, nil, false) // before another server has locks of ours
		l.reclaimAll()
		l.mu.Lock()
		l.seen = now
		for _, f := range l.files {
			f.wakeAll() // the queues of the server are gone, too
		}
		l.mu.Unlock()
	}
}

// A place is a connection to a server.
type place struct{ connects, moves uint64 }

// place is the one of the moment. Moves is read first: a move in between is seen late, but no lock
// is then taken for checked at the new server.
func (l *Locks) place() place {
	moves := l.opt.Server.Moves()
	return place{l.opt.Server.Connections(), moves}
}

// holding are the owners with locks, the oldest first. mu is held.
func (l *Locks) holding() (all []*owner) {
	for _, f := range l.files {
		for _, o := range f.owners {
			if len(o.held) > 0 {
				all = append(all, o)
			}
		}
	}
	slices.SortFunc(all, func(a, b *owner) int { return cmp.Compare(a.svid, b.svid) })
	return all
}

// reclaimAll reclaims what is held. An owner with a call under way is taken later: a server in its
// period of grace may keep that call waiting until it is over.
func (l *Locks) reclaimAll() {
	l.mu.Lock()
	left := l.holding()
	for _, o := range left {
		o.refs++
	}
	l.mu.Unlock()
	var f fate
	for len(left) > 0 {
		var busy []*owner
		for _, o := range left {
			select {
			case o.slot <- struct{}{}:
				l.reclaimOf(o, l.heldIn(o, allBytes), &f)
				<-o.slot
				l.leave(o)
			default:
				busy = append(busy, o)
			}
		}
		if left = busy; len(left) > 0 && l.pause(l.ctx, pollLeast) != nil {
			for _, o := range left {
				l.leave(o)
			}
			break
		}
	}
	l.say(&f)
}

// A fate is what has become of locks.
type fate struct {
	lost, anew int
	until      time.Time // how long what another server does not give is asked for again; zero: not yet known
}

func (l *Locks) say(f *fate) {
	if f.lost > 0 && l.ctx.Err() == nil {
		l.log(fmt.Sprintf("locks that are lost: %d; the server has started again, or is another one, and did not give them back", f.lost))
	}
	if f.anew > 0 && l.ctx.Err() == nil {
		l.log(fmt.Sprintf("locks that were taken again at another server: %d; others may have held them meanwhile", f.anew))
	}
}

// reclaimRest reclaims what an owner holds beside a span that is being released; nil: all. Its slot
// is held.
func (l *Locks) reclaimRest(o *owner, released *span) {
	rest := l.heldIn(o, allBytes)
	if released != nil {
		rest = rest.without(*released)
	}
	var f fate
	l.reclaimOf(o, rest, &f)
	l.say(&f)
}

// reclaimOf reclaims locks of an owner, whose slot is held.
func (l *Locks) reclaimOf(o *owner, held ranges, f *fate) {
	for _, s := range held {
		switch {
		case l.reclaim(o, s):
		case l.moved() && l.takeAnew(o, s, f):
			f.anew++
		default:
			l.dropped(o, s)
			f.lost++
		}
	}
}

// moved reports whether the server is another one than that of the last check.
func (l *Locks) moved() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.seen.moves != l.opt.Server.Moves()
}

// goneMost is how long a dead server may take to let go of what its files have locked: its process
// is about to end.
const goneMost = 5 * time.Second

// takeAnew takes a lock at a server that knows nothing of it. Those of one check share the time.
func (l *Locks) takeAnew(o *owner, s span, f *fate) bool {
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

// mayChange reports whether a lock that is refused with a status may be given to who asks again:
// not where the file is gone there.
func mayChange(st nlm4.Status, until time.Time) bool {
	return st == nlm4.DeniedGracePeriod || st == nlm4.Denied && !time.Now().After(until)
}

// reclaim reports whether the owner holds s as before. It waits for a server that does not answer.
func (l *Locks) reclaim(o *owner, s span) bool {
	for {
		r := l.lock(o, s, false, true)
		if r.err == nil && r.status == nlm4.DeniedGracePeriod { // which is also what one says that is not in it
			var known bool
			if r.status, known = l.stillHeld(o, s); known {
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

// stillHeld asks who holds s: Granted is the owner. known: the server has said.
func (l *Locks) stillHeld(o *owner, s span) (st nlm4.Status, known bool) {
	full := s
	full.exclusive = true
	res, err := l.test(l.ctx, o.fh, l.probe, full, l.whoOf(o))
	switch {
	case err != nil || res.Status == nlm4.DeniedGracePeriod:
		return 0, false
	case res.Status != nlm4.Denied:
		return nlm4.Denied, true
	case l.mine(&res.Holder, o.svid):
		return nlm4.Granted, true
	}
	// Linux's server does not say who it is: the svid is the number of its own thread. But the
	// owner's locks are not in its own way, so where nobody else's is the holder is the owner.
	others, err := l.test(l.ctx, o.fh, o.svid, full, l.whoOf(o))
	switch {
	case err != nil || others.Status == nlm4.DeniedGracePeriod:
		return 0, false
	case others.Status != nlm4.Denied:
		// Unless it was another, who has released its lock between the two questions: then nobody
		// holds s now.
		again, err := l.test(l.ctx, o.fh, l.probe, full, l.whoOf(o))
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
	// Others have a share. While it holds nobody can have written since ours was taken from us.
	r := l.lock(o, s, false, false)
	return r.status, r.err == nil && r.status != nlm4.DeniedGracePeriod
}
