// Calls about one owner: one at a time, each completed even if its caller stops waiting.

package nlm

import (
	"bytes"
	"context"
	"encoding/binary"
	"slices"
	"syscall"
	"time"

	"github.com/nfsrdma/nfsrdma/xdr"
	"github.com/nfsrdma/nfsrdma/xdr/nfs3"
	"github.com/nfsrdma/nfsrdma/xdr/nlm4"
)

// ref adds a reference to an owner that has one.
func (l *Locks) ref(o *owner) {
	l.mu.Lock()
	defer l.mu.Unlock()
	o.refs++
}

// A lockOutcome is the result of a LOCK.
type lockOutcome struct {
	status nlm4.Status
	err    error
}

// attempt sends one LOCK without waiting for the lock. w is the request's place in the server's
// queue; nil or not blocking: none. If ctx ends (a killed program), the call continues, because its
// result would otherwise be unknown. Its goroutine then releases the lock if the reply grants one.
func (l *Locks) attempt(ctx context.Context, o *owner, q *Request, w *wait) (nlm4.Status, error) {
	// gone is a copy of ctx.Done(), because ctx must not be used after attempt has returned.
	handed, gone := make(chan lockOutcome), ctx.Done()
	s, handle := q.span(), q.Handle
	if w != nil && !w.wantsQueue && !w.entered {
		w = nil
	}
	block := w != nil && w.wantsQueue
	if block && !w.entered {
		l.enqueue(w, l.connID())
	}
	l.ref(o)
	silent := l.nextGiveUp(o)
	l.work.Go(func() {
		defer l.unref(o)
		o.requestSlot()
		select {
		case o.slot <- struct{}{}:
		case <-silent.done:
			select {
			case handed <- lockOutcome{err: silent.err}:
			case <-gone:
			}
			return
		case <-gone:
			return
		}
		defer func() { <-o.slot }()
		// Check again, because select takes either of two ready channels. A waiter may have given
		// up and left the queue before this call began. After Close nothing would release a lock
		// taken now.
		select {
		case <-gone:
			return
		case <-l.leaving:
			select {
			case handed <- lockOutcome{err: errClosed}:
			case <-gone:
			}
			return
		default:
		}
		seen := l.connID()
		before := l.lockedIn(o, s)
		if block {
			w.queued = true
		}
		r := l.lock(o, s, block, false)
		if r.err == nil && r.status == nlm4.Granted {
			l.granted(o, s, handle, seen)
		}
		if w != nil && r.err == nil && r.status != nlm4.Blocked {
			w.queued = false
		}
		unknown := r.err != nil && !isRefused(r.err)
		select {
		case handed <- r:
			if unknown {
				l.takeBack(o, w, s, before)
			}
		case <-gone:
			if unknown || r.err == nil && r.status == nlm4.Granted {
				l.takeBack(o, w, s, before)
			}
		}
	})
	select {
	case r := <-handed:
		return r.status, r.err
	case <-gone:
		return 0, ctx.Err()
	}
}

// runAlone runs work while no other call about the owner is in flight. If ctx ends, or another call
// about the owner is given up, work runs in the background.
func (l *Locks) runAlone(ctx context.Context, o *owner, silent *giveUp, work func()) error {
	done := make(chan struct{})
	l.ref(o)
	l.work.Go(func() {
		defer l.unref(o)
		defer close(done)
		o.requestSlot()
		o.slot <- struct{}{}
		defer func() { <-o.slot }()
		work()
	})
	select {
	case <-done:
		return nil
	case <-silent.done:
		return silent.err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// lockedIn returns the parts of the owner's locks in s.
func (l *Locks) lockedIn(o *owner, s span) ranges {
	l.mu.Lock()
	defer l.mu.Unlock()
	return o.locked.within(s)
}

// granted adds a lock. seen is the connection before the call.
func (l *Locks) granted(o *owner, s span, handle uint64, seen connID) {
	l.mu.Lock()
	defer l.mu.Unlock()
	o.locked = o.locked.with(s)
	o.handles[handle] = true
	l.startWatch(seen)
}

// startWatch starts detecting server restarts since seen. The first connection does not count as a
// restart. The caller holds l.mu.
func (l *Locks) startWatch(seen connID) {
	l.listenForNotices()
	if !l.watching {
		seen.connects = max(seen.connects, 1)
		l.watching, l.seen = true, seen
		l.work.Go(l.watch)
	}
}

// dropped removes s from the owner's locks, and wakes the file's waiters.
func (l *Locks) dropped(o *owner, s span) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if o.locked = o.locked.without(s); len(o.locked) == 0 {
		clear(o.handles)
	}
	l.files[o.fh].wakeAll()
}

// wakeAll makes the file's waiters send LOCK again. The caller holds Locks.mu.
func (f *file) wakeAll() {
	close(f.wake)
	f.wake = make(chan struct{})
}

// release sends UNLOCK until the server answers. The caller holds the owner's slot.
func (l *Locks) release(o *owner, s span) {
	if len(l.lockedIn(o, s)) > 0 {
		l.unlock(o, s)
	}
}

func (l *Locks) unlock(o *owner, s span) {
	l.callUntilAnswered(o, &s, nlm4.ProcUnlock, func(cookie []byte) xdr.Marshaler {
		return &nlm4.UnlockArgs{Cookie: cookie, Lock: l.wire(o.fh, o.svid, s)}
	})
	l.dropped(o, s)
}

// callUntilAnswered repeats a call until the server answers it definitely. If the server refuses
// the caller's credentials, for example an expired ticket, the call is repeated with the mount's.
// Otherwise the locks would stay on the server.
//
// A server may answer only at the end of its grace period. Until then this goroutine has the
// owner's slot, so no other can reclaim the owner's locks. callUntilAnswered reclaims them, except
// released (nil: all).
func (l *Locks) callUntilAnswered(o *owner, released *span, proc uint32, args func(cookie []byte) xdr.Marshaler) {
	who, reclaimed := l.credOf(o), false
	for wait := graceWait; ; wait = min(2*wait, repeatMost) {
		var res result
		err := l.call(o, who, proc, args(l.cookie()), &res)
		switch {
		case isRefused(err) && who != nil && l.ctx.Err() == nil:
			who = nil
			continue
		case err == nil && res.Status == nlm4.DeniedGracePeriod && !reclaimed:
			reclaimed = true
			l.reclaimRest(o, released)
		case err == nil && res.Status != nlm4.DeniedGracePeriod || isRefused(err) || l.ctx.Err() != nil:
			return
		}
		_ = l.pauseUnlessWanted(o, wait)
	}
}

// repeatMost bounds the pause before callUntilAnswered repeats a call.
const repeatMost = 30 * time.Second

// isRefused reports whether the server has refused a call definitely. A wrapped errno does not
// count: the error of a lost connection wraps one, and the call's result is then unknown.
func isRefused(err error) bool {
	_, refused := any(err).(syscall.Errno)
	return refused
}

// restore undoes a LOCK of s that is no longer wanted, and restores the owner's locks from before.
// The caller holds the owner's slot.
func (l *Locks) restore(o *owner, s span, before ranges) {
	for _, free := range before.gaps(s) {
		l.unlock(o, free)
	}
	for _, h := range before {
		// If LOCK made a lock shared, other owners may share it now: then the lock stays shared.
		for _, exclusive := range []bool{h.exclusive, false} {
			h.exclusive = exclusive
			st := l.retake(o, h)
			if st == nlm4.Granted {
				l.mu.Lock()
				o.locked = o.locked.with(h)
				l.mu.Unlock()
			}
			if st != nlm4.Denied {
				break
			}
		}
	}
}

// retake repeats LOCK without waiting until the server answers. In a grace period reclaiming
// restores recorded locks.
func (l *Locks) retake(o *owner, s span) nlm4.Status {
	for wait := graceWait; ; wait = min(2*wait, repeatMost) {
		r := l.lock(o, s, false, false)
		switch {
		case r.err == nil:
			return r.status
		case isRefused(r.err) || l.pauseUnlessWanted(o, wait) != nil:
			return nlm4.Failed
		}
	}
}

// lock sends one LOCK.
func (l *Locks) lock(o *owner, s span, block, reclaim bool) lockOutcome {
	args := nlm4.LockArgs{Cookie: l.cookie(), Block: block, Exclusive: s.exclusive, Lock: l.wire(o.fh, o.svid, s), Reclaim: reclaim}
	var res result
	err := l.call(o, l.credOf(o), nlm4.ProcLock, &args, &res)
	return lockOutcome{res.Status, err}
}

// test sends one TEST for an svid.
func (l *Locks) test(ctx context.Context, fh nfs3.FH, svid int32, s span, who any) (testResult, error) {
	args := nlm4.TestArgs{Cookie: l.cookie(), Exclusive: s.exclusive, Lock: l.wire(fh, svid, s)}
	var res testResult
	err := l.opt.Server.NLM(ctx, who, nlm4.ProcTest, &args, &res)
	return res, err
}

func (l *Locks) credOf(o *owner) any {
	l.mu.Lock()
	defer l.mu.Unlock()
	return o.cred
}

func (l *Locks) wire(fh nfs3.FH, svid int32, s span) nlm4.Lock {
	return nlm4.Lock{Caller: []byte(l.opt.Name), FH: fh.Bytes(), Owner: l.object, Svid: svid, Offset: s.start, Length: s.wireLength()}
}

// cookie returns an unused cookie: servers treat a call with a used cookie as a retransmission.
func (l *Locks) cookie() []byte { return binary.BigEndian.AppendUint64(nil, l.cookies.Add(1)) }

// isOwn reports whether a holder is this mount's owner with that svid. Linux's server omits the
// mount's object and returns a number of its own as svid: see stillLocked.
func (l *Locks) isOwn(h *nlm4.Holder, svid int32) bool {
	return h.Svid == svid && (len(h.Owner) == 0 || bytes.Equal(h.Owner, l.object))
}

// holder returns the holder in a TEST result.
func (l *Locks) holder(fh nfs3.FH, r *testResult) *Holder {
	h := &Holder{Start: r.Holder.Offset, End: r.Holder.Offset + r.Holder.Length - 1, Exclusive: r.Holder.Exclusive}
	if r.Holder.Length == 0 || h.End < h.Start || h.End > lastByte {
		h.End = lastByte
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if f := l.files[fh]; f != nil {
		for _, o := range f.owners {
			if l.isOwn(&r.Holder, o.svid) {
				h.Pid = o.pid
			}
		}
	}
	return h
}

// A result is a LOCK or UNLOCK result that keeps only the status.
type result struct{ nlm4.Res }

func (r *result) DecodeXDR(d *xdr.Decoder) {
	r.Res.DecodeXDR(d)
	r.Cookie = nil // Cookie points into the message, which is released
}

// A testResult is a TEST result that outlives the message.
type testResult struct{ nlm4.TestRes }

func (r *testResult) DecodeXDR(d *xdr.Decoder) {
	r.TestRes.DecodeXDR(d)
	r.Cookie, r.Holder.Owner = nil, slices.Clone(r.Holder.Owner)
}
