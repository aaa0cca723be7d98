// The end of a connection: its causes, the waiting, and the release of its parts.

package rpcrdma

import (
	"context"
	"errors"
	"time"

	"github.com/nfsrdma/nfsrdma/rnic"
)

// fail records the first cause for the end of the connection and makes watch end it. It never
// blocks.
func (c *Conn) fail(err error) {
	c.end.CompareAndSwap(nil, &ClosedError{Cause: err})
	c.endQP()
}

// endQP makes watch close the QP.
func (c *Conn) endQP() {
	select {
	case c.kill <- struct{}{}:
	default: // kill already holds a token
	}
}

// watch waits for the end of the QP and then ends everything that depends on the QP. It also ends a
// connection without progress, because its peer would hold memory forever. The Conn has no other
// goroutine: dial and Accept start watch, and done is closed before watch returns.
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
				c.qp.FlushDeferred() // collects deferred completions, so that the next tick counts them
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

// teardown runs when no work is left with the RNIC. Work still on the waitlist gets no completion,
// so the roles' end methods finish it.
func (c *Conn) teardown() {
	c.fail(c.qp.Err())
	c.qp.Close()
	// The waitlist is emptied first: once a role has ended, nothing posts or completes listed work.
	calls, requests := c.waitlist.empty()
	c.responder.end(requests)
	c.requester.end(c.Err(), calls)
	close(c.done)
}

// Close ends the connection: posted work is sent, then all calls and requests fail. It returns when
// the connection's goroutines have ended.
func (c *Conn) Close() error {
	// From here on no call starts, since Do checks Err first. Calls in flight get drainTimeout.
	if c.end.CompareAndSwap(nil, &ClosedError{}) {
		ctx, cancel := context.WithTimeout(context.Background(), drainTimeout)
		_ = c.qp.Disconnect(ctx) // orderly if the peer cooperates; else cut off below
		cancel()
		c.endQP()
	}
	<-c.done
	return nil
}

// Abort begins to end the connection at once: it drops work that Close would let finish, and does
// not wait. Err then returns err as the cause, unless the connection had already ended.
func (c *Conn) Abort(err error) { c.fail(err) }

// Done is closed when the connection has ended and released everything.
func (c *Conn) Done() <-chan struct{} { return c.done }

// Err is nil while the connection lives, then a *ClosedError with the cause.
func (c *Conn) Err() error {
	if e := c.end.Load(); e != nil {
		return e
	}
	return nil
}

// Alive reports whether neither side has begun to end the connection, as far as this side knows.
func (c *Conn) Alive() bool { return c.end.Load() == nil && c.qp.State() == rnic.StateRTS }

// postError returns the error for a failed post: the end of the connection if it has ended, else
// err as its cause.
func (c *Conn) postError(err error) error {
	if cause := c.Err(); cause != nil {
		return cause
	}
	return &ClosedError{Cause: c.cause(err)}
}

// cause returns why PostSend failed. On a QP that has ended, ErrState is only a consequence: the
// QP's own error is the cause.
func (c *Conn) cause(err error) error {
	if first := c.qp.Err(); first != nil && errors.Is(err, rnic.ErrState) {
		return first
	}
	return err
}
