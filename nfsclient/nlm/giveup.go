// Calls given up, as in soft mounts: the work continues, and waiting callers get an error.

package nlm

import (
	"errors"
	"time"

	"github.com/nfsrdma/nfsrdma/transport"
	"github.com/nfsrdma/nfsrdma/xdr"
)

// The effect of a call without an answer is unknown. So no other call about its owner starts until
// an UNLOCK is answered (callUntilAnswered): a late call would release newer locks. A soft mount's
// program must not wait for that. Its next call fails when another call about the owner is given
// up.

// A giveUp signals the next abandoned call about an owner.
type giveUp struct {
	done chan struct{} // closed by that call
	err  error         // of that call, set before
}

func newGiveUp() *giveUp { return &giveUp{done: make(chan struct{})} }

// nextGiveUp returns the signal for callers that start waiting now.
func (l *Locks) nextGiveUp(o *owner) *giveUp {
	l.mu.Lock()
	defer l.mu.Unlock()
	return o.giveUp
}

// call sends a call about an owner, and signals waiting callers if it is given up.
func (l *Locks) call(o *owner, who any, proc uint32, args xdr.Marshaler, res xdr.Unmarshaler) error {
	err := l.opt.Server.NLM(l.ctx, who, proc, args, res)
	if _, silent := errors.AsType[*transport.ConnectError](err); silent {
		l.mu.Lock()
		defer l.mu.Unlock()
		o.giveUp.err = err
		close(o.giveUp.done)
		o.giveUp = newGiveUp()
	}
	return err
}

// requestSlot makes the slot's goroutine repeat its call at once, because another waits for the
// slot.
func (o *owner) requestSlot() {
	select {
	case o.wanted <- struct{}{}:
	default:
	}
}

// pauseUnlessWanted is pause, with the slot held, that ends when another goroutine wants the slot.
func (l *Locks) pauseUnlessWanted(o *owner, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-o.wanted:
	case <-l.ctx.Done():
		return errClosed
	}
	return nil
}
