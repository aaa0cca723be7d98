// The requester's Call: one outbound RPC call, its states, and its memory for reuse.

package rpcrdma

import (
	"fmt"
	"time"

	"github.com/nfsrdma/nfsrdma/chunks"
	"github.com/nfsrdma/nfsrdma/rnic"
	"github.com/nfsrdma/nfsrdma/xdr"
)

// A Call is one outbound RPC. Conn.NewCall makes it, the caller fills it and passes it to Do once;
// Release returns it for reuse without allocation. Only one goroutine at a time may use it.
type Call struct {
	// Msg is the encoded RPC call, XID first. Its items are the arguments that may travel as Read
	// chunks. Msg stays the caller's: after Do nothing reads it.
	Msg chunks.Message
	// Whole: no item of Msg travels in a chunk; a call that is too long moves as a whole (RFC 8166
	// §6.1).
	Whole bool
	// Sink receives the result item; nil when there is none.
	Sink []byte
	// MaxReply is the reply's largest stream in bytes, without the item of Sink.
	MaxReply int
	// Expired, if not nil, ends the call when it delivers. It is a timer's channel, reusable for
	// many calls, unlike a context.
	Expired <-chan time.Time
	// TooEarly, if not nil, is called when Expired delivers; true continues the wait.
	TooEarly func() bool
	// Waited is the wait for a credit, set when Do has returned; 0 if a credit was free.
	Waited time.Duration
	// Reply is the reply, valid until Release. An item placed in Sink is an item of AnyOffset with
	// Data = Sink[:n]; otherwise it is in the stream.
	Reply chunks.Message

	// Set once.
	rq       *requester
	id       uint64        // of its work request
	wake     chan struct{} // holds a token when the state that Do waits for has come
	hasReply func() bool   // k.replied as a func value, made once

	// Owned by the goroutine in Do; by releaseLate once Do has given up.
	scratch []byte // from receives.buffers, while in use
	hdr     Header // as sent; accept reads it, with the lock, while the call is pending
	out     []byte // the header's bytes
	sgl     [][]byte
	wr      [1]rnic.SendWR // like out and sgl, owned by the RNIC from posting until the send completes
	memory  exposure
	offered bool        // Sink is in a Write chunk
	items   [1]xdr.Item // Reply.Items

	// Guarded by requester.mu.
	state     callState
	next      *Call // in the queue for credits when queued, in the free list when idle
	nextXID   *Call // in the table of pending calls
	xid       uint32
	recv      *recvCtx // holds the reply, from early or answered until Release
	err       error    // the error of an answered call
	streamOff int      // offset of the reply's stream in recv
	placed    int      // bytes in Sink or in the Reply chunk
	long      bool     // the reply is in the Reply chunk
}

// NewCall returns an idle Call: from the free list, or a new one. The caller owns it until Release.
func (c *Conn) NewCall() *Call {
	rq := &c.requester
	rq.mu.Lock()
	defer rq.mu.Unlock()
	if k := rq.free; k != nil {
		rq.free, k.next = k.next, nil
		return k
	}
	k := &Call{
		rq:   rq,
		id:   wrCall | uint64(len(rq.calls)),
		wake: make(chan struct{}, 1),
	}
	k.hasReply = k.replied
	k.memory.pd = c.pd
	if rq.ended == nil { // after the end a new Call is never posted or reused
		rq.calls = append(rq.calls, k)
	}
	return k
}

// Scratch returns an empty slice of InlineSize capacity for the call's stream, valid until Release.
func (k *Call) Scratch() []byte {
	if k.scratch == nil {
		k.scratch = k.rq.c.receives.buffers.Get()
	}
	return k.scratch[:0:k.rq.c.cfg.InlineSize]
}

// SinkOffered reports, once Do has returned, whether Sink was offered to the peer as a Write chunk.
// If so, a reply with the item in its stream is wrong and must end the RPC with an error (RFC 8166
// §6.1 [R8166-191]).
func (k *Call) SinkOffered() bool { return k.offered }

// ArgsOffered reports, once Do has returned, whether any part of the call was offered to the peer
// as a Read chunk. ErrChunk can then mean the call as well as its reply.
func (k *Call) ArgsOffered() bool { return len(k.hdr.Read) > 0 }

// signal gives the goroutine in Do its token. The caller holds mu and has changed the state first,
// so that Do sees the state after the token.
func (k *Call) signal() {
	select {
	case k.wake <- struct{}{}:
	default: // the token is still there: Do will see this state too
	}
}

// unsignal takes back the token, if any, for a state that Do has already seen, so that the Call's
// next use does not find it. The caller holds mu.
func (k *Call) unsignal() {
	select {
	case <-k.wake:
	default:
	}
}

// Release gives the Call, its receive buffer and its credit back, and ends the use of Reply. A Call
// given up by Do keeps its XID and credit until its late reply or the end of the connection, and is
// released then.
func (k *Call) Release() {
	rq := k.rq
	rq.mu.Lock()
	if k.state == callAbandoned {
		k.become(callOrphaned)
		rq.mu.Unlock()
		return
	}
	r := k.recv
	k.recv = nil
	rq.mu.Unlock()
	k.memory.release()
	if r != nil {
		rq.c.repost(r) // before the credit admits another call (RFC 8166 §3.3.1 [R8166-028])
	}
	rq.recycle(k)
}

// repost gives back the receive that holds the reply.
func (rq *requester) repost(k *Call) {
	rq.mu.Lock()
	r := k.recv
	k.recv = nil
	rq.mu.Unlock()
	if r != nil {
		rq.c.repost(r)
	}
}

// recycle puts a Call on the free list, and gives back its credit if it holds one.
func (rq *requester) recycle(k *Call) {
	k.Msg, k.Reply = chunks.Message{}, chunks.Message{}
	k.Sink, k.MaxReply, k.Expired, k.TooEarly = nil, 0, nil, nil
	k.offered, k.Whole, k.Waited = false, false, 0
	k.hdr.reset()
	clear(k.sgl)
	k.wr[0] = rnic.SendWR{}
	if k.scratch != nil { // an idle Call holds no buffer
		rq.c.receives.buffers.Put(k.scratch)
		k.scratch = nil
	}
	rq.mu.Lock()
	if k.state.holdsCredit() {
		rq.giveCredit(k)
	}
	k.err = nil
	ended := rq.ended != nil
	if !ended {
		k.next, rq.free = rq.free, k
	}
	rq.mu.Unlock()
	if ended {
		k.memory.deregister()
	}
}

// callState is a Call's place in its life. The requester's lock guards it.
//
//	idle ──── no credit is free ────► queued ──── given up, connection ended ────► idle
//	 │                                  │
//	 │ a credit is free                 │ a credit is given
//	 └────────────────┬─────────────────┘
//	                  ▼
//	              credited ──── cannot be sent ────► idle
//	                  │  ▲
//	          entered │  │ withdrawn (from early too)
//	                  ▼  │
//	     ┌───────── posted ─────────┐
//	     │ reply      │ Do gives up │ send completed
//	     │            ▼             │
//	     │    ┌──── leaving ─────┐  │
//	     ▼    ▼ reply       send ▼  ▼
//	     early                  sent ──── Do gives up ────► abandoned ──── Release ────► orphaned
//	       │ send completed       │ reply                       │ reply                    │ reply
//	       └────► answered ◄──────┘                             ▼                          ▼
//	                 │ Release                                 idle                       idle
//	                 ▼
//	               idle
//
// The end of the connection counts as the missing reply, and as the missing send completion, of
// every call. A Call that becomes idle from orphaned, or by Release, goes to the free list; the
// others stay with the caller until Release.
type callState uint8

const (
	callIdle      callState = iota // in use by the caller, or on the free list; unknown to the peer
	callQueued                     // in the queue for a credit; Do waits
	callCredited                   // holds a credit; Do exposes memory and builds the header
	callPosted                     // pending, with the RNIC or on the waitlist; Do waits for it
	callLeaving                    // as posted, but Do only waits for the RNIC to release memory
	callEarly                      // the reply is here; the RNIC still has the send buffers
	callSent                       // the RNIC has released the send buffers; Do waits for the reply
	callAnswered                   // the caller has the reply, error, or end of the connection
	callAbandoned                  // Do returned without a reply; credit, XID and memory stay taken
	callOrphaned                   // abandoned, and Release was called since
	callStates
)

var callStateNames = [callStates]string{"idle", "queued", "credited", "posted", "leaving", "early", "sent", "answered", "abandoned", "orphaned"}

func (s callState) String() string {
	if s < callStates {
		return callStateNames[s]
	}
	return fmt.Sprintf("callState(%d)", uint8(s))
}

// holdsCredit reports whether a call counts as in flight (RFC 8166 §3.3.1).
func (s callState) holdsCredit() bool { return s >= callCredited && s < callStates }

func (s callState) givenUp() bool { return s == callAbandoned || s == callOrphaned }

// awaitsSend reports whether a goroutine waits for the completion of the call's Send, and for
// nothing else first.
func (s callState) awaitsSend() bool { return s == callLeaving || s == callEarly }

// callNext lists the states that can follow each state, as drawn at callState.
var callNext = [callStates][]callState{
	callIdle:      {callQueued, callCredited},
	callQueued:    {callIdle, callCredited},
	callCredited:  {callIdle, callPosted},
	callPosted:    {callCredited, callLeaving, callEarly, callSent, callAnswered},
	callLeaving:   {callEarly, callSent, callAnswered},
	callEarly:     {callCredited, callAnswered},
	callSent:      {callAnswered, callAbandoned},
	callAnswered:  {callIdle},
	callAbandoned: {callIdle, callOrphaned},
	callOrphaned:  {callIdle},
}

// onCallState is called at each change; tests check the changes against callNext. It is set before
// the first Call is made, and nil in programs.
var onCallState func(k *Call, to callState)

// become is the one writer of a Call's state. Each arrow belongs to one function:
//
//	takeCredit       idle → queued, idle → credited, queued → idle
//	wakeWaiters      queued → credited
//	enter            credited → posted
//	withdraw         posted → credited, early → credited
//	giveUp           posted → leaving, sent → abandoned
//	sendCompleted    posted → sent, leaving → sent, early → answered
//	answer           posted → early, leaving → early, sent → answered
//	fail             posted, leaving, early, sent → answered (never sent, or connection ended)
//	end              queued → idle
//	Release          abandoned → orphaned
//	giveCredit       credited, answered, abandoned, orphaned → idle
//
// The caller holds requester.mu.
func (k *Call) become(s callState) {
	if onCallState != nil {
		onCallState(k, s)
	}
	switch before, after := k.state.awaitsSend(), s.awaitsSend(); {
	case after && !before:
		k.rq.unsent.Add(1)
	case before && !after:
		k.rq.unsent.Add(-1)
	}
	k.state = s
}
