// The end of a connection: who begins it, what is waited for, and what is released.

package rpcrdma

import (
	"context"
	"errors"
	"time"

	"github.com/nfsrdma/nfsrdma/rnic"
)

// fail latches the first reason for the end of the connection and lets watch
// end it. It never blocks.
func (c *Conn) fail(err error) {
	c.end.CompareAndSwap(nil, &ClosedError{Cause: err})
	c.endQP()
}

// endQP has watch close the QP.
func (c *Conn) endQP() {
	select {
	case c.kill <- struct{}{}:
	default: // it will already
	}
}

// watch waits for the end of the QP and then ends everything that depends on it.
// It also ends a connection whose peer has let all work stand still, so that
// nobody can hold memory for ever. It is the Conn's one goroutine: dial and Accept
// start it, and done is closed when it ends.
func (c *Conn) watch() {
	tick := time.NewTicker(c.cfg.stall)
	defer tick.Stop()
	var work, window stall
	for {
		select {
		case <-c.qp.Done():
			c.teardown()
			return
		case <-c.kill:
			c.qp.Close()
		case <-tick.C:
			if c.posted.Load() > 0 {
				c.qp.Prompt() // what was completed as deferred counts as progress: the next tick sees it
			}
			if work.tick(c.posted.Load() > 0, c.progress.Load(), c.qp.Moved()) {
				c.fail(errStalled)
			}
			if wedged, replies := c.requester.windowAbandoned(); window.tick(wedged, replies, 0) {
				c.fail(errAbandoned)
			}
		}
	}
}

// teardown runs when no work is left with the RNIC. What was still in the send line
// belongs to nobody's completion, so its owners are told who waited there.
func (c *Conn) teardown() {
	c.fail(c.qp.Err())
	c.qp.Close()
	// The line first: what is in it when a role ends would be posted, and completed, never.
	calls, requests := c.line.empty()
	c.responder.end(requests)
	c.requester.end(c.Err(), calls)
	close(c.done)
}

// Close ends the connection: what has been posted is sent, then all calls and
// requests fail. It returns when the connection's goroutines are gone.
func (c *Conn) Close() error {
	// From here on no call starts: Do asks Err first. Those that are out have drainTimeout.
	if c.end.CompareAndSwap(nil, &ClosedError{}) {
		ctx, cancel := context.WithTimeout(context.Background(), drainTimeout)
		_ = c.qp.Disconnect(ctx) // in good order if the peer plays along; else cut off below
		cancel()
		c.endQP()
	}
	<-c.done
	return nil
}

// Abort begins to end the connection at once, without what Close waits for, and
// does not wait itself; err is the cause that Err gives unless it ended before.
func (c *Conn) Abort(err error) { c.fail(err) }

// Done is closed when the connection has ended and holds nothing any more.
func (c *Conn) Done() <-chan struct{} { return c.done }

// Err is nil while the connection lives, then a *ClosedError with the cause.
func (c *Conn) Err() error {
	if e := c.end.Load(); e != nil {
		return e
	}
	return nil
}

// Alive reports whether neither side has begun to end the connection, as far as is known here.
func (c *Conn) Alive() bool { return c.end.Load() == nil && c.qp.State() == rnic.StateRTS }

// postError is why a call could not be posted: that the connection has ended, if it has.
func (c *Conn) postError(err error) error {
	if cause := c.Err(); cause != nil {
		return cause
	}
	return &ClosedError{Cause: c.cause(err)}
}

// cause is why PostSend failed: where the QP has ended, that it cannot be posted
// to is not the reason but a sequel of it.
func (c *Conn) cause(err error) error {
	if first := c.qp.Err(); first != nil && errors.Is(err, rnic.ErrState) {
		return first
	}
	return err
}
