// Requests waiting in a server queue, and removing them.

package nlm

import (
	"context"
	"slices"
	"syscall"
	"time"

	"github.com/nfsrdma/nfsrdma/xdr"
	"github.com/nfsrdma/nfsrdma/xdr/nlm4"
)

// A wait is a request without its lock yet. If callbacks reach us, the request waits in a server
// queue (LOCK with block). It stays in the queue from the first such LOCK until a status other than
// BLOCKED, or CANCEL. Without CANCEL the server would grant an unwanted lock.
type wait struct {
	owner  *owner
	span   span
	called chan struct{} // one token: a callback has come

	// owned by the waiting goroutine
	wantsQueue bool // LOCK asks for a place in the queue
	entered    bool // the wait is in owner.waits
	final      bool // the server has answered finally and does not have the request in its queue

	queued bool // the server may have the request in its queue; guarded by the owner's slot
}

// callbackPoll is the pause between attempts while callbacks are expected: the waiter polls too,
// because some callbacks get lost. Linux's client uses the same.
const callbackPoll = 30 * time.Second

// cancelWait bounds an interrupted program's wait for its request to leave the queue.
const cancelWait = 2 * time.Second

// beginWait counts a waiter. It returns an error if there are too many, or for a deadlock.
func (l *Locks) beginWait(o *owner, s span) (*wait, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	w := &wait{owner: o, span: s, called: make(chan struct{}, 1)}
	switch {
	case l.waiting >= maxWaiters:
		return nil, syscall.ENOLCK
	case !o.key.Flock && l.wouldDeadlock(w):
		return nil, syscall.EDEADLK
	}
	l.waiting++
	o.pending = append(o.pending, w)
	return w, nil
}

// enqueue makes a wait visible to callbacks before the call: GRANTED may overtake the reply.
func (l *Locks) enqueue(w *wait, seen connID) {
	l.mu.Lock()
	defer l.mu.Unlock()
	w.entered = true
	w.owner.waits = append(w.owner.waits, w)
	l.queued++
	l.noteWait(w)
	l.startWatch(seen)
}

// endWait ends a wait and removes the request from the server's queue. A removal that takes long
// continues in the background.
func (l *Locks) endWait(ctx context.Context, w *wait) {
	if w == nil {
		return
	}
	l.mu.Lock()
	l.waiting--
	w.owner.pending = slices.DeleteFunc(w.owner.pending, func(p *wait) bool { return p == w })
	l.mu.Unlock()
	switch {
	case !w.entered:
		return
	case w.final:
		l.dequeue(w)
		return
	}
	done := make(chan struct{})
	l.ref(w.owner)
	l.work.Go(func() {
		defer close(done)
		defer l.unref(w.owner)
		w.owner.slot <- struct{}{}
		defer func() { <-w.owner.slot }()
		if w.queued {
			l.takeBack(w.owner, w, w.span, l.lockedIn(w.owner, w.span))
		}
		// dequeue follows takeBack: until CANCEL is answered, a GRANTED that crosses it must be
		// accepted. If we answered it with DENIED, the server might release the bytes that restore
		// has just locked again.
		l.dequeue(w)
	})
	late := time.NewTimer(cancelWait)
	defer late.Stop()
	select {
	case <-done:
	case <-late.C:
	case <-ctx.Done():
	}
}

// dequeue hides a wait from callbacks. It makes the file's other waits send LOCK again, because
// CANCEL may have removed an equal request.
func (l *Locks) dequeue(w *wait) {
	l.mu.Lock()
	defer l.mu.Unlock()
	o := w.owner
	for i := range o.waits {
		if o.waits[i] == w {
			o.waits[i] = o.waits[len(o.waits)-1]
			o.waits = o.waits[:len(o.waits)-1]
			break
		}
	}
	l.queued--
	if len(o.waits) > 0 {
		l.files[o.fh].wakeAll()
	}
}

// takeBack undoes an unwanted LOCK: it restores the owner's locks in s from before, and removes the
// request from the server's queue. w is nil if the request cannot be queued. The caller holds the
// owner's slot.
func (l *Locks) takeBack(o *owner, w *wait, s span, before ranges) {
	if w != nil {
		l.cancel(o, s)
		w.queued = false
	}
	l.restore(o, s, before)
}

// cancel sends CANCEL until the server answers. The status for an unknown request is an answer too:
// the server has granted the request, or never had it.
func (l *Locks) cancel(o *owner, s span) {
	l.callUntilAnswered(o, nil, nlm4.ProcCancel, func(cookie []byte) xdr.Marshaler {
		return &nlm4.CancelArgs{Cookie: cookie, Block: true, Exclusive: s.exclusive, Lock: l.wire(o.fh, o.svid, s)}
	})
}

// await waits until the next attempt. late reports that neither a callback nor a local release
// ended the wait. It returns an error if the caller must not try again.
func (l *Locks) await(ctx context.Context, stop, freed, called <-chan struct{}, d time.Duration) (late bool, err error) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true, nil
	case <-freed:
	case <-called:
	case <-stop:
		return false, errInterrupted
	case <-ctx.Done():
		return false, ctx.Err()
	case <-l.leaving:
		return false, errClosed
	}
	return false, nil
}
