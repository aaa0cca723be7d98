// The requester: the calling side of a connection, the path of a call through it, its credits and
// its pending calls.

package rpcrdma

import (
	"context"
	"encoding/binary"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nfsrdma/nfsrdma/chunks"
	"github.com/nfsrdma/nfsrdma/internal/lead"
	"github.com/nfsrdma/nfsrdma/rnic"
	"github.com/nfsrdma/nfsrdma/xdr"
)

// A requester makes a connection's calls in one direction. A call goes through Do from top to
// bottom: credit, memory exposure, post, wait, fence. The receive loop reports events from the peer
// and the RNIC by takeReply, takeError and sendCompleted. These change the Call's state
// (requester_call.go) and wake Do.
//
// Lock: mu guards the state of every Call, and all tables. It is held for a few instructions at a
// time: nothing is posted, registered, invalidated or copied under it, and no other lock of the
// package is taken.
type requester struct {
	// Set once.
	c *Conn

	starting sync.Once
	startErr error // written by starting

	mu        sync.Mutex
	ended     error        // not nil: the requester has ended; no call becomes queued, credited or posted
	credits   credits      // inflight = the number of calls holding a credit
	pending   pendingCalls // calls in a pending state, by XID; no two have the same
	calls     []*Call      // all calls ever made; the index is in a call's work request id
	free      *Call        // idle calls for reuse, linked by Call.next; nil once the requester has ended
	abandoned int          // calls abandoned or orphaned; at most credits.inflight
	answered  int64        // calls ended by a reply, an error or the connection; only grows
	unsent    atomic.Int32 // calls in a state that awaitsSend; changed with mu, read without it
	row       lead.Row     // consecutive calls that found no other pending; changed with mu, read without
}

func (rq *requester) init(c *Conn) {
	rq.c = c
	rq.credits = newCredits(c.cfg.Credits)
	rq.pending.init(c.cfg.Credits)
}

// start posts the receives for replies before the first call: one for each credit of Config (RFC
// 8166 §3.3.1 [R8166-028]). Concurrent calls wait until all are posted, because one reply can grant
// credits for all of them.
func (rq *requester) start() error {
	rq.starting.Do(func() { rq.startErr = rq.c.receives.add(rq.c.qp, rq.c.cfg.Credits) })
	return rq.startErr
}

// Do sends the call when a credit is free and waits for the reply. When it returns, with or without
// an error, no byte is placed in Sink and none is read from Msg any more. When ctx ends first,
// other memory replaces the call's at once, so that a peer using it later does no harm and meets no
// fault. The same holds when k.Expired delivers first; the error is ErrTimeout then.
//
// Connection errors are a *ClosedError. ErrChunk and ErrVersion are the peer's errors for the call;
// ErrBadReply reports a fault in its reply. After ErrXID, ErrMessage or ErrTooLarge the call was
// not sent.
func (c *Conn) Do(ctx context.Context, k *Call) error {
	rq := &c.requester
	if len(k.Msg.Stream) < rpcMinLen {
		return ErrMessage
	}
	if err := rq.start(); err != nil {
		return c.postError(err)
	}
	if err := rq.takeCredit(ctx, k); err != nil {
		return err
	}
	if err := rq.send(k); err != nil {
		rq.releaseUnsent(k)
		return err
	}
	rq.ensureReceiver(k)
	if err := k.wait(ctx); err != nil && rq.giveUp(k) {
		return err
	}
	return k.finish()
}

// wait waits for the token of a state change, the end of ctx, or Expired.
func (k *Call) wait(ctx context.Context) error {
	for {
		select {
		case <-k.wake:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		case <-k.Expired:
			if k.TooEarly == nil || !k.TooEarly() {
				return ErrTimeout
			}
		}
	}
}

// takeCredit waits for the call's turn and a credit.
func (rq *requester) takeCredit(ctx context.Context, k *Call) error {
	if err := rq.c.Err(); err != nil {
		return err
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	rq.mu.Lock()
	defer rq.mu.Unlock()
	if rq.ended != nil {
		return rq.ended
	}
	if rq.credits.acquire(k) {
		k.become(callCredited)
		return nil
	}
	k.become(callQueued)

	rq.mu.Unlock()
	since := time.Now()
	err := k.wait(ctx)
	k.Waited = time.Since(since)
	rq.mu.Lock()
	switch {
	case k.state == callQueued: // ctx ended, or Expired delivered
		rq.credits.forget(k)
		k.become(callIdle)
		return err
	case k.state == callIdle: // end made the call idle
		k.unsignal()
		return rq.ended
	case err != nil: // the credit came at that very moment
		k.unsignal()
		rq.giveCredit(k)
	}
	return err
}

// giveCredit makes a call idle and passes its credit to the next waiting call. The caller holds mu.
func (rq *requester) giveCredit(k *Call) {
	k.become(callIdle)
	rq.credits.release()
	rq.wakeWaiters()
}

// wakeWaiters assigns the free credits to waiting calls. The caller holds mu.
func (rq *requester) wakeWaiters() {
	for k := rq.credits.next(); k != nil; k = rq.credits.next() {
		k.become(callCredited)
		k.signal()
	}
}

// send exposes the call's memory, adds the call to the pending ones and posts it.
func (rq *requester) send(k *Call) error {
	k.xid = binary.BigEndian.Uint32(k.Msg.Stream)
	if err := k.prepare(rq.c.thresholds()); err != nil {
		return err
	}
	if err := rq.enter(k); err != nil {
		return err
	}
	// Deferred: the reply comes after this completion; see promptSends.
	k.wr[0] = rnic.SendWR{ID: k.id, Op: rnic.OpSend, SGL: k.sgl, Hint: rnic.HintDeferred}
	if err := rq.c.post(sendWork{call: k}); err != nil {
		rq.withdraw(k)
		return rq.c.postError(err)
	}
	return nil
}

// enter makes the call pending, before it is posted: from then on its reply and the completion of
// its send can come at any time and in any order.
func (rq *requester) enter(k *Call) error {
	rq.mu.Lock()
	defer rq.mu.Unlock()
	if rq.ended != nil {
		return rq.ended
	}
	k.err = nil
	if !rq.pending.put(k) {
		return ErrXID
	}
	k.become(callPosted)
	rq.row.Count(rq.pending.n > 1)
	return nil
}

// withdraw undoes enter for a call not accepted by the RNIC (RFC 8166 §4.5.4 [R8166-167]).
func (rq *requester) withdraw(k *Call) {
	rq.mu.Lock()
	defer rq.mu.Unlock()
	switch k.state {
	case callPosted:
		rq.pending.take(k)
		k.become(callCredited)
	case callEarly: // the peer guessed the XID: its reply is released with the Call
		k.become(callCredited)
	case callAnswered: // the connection ended first
		k.unsignal()
	}
}

// releaseUnsent ends the use of a call that has not left: it frees the call's memory and credit.
func (rq *requester) releaseUnsent(k *Call) {
	k.memory.release()
	rq.mu.Lock()
	defer rq.mu.Unlock()
	if k.state == callCredited {
		rq.giveCredit(k)
	}
}

// finish fences the memory of an answered call, then makes its Reply.
func (k *Call) finish() error {
	// The fence comes before the caller sees any of the reply (RFC 8166 §4.4.1 [R8166-141], RFC
	// 8166 §8.1.3 [R8166-202]).
	k.memory.invalidate()
	if k.err != nil {
		return k.err
	}
	if k.long {
		k.Reply = chunks.Message{Stream: k.memory.replyBuf.B[:k.placed]}
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

// granted returns the peer's newest grant; 1 before the first.
func (rq *requester) granted() int {
	rq.mu.Lock()
	defer rq.mu.Unlock()
	return rq.credits.granted
}

// credits counts the calls of one connection and direction, and queues calls without a credit. It
// is pure: the requester's lock guards it, and it returns the calls to wake.
//
// The limits are absolute (RFC 8166 §3.3.1 [R8166-022]): requested is our own limit, granted the
// peer's newest. The window is the smaller of the two (RFC 8166 §3.3.1 [R8166-021]), but at least
// one (RFC 8166 §3.3.1 [R8166-025]). Before the first reply the window is one (RFC 8166 §3.3.3
// [R8166-039]).
type credits struct {
	requested int
	granted   int
	inflight  int // calls holding a credit

	head, tail *Call // waiting calls, in order of arrival, linked by Call.next
}

func newCredits(requested int) credits { return credits{requested: requested, granted: 1} }

func (cr *credits) window() int { return max(1, min(cr.requested, cr.granted)) }

// acquire takes a credit for k, or queues k behind the waiting calls.
func (cr *credits) acquire(k *Call) bool {
	if cr.head == nil && cr.inflight < cr.window() {
		cr.inflight++
		return true
	}
	k.next = nil
	if cr.tail == nil {
		cr.head = k
	} else {
		cr.tail.next = k
	}
	cr.tail = k
	return false
}

// forget takes k out of the queue, and reports whether k was in it.
func (cr *credits) forget(k *Call) bool {
	var prev *Call
	for w := cr.head; w != nil; prev, w = w, w.next {
		if w != k {
			continue
		}
		if prev == nil {
			cr.head = w.next
		} else {
			prev.next = w.next
		}
		if cr.tail == w {
			cr.tail = prev
		}
		w.next = nil
		return true
	}
	return false
}

// grant records the peer's newest limit. A grant below inflight only makes later calls wait (RFC
// 8166 §3.3.1 [R8166-024]).
func (cr *credits) grant(n uint32) { cr.granted = int(min(n, 1<<30)) }

func (cr *credits) release() { cr.inflight-- }

// next gives a credit to the longest waiting Call and returns it, or nil.
func (cr *credits) next() *Call {
	k := cr.head
	if k == nil || cr.inflight >= cr.window() {
		return nil
	}
	cr.head = k.next
	if cr.head == nil {
		cr.tail = nil
	}
	k.next = nil
	cr.inflight++
	return k
}

// drain empties the queue, giving no credit. It returns the list of its calls.
func (cr *credits) drain() *Call {
	k := cr.head
	cr.head, cr.tail = nil, nil
	return k
}

// pendingCalls finds a Call by its XID. It is a hash table of linked Calls, grown on demand, since
// most connections have few concurrent calls. After growth, put and take allocate nothing. The
// requester's lock guards it.
type pendingCalls struct {
	buckets    []*Call // linked by Call.nextXID; made by the first call
	maxBuckets int     // upper limit for len(buckets)
	n          int
}

func (p *pendingCalls) init(n int) {
	size := 1
	for size < 2*n {
		size <<= 1
	}
	p.maxBuckets = size
}

// bucket spreads consecutive XIDs, in either byte order, over the table.
func (p *pendingCalls) bucket(xid uint32) **Call {
	return &p.buckets[(xid*0x9e3779b1)>>16&uint32(len(p.buckets)-1)]
}

// find returns the Call of xid, or nil.
func (p *pendingCalls) find(xid uint32) *Call {
	if p.n == 0 {
		return nil
	}
	for k := *p.bucket(xid); k != nil; k = k.nextXID {
		if k.xid == xid {
			return k
		}
	}
	return nil
}

// put adds k unless its XID is in use (RFC 8166 §2.2.2 [R8166-003]).
func (p *pendingCalls) put(k *Call) bool {
	if p.find(k.xid) != nil {
		return false
	}
	if p.n >= len(p.buckets)/2 && len(p.buckets) < p.maxBuckets {
		p.grow()
	}
	b := p.bucket(k.xid)
	k.nextXID, *b = *b, k
	p.n++
	return true
}

// grow doubles the table, or makes the first one.
func (p *pendingCalls) grow() {
	old := p.buckets
	p.buckets = make([]*Call, min(p.maxBuckets, max(2*len(old), firstBuckets)))
	for _, k := range old {
		for k != nil {
			b, next := p.bucket(k.xid), k.nextXID
			k.nextXID, *b = *b, k
			k = next
		}
	}
}

// take removes k. It does nothing for a call not in the table: an answered call has left it.
func (p *pendingCalls) take(k *Call) {
	if p.n == 0 {
		return
	}
	for b := p.bucket(k.xid); *b != nil; b = &(*b).nextXID {
		if *b == k {
			*b, k.nextXID = k.nextXID, nil
			p.n--
			return
		}
	}
}

// any returns any pending Call, or nil.
func (p *pendingCalls) any() *Call {
	if p.n == 0 {
		return nil
	}
	for _, k := range p.buckets {
		if k != nil {
			return k
		}
	}
	return nil
}

// anyPending reports whether calls wait for their replies.
func (rq *requester) anyPending() bool {
	rq.mu.Lock()
	defer rq.mu.Unlock()
	return rq.pending.n > 0
}

// ensureReceiver makes a goroutine receive while a posted call waits: the caller itself if the
// latest calls were alone, as long as it can poll the QP, else a goroutine of the RNIC.
func (rq *requester) ensureReceiver(k *Call) {
	if rq.row.Alone() {
		rq.c.qp.PollUntil(k.hasReply)
	} else {
		rq.c.qp.EnsureReceiver()
	}
}

// replied reports whether the peer has nothing more to send for a posted call. With its reply here,
// the call may still wait for its Send's completion.
func (k *Call) replied() bool {
	k.rq.mu.Lock()
	defer k.rq.mu.Unlock()
	return k.state != callPosted && k.state != callSent
}

// promptSends requests deferred Send completions when a goroutine waits for one. Completions of
// calls are normally deferred: the reply comes later, and the receive loop handles both at once.
// That is too late in two cases: the reply arrived before the goroutine that posted the Send, for
// its own call or another's, recorded that the Send had left; or Do has given up.
//
// A goroutine that completes Sends calls promptSends after that. A goroutine that begins to wait
// for a Send updates unsent before it calls FlushDeferred itself. So at least one of the two
// notices the other.
func (c *Conn) promptSends() {
	if c.requester.unsent.Load() > 0 {
		c.qp.FlushDeferred()
	}
}
