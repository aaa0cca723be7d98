// Calls that are given up, as those of soft mounts are: the work goes on, and who waits for it is
// told.

package nlm

import (
	"errors"
	"time"

	"github.com/nfsrdma/nfsrdma/transport"
	"github.com/nfsrdma/nfsrdma/xdr"
)

// What a call without an answer has done is not known, so no other call about its owner is made
// until an UNLOCK was answered (insist): one that came late would release what was locked since. A
// program of a soft mount is not to wait for that: its next call fails when another one of the
// owner's has been given up.

// A giveUp is the next call about an owner that is given up.
type giveUp struct {
	done chan struct{} // closed when one was
	err  error         // of that call, set before
}

func newGiveUp() *giveUp { return &giveUp{done: make(chan struct{})} }

// nextGiveUp is for who waits for a call about the owner from now on.
func (l *Locks) nextGiveUp(o *owner) *giveUp {
	l.mu.Lock()
	defer l.mu.Unlock()
	return o.giveUp
}

// call is a call about an owner, and tells those who wait where it is given up.
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

// want has who has the owner's slot make its next call at once: somebody waits for it.
func (o *owner) want() {
	select {
	case o.wanted <- struct{}{}:
	default:
	}
}

// pauseUnlessWanted is pause, with the slot held, that ends when somebody wants it.
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
