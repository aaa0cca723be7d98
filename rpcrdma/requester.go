// The requester: sending a call, waiting for its reply, giving up on it.

package rpcrdma

import (
	"context"
	"encoding/binary"
	"time"

	"github.com/nfsrdma/nfsrdma/chunks"
	"github.com/nfsrdma/nfsrdma/rnic"
	"github.com/nfsrdma/nfsrdma/xdr"
)

// startCalling posts the receives for replies, one for each credit that we may
// use, before the first call (R8166-028). Calls that are made at the same time wait
// until they are posted: once one of them is answered, as many may leave as the
// peer grants.
func (c *Conn) startCalling() error {
	c.calling.Do(func() { c.callingErr = c.addReceives(c.cfg.Credits) })
	return c.callingErr
}

// Do sends the call when a credit is free and waits for the reply. When it
// returns, with or without an error, no octet can land in Sink and none of Msg
// is read any more. When ctx ends first other memory takes the place of the call's
// at once, so that a peer that uses it later does no harm and comes to none. The
// same holds when k.Expired delivers first; the error is ErrTimeout then.
func (c *Conn) Do(ctx context.Context, k *Call) error {
	if len(k.Msg.Stream) < rpcMinLen {
		return ErrMessage
	}
	if err := c.startCalling(); err != nil {
		return c.postError(err)
	}
	if err := c.takeCredit(ctx, k); err != nil {
		return err
	}
	err := c.send(k)
	if err != nil {
		k.invalidate()
		k.dropBuffers()
		c.giveCredit(k)
		return err
	}
	select {
	case <-k.done:
	case <-ctx.Done():
		err = ctx.Err()
	case <-k.Expired:
		err = ErrTimeout
	}
	if err != nil && c.giveUp(k) {
		return err
	}
	return k.finish()
}

// takeCredit waits for its turn and a credit.
func (c *Conn) takeCredit(ctx context.Context, k *Call) error {
	c.mu.Lock()
	if c.err != nil {
		c.mu.Unlock()
		return c.Err()
	}
	if err := ctx.Err(); err != nil {
		c.mu.Unlock()
		return err
	}
	k.credit = c.credits.acquire(k)
	queued := !k.credit
	c.mu.Unlock()
	if !queued {
		return nil
	}
	var err error
	select {
	case <-k.ready:
	case <-ctx.Done():
		err = ctx.Err()
	case <-k.Expired:
		err = ErrTimeout
	}
	if err != nil {
		c.mu.Lock()
		gone := c.credits.forget(k)
		c.mu.Unlock()
		if gone {
			return err
		}
		<-k.ready // it was our turn at that very moment
	}
	c.mu.Lock()
	held := k.credit
	c.mu.Unlock()
	if !held {
		return c.Err()
	}
	if err != nil {
		c.giveCredit(k)
	}
	return err
}

// giveCredit returns the Call's credit, if it holds one, and lets go who waits.
func (c *Conn) giveCredit(k *Call) {
	c.mu.Lock()
	if k.credit {
		k.credit = false
		c.credits.release()
		c.wakeWaiters()
	}
	c.mu.Unlock()
}

// wakeWaiters gives out the credits that are free. The caller holds mu.
func (c *Conn) wakeWaiters() {
	for k := c.credits.next(); k != nil; k = c.credits.next() {
		k.credit = true
		k.ready <- struct{}{}
	}
}

// send registers what the call offers, enters it among the pending and posts it.
func (c *Conn) send(k *Call) error {
	k.xid = binary.BigEndian.Uint32(k.Msg.Stream)
	if err := k.prepare(c.thresholds()); err != nil {
		return err
	}
	c.mu.Lock()
	k.sent, k.answered, k.err = false, false, nil
	k.awaited = awaitReply
	err := c.err
	if err == nil && !c.pending.put(k) {
		err = ErrXID
	}
	c.mu.Unlock()
	if err != nil {
		return err
	}
	k.wr[0] = rnic.SendWR{ID: k.id, Op: rnic.OpSend, SGL: k.sgl}
	if err := c.post(sendWork{call: k}); err != nil {
		return c.unsend(k, err)
	}
	return nil
}

// unsend takes back a call that could not be posted (R8166-167).
func (c *Conn) unsend(k *Call, err error) error {
	c.mu.Lock()
	if k.answered { // the connection ended meanwhile, and failCalls was here
		k.awaited = awaitNothing
		select {
		case <-k.done:
		default:
		}
	} else {
		k.awaited = awaitNothing
		c.pending.take(k)
	}
	c.mu.Unlock()
	return c.postError(err)
}

// callLost ends a call that waited for the send queue and could not be posted. It
// does nothing when the end of the connection was first: then the call may be
// somebody else's by now. The caller holds sendLine.mu.
func (c *Conn) callLost(k *Call, err error) {
	err = c.postError(err)
	c.mu.Lock()
	defer c.mu.Unlock()
	if k.sent || c.pending.find(k.xid) != k && !k.answered {
		return
	}
	k.sent = true
	if !k.answered {
		k.err = err
		c.answer(k)
		return
	}
	k.wake()
}

// callSent notes that the RNIC has let go of the send buffers of a call.
func (c *Conn) callSent(index int) {
	c.mu.Lock()
	k := c.calls[index]
	k.sent = true
	k.wake()
	c.mu.Unlock()
}

// giveUp ends the wait for a reply. It returns false when the answer came in after
// all. It waits until the call has left, for its octets are the caller's; a
// connection that is stuck is closed for that. A call that has not been posted yet
// is withdrawn.
func (c *Conn) giveUp(k *Call) bool {
	if c.line.withdraw(k) {
		c.posted.Add(-1)
		c.mu.Lock()
		k.sent, k.awaited = true, awaitNothing
		c.pending.take(k)
		select {
		case <-k.done: // the connection has ended meanwhile
		default:
		}
		c.mu.Unlock()
		k.invalidate()
		return true
	}
	c.mu.Lock()
	if k.awaited == awaitReply && !k.sent {
		k.awaited = awaitSent
		c.mu.Unlock()
		c.awaitSent(k)
		c.mu.Lock()
	}
	if k.sent && k.answered {
		if k.awaited == awaitNothing {
			select {
			case <-k.done:
			default:
			}
		}
		k.awaited = awaitNothing
		c.mu.Unlock()
		return false
	}
	k.awaited = awaitNothing
	c.mu.Unlock()

	k.standIn() // before the caller touches its memory (R8166-143, R8166-206)

	c.mu.Lock()
	defer c.mu.Unlock()
	if !k.answered { // else an answer came just now, and may tell of data that is elsewhere
		k.abandoned = true
		c.abandoned++
	}
	return true
}

func (c *Conn) awaitSent(k *Call) {
	grace := time.NewTicker(c.cfg.sendGrace)
	defer grace.Stop()
	for moved := c.qp.Moved(); ; {
		select {
		case <-k.done:
			return
		case <-grace.C:
		}
		now := c.qp.Moved()
		if now-moved < slowest {
			c.fail(errSendStuck)
			<-k.done
			return
		}
		moved = now
	}
}

// finish fences the memory of an answered call, then makes its Reply.
func (k *Call) finish() error {
	k.invalidate() // before the caller sees any of it (R8166-141, R8166-202)
	if k.err != nil {
		return k.err
	}
	if k.long {
		k.Reply = chunks.Message{Stream: k.replyBuf.b[:k.placed]}
		if binary.BigEndian.Uint32(k.Reply.Stream) != k.xid {
			return ErrBadReply
		}
		return nil
	}
	k.Reply = chunks.Message{Stream: k.recv.buf[k.streamOff:k.recv.n]}
	if k.placed > 0 {
		k.items[0] = xdr.Item{Off: xdr.AnyOffset, Data: k.Sink[:k.placed]}
		k.Reply.Items = k.items[:]
	}
	return nil
}

// answer ends the wait of a pending call. The caller holds mu and has filled in
// what came. It reports that the call was given up on: then settleLate is due.
func (c *Conn) answer(k *Call) (late bool) {
	c.pending.take(k)
	c.answers++
	k.answered = true
	if k.abandoned {
		return true
	}
	k.wake()
	return false
}

// settleLate brings home a call that Do has given up on.
func (c *Conn) settleLate(k *Call) {
	k.settle()
	c.mu.Lock()
	k.abandoned = false
	c.abandoned--
	released := k.released
	c.mu.Unlock()
	if released {
		c.recycle(k)
	}
}

// failCalls ends all calls when the connection has ended.
func (c *Conn) failCalls() {
	c.mu.Lock()
	for k := c.credits.drain(); k != nil; {
		next := k.nextWait
		k.nextWait = nil
		k.ready <- struct{}{}
		k = next
	}
	var late []*Call
	for k := c.pending.any(); k != nil; k = c.pending.any() {
		k.sent, k.err = true, c.err
		if c.answer(k) {
			late = append(late, k)
		}
	}
	c.mu.Unlock()
	for _, k := range late {
		c.settleLate(k)
	}
}
