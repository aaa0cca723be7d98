// Requests that wait in a queue of the server, and how they leave it.

package nlm

import (
	"context"
	"slices"
	"syscall"
	"time"

	"github.com/nfsrdma/nfsrdma/xdr"
	"github.com/nfsrdma/nfsrdma/xdr/nlm4"
)

// A wait is a request that cannot have its lock yet. Where callbacks reach us it is in a queue of
// the server (LOCK with block), from the first such LOCK until another status than BLOCKED, or
// CANCEL: a server that is not told otherwise gives the lock to who does not want it any more.
type wait struct {
	owner  *owner
	span   span
	called chan struct{} // has room for a callback that has come

	// Of the one who waits.
	blocks  bool // LOCK asks for a place in the queue
	entered bool // it is in owner.waits
	over    bool // the server has given its last word, and has nothing in its queue

	queued bool // the server may have it in its queue; of who has the owner's slot
}

// Between two attempts while the server is expected to call: callbacks get lost. As with Linux's
// client.
const callbackPoll = 30 * time.Second

// cancelWait is how long a program that is interrupted waits for its request to be out of the
// queue.
const cancelWait = 2 * time.Second

// beginWait counts one who waits. The error is why it is not to: there are too many, or it would
// wait for itself in the end.
func (l *Locks) beginWait(o *owner, s span) (*wait, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	w := &wait{owner: o, span: s, called: make(chan struct{}, 1)}
	switch {
	case l.waiting >= maxWaiters:
		return nil, syscall.ENOLCK
	case !o.key.Flock && l.closes(w):
		return nil, syscall.EDEADLK
	}
	l.waiting++
	o.pending = append(o.pending, w)
	return w, nil
}

// enqueue has callbacks find a wait before the server is asked: GRANTED may overtake the reply.
func (l *Locks) enqueue(w *wait, seen place) {
	l.mu.Lock()
	defer l.mu.Unlock()
	w.entered = true
	w.owner.waits = append(w.owner.waits, w)
	l.queued++
	l.noteWait(w)
	l.startWatch(seen)
}

// endWait ends a wait, which is out of the server's queue then. Where that takes long it goes on
// behind the caller.
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
	case w.over:
		l.dequeue(w)
		return
	}
	done := make(chan struct{})
	l.hold(w.owner)
	l.work.Go(func() {
		defer close(done)
		defer l.leave(w.owner)
		w.owner.slot <- struct{}{}
		defer func() { <-w.owner.slot }()
		if w.queued {
			l.takeBack(w.owner, w, w.span, l.heldIn(w.owner, w.span))
		}
		// Not earlier: GRANTED that crosses CANCEL is answered as wanted. A server that is told
		// otherwise may release what restore has just taken again.
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

// dequeue has callbacks not find a wait any more, and others of the file ask again: CANCEL may have
// been that of an equal one.
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

// takeBack has the owner hold of s what it held before a LOCK whose lock nobody wants any more, and
// the server have the request in its queue no more. w is nil where it cannot be there. The owner's
// slot is held.
func (l *Locks) takeBack(o *owner, w *wait, s span, before ranges) {
	if w != nil {
		l.cancel(o, s)
		w.queued = false
	}
	l.restore(o, s, before)
}

// cancel is CANCEL until the server has answered. That it knows of no such request is an answer,
// too: it has granted it, or never had it.
func (l *Locks) cancel(o *owner, s span) {
	l.insist(o, nil, nlm4.ProcCancel, func(cookie []byte) xdr.Marshaler {
		return &nlm4.CancelArgs{Cookie: cookie, Block: true, Exclusive: s.exclusive, Lock: l.wire(o.fh, o.svid, s)}
	})
}

// await waits until it is time for the next attempt. late: nobody has told us that it is. The error
// is why there is to be none.
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
