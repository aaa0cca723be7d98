// Calls about one owner: one at a time, each carried to its end whoever still waits for it.

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

// hold takes one more reference of an owner that has one.
func (l *Locks) hold(o *owner) {
	l.mu.Lock()
	defer l.mu.Unlock()
	o.refs++
}

// An outcome is how a LOCK ended.
type outcome struct {
	status nlm4.Status
	err    error
}

// attempt is one LOCK that does not wait; w is where it stands in the server's queue, nil or not
// blocking: nowhere. A program that is killed meanwhile does not end the call, whose result would
// not be known: when it has come, what it has taken is given back.
func (l *Locks) attempt(ctx context.Context, o *owner, q *Request, w *wait) (nlm4.Status, error) {
	handed, gone := make(chan outcome), ctx.Done() // the channel, for ctx is not ours after the return
	s, handle := q.span(), q.Handle
	if w != nil && !w.blocks && !w.entered {
		w = nil
	}
	block := w != nil && w.blocks
	if block && !w.entered {
		l.enqueue(w, l.place())
	}
	l.hold(o)
	silent := l.nextGiveUp(o)
	l.work.Go(func() {
		defer l.leave(o)
		o.want()
		select {
		case o.slot <- struct{}{}:
		case <-silent.done:
			select {
			case handed <- outcome{err: silent.err}:
			case <-gone:
			}
			return
		case <-gone:
			return
		}
		defer func() { <-o.slot }()
		// Again, for of two ready channels either is taken. Who has given up may have left the
		// queue while we had not begun, and Close has released what there was: nobody would take
		// back what is asked for now.
		select {
		case <-gone:
			return
		case <-l.leaving:
			select {
			case handed <- outcome{err: errClosed}:
			case <-gone:
			}
			return
		default:
		}
		seen := l.place()
		before := l.heldIn(o, s)
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

// alone has work done while no other call is made about the owner. When ctx ends, or such a call is
// given up, it goes on behind the caller.
func (l *Locks) alone(ctx context.Context, o *owner, silent *giveUp, work func()) error {
	done := make(chan struct{})
	l.hold(o)
	l.work.Go(func() {
		defer l.leave(o)
		defer close(done)
		o.want()
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

// heldIn is what the owner holds of s.
func (l *Locks) heldIn(o *owner, s span) ranges {
	l.mu.Lock()
	defer l.mu.Unlock()
	return o.held.within(s)
}

// granted enters a lock. seen is the place before it was asked for.
func (l *Locks) granted(o *owner, s span, handle uint64, seen place) {
	l.mu.Lock()
	defer l.mu.Unlock()
	o.held = o.held.with(s)
	o.handles[handle] = true
	l.startWatch(seen)
}

// startWatch has restarts of the server noticed, of which there was none before seen: the first
// connection is no restart. mu is held.
func (l *Locks) startWatch(seen place) {
	l.listenForNotices()
	if !l.watching {
		seen.connects = max(seen.connects, 1)
		l.watching, l.seen = true, seen
		l.work.Go(l.watch)
	}
}

// dropped enters that the owner does not hold s any more, and wakes those who wait for the file.
func (l *Locks) dropped(o *owner, s span) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if o.held = o.held.without(s); len(o.held) == 0 {
		clear(o.handles)
	}
	l.files[o.fh].wakeAll()
}

// wakeAll has those who wait for the file ask again. Locks.mu is held.
func (f *file) wakeAll() {
	close(f.wake)
	f.wake = make(chan struct{})
}

// release is UNLOCK until the server has answered. The owner's slot is held.
func (l *Locks) release(o *owner, s span) {
	if len(l.heldIn(o, s)) > 0 {
		l.unlock(o, s)
	}
}

func (l *Locks) unlock(o *owner, s span) {
	l.insist(o, &s, nlm4.ProcUnlock, func(cookie []byte) xdr.Marshaler {
		return &nlm4.UnlockArgs{Cookie: cookie, Lock: l.wire(o.fh, o.svid, s)}
	})
	l.dropped(o, s)
}

// insist makes a call until the server has answered it for good: asking again would not change it.
// One that is refused to who asks, such as a program whose ticket has expired, is made in the name
// of the mount: else what it has locked would be left at the server.
//
// A server in its period of grace may answer at its end alone. Until then the owner is ours, so
// what it holds is reclaimed here, but for what is being released (nil: nothing).
func (l *Locks) insist(o *owner, released *span, proc uint32, args func(cookie []byte) xdr.Marshaler) {
	who, reclaimed := l.whoOf(o), false
	for wait := graceWait; ; wait = min(2*wait, insistMost) {
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

// insistMost is the longest wait until such a call is made again.
const insistMost = 30 * time.Second

// isRefused reports whether the server has refused a call, and will again. What the error wraps
// does not count: that of a lost connection wraps the system's, and then nothing is known of the
// call.
func isRefused(err error) bool {
	_, refused := any(err).(syscall.Errno)
	return refused
}

// restore gives back what a LOCK of s may have taken that nobody wants any more, and takes what the
// owner held before. The owner's slot is held.
func (l *Locks) restore(o *owner, s span, before ranges) {
	for _, free := range before.gaps(s) {
		l.unlock(o, free)
	}
	for _, h := range before {
		// Of a lock that has become shared others may have a share since: then it stays shared.
		for _, exclusive := range []bool{h.exclusive, false} {
			h.exclusive = exclusive
			st := l.retake(o, h)
			if st == nlm4.Granted {
				l.mu.Lock()
				o.held = o.held.with(h)
				l.mu.Unlock()
			}
			if st != nlm4.Denied {
				break
			}
		}
	}
}

// retake is LOCK, without waiting, until the server has answered. In a period of grace what is
// remembered is reclaimed.
func (l *Locks) retake(o *owner, s span) nlm4.Status {
	for wait := graceWait; ; wait = min(2*wait, insistMost) {
		r := l.lock(o, s, false, false)
		switch {
		case r.err == nil:
			return r.status
		case isRefused(r.err) || l.pauseUnlessWanted(o, wait) != nil:
			return nlm4.Failed
		}
	}
}

// lock is one LOCK.
func (l *Locks) lock(o *owner, s span, block, reclaim bool) outcome {
	args := nlm4.LockArgs{Cookie: l.cookie(), Block: block, Exclusive: s.exclusive, Lock: l.wire(o.fh, o.svid, s), Reclaim: reclaim}
	var res result
	err := l.call(o, l.whoOf(o), nlm4.ProcLock, &args, &res)
	return outcome{res.Status, err}
}

// test is one TEST in the name of an svid.
func (l *Locks) test(ctx context.Context, fh nfs3.FH, svid int32, s span, who any) (testResult, error) {
	args := nlm4.TestArgs{Cookie: l.cookie(), Exclusive: s.exclusive, Lock: l.wire(fh, svid, s)}
	var res testResult
	err := l.opt.Server.NLM(ctx, who, nlm4.ProcTest, &args, &res)
	return res, err
}

func (l *Locks) whoOf(o *owner) any {
	l.mu.Lock()
	defer l.mu.Unlock()
	return o.who
}

func (l *Locks) wire(fh nfs3.FH, svid int32, s span) nlm4.Lock {
	return nlm4.Lock{Caller: []byte(l.opt.Name), FH: fh.Bytes(), Owner: l.object, Svid: svid, Offset: s.start, Length: s.wireLength()}
}

// cookie is a new one: servers take a call with the cookie of an earlier one for the same.
func (l *Locks) cookie() []byte { return binary.BigEndian.AppendUint64(nil, l.cookies.Add(1)) }

// mine reports whether a holder is the owner of this mount with that svid. Linux's server leaves
// the object out, and gives its own number for the svid: see stillHeld.
func (l *Locks) mine(h *nlm4.Holder, svid int32) bool {
	return h.Svid == svid && (len(h.Owner) == 0 || bytes.Equal(h.Owner, l.object))
}

// holder is who has the lock that a TEST has found.
func (l *Locks) holder(fh nfs3.FH, r *testResult) *Holder {
	h := &Holder{Start: r.Holder.Offset, End: r.Holder.Offset + r.Holder.Length - 1, Exclusive: r.Holder.Exclusive}
	if r.Holder.Length == 0 || h.End < h.Start || h.End > lastByte {
		h.End = lastByte
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if f := l.files[fh]; f != nil {
		for _, o := range f.owners {
			if l.mine(&r.Holder, o.svid) {
				h.Pid = o.pid
			}
		}
	}
	return h
}

// A result is that of LOCK and UNLOCK, its status alone.
type result struct{ nlm4.Res }

func (r *result) DecodeXDR(d *xdr.Decoder) {
	r.Res.DecodeXDR(d)
	r.Cookie = nil // part of the message
}

// A testResult is that of TEST, beyond the message.
type testResult struct{ nlm4.TestRes }

func (r *testResult) DecodeXDR(d *xdr.Decoder) {
	r.TestRes.DecodeXDR(d)
	r.Cookie, r.Holder.Owner = nil, slices.Clone(r.Holder.Owner)
}
