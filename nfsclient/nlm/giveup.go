// Calls given up, as in soft mounts: the work continues, and waiting callers get an error.

package nlm

import (
	"errors"
	"time"

	"github.com/nfsrdma/nfsrdma/transport"
	"github.com/nfsrdma/nfsrdma/xdr"
)

// The effect of an unanswered call is unknown: it may arrive late, and then release newer locks. So
// no other call about its owner starts until an UNLOCK is answered (callUntilAnswered). A program
// on a soft mount must not wait for this UNLOCK. So its waiting call fails as soon as another call
// about the owner is given up.

// A giveUp signals the next given-up call about an owner.
type giveUp struct {
	done chan struct{} // closed by the given-up call
	err  error         // error of the given-up call, set before done is closed
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

// requestSlot makes the goroutine that holds the slot repeat its call at once, because another
// goroutine waits for the slot.
func (o *owner) requestSlot() {
	select {
	case o.wanted <- struct{}{}:
	default:
	}
}

// pauseUnlessWanted is pause for the slot's holder: another goroutine's wish for the slot ends it.
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
