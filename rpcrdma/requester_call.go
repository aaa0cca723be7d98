// The requester's Call: one outbound RPC, with its message, its exposed memory, and its states.

package rpcrdma

import (
	"fmt"
	"time"

	"github.com/nfsrdma/nfsrdma/chunks"
	"github.com/nfsrdma/nfsrdma/rnic"
	"github.com/nfsrdma/nfsrdma/rpcrdma/mem"
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

// prepare builds the header, the SGL and the exposed memory for a call. The peer knows none of it
// before the call is posted, so after an error only the memory needs to be released.
// chunks.PlanCall chooses between the forms, with these consequences:
//
//	form      rdma_proc    in the Send             exposed for RemoteRead
//	inline    RDMA_MSG     the whole call          nothing
//	reduced   RDMA_MSG     the call less its items each item, where the caller has it
//	long      RDMA_NOMSG   nothing                 a copy of the whole call
//
// The reply's side is independent: nothing, the caller's sink, or a buffer of ours is exposed for
// RemoteWrite.
func (k *Call) prepare(t Thresholds) error {
	if len(k.Msg.Items) > maxItems {
		return ErrTooLarge
	}
	stream := len(k.Msg.Stream)
	if k.Whole {
		stream = k.Msg.FullLen()
	}
	plan, err := chunks.PlanCall(chunks.CallSizes{
		Stream: stream, Items: k.Msg.FullLen() - stream,
		ItemSegments: len(k.Msg.Items), LongSegments: 1,
		MaxReply: k.MaxReply, Sink: len(k.Sink), SinkSegments: 1, ReplySegments: 1,
		CallThreshold: t.Send, ReplyThreshold: t.Recv,
	})
	if err != nil {
		return fmt.Errorf("%w: %w", ErrTooLarge, err)
	}
	// The reply's offer is decided first, because its segments can make the call too large to go
	// inline. The header is appended last, when it is complete.
	h := &k.hdr
	h.reset()
	h.XID, h.Version, h.Credits, h.Proc = k.xid, version, uint32(k.rq.c.cfg.Credits), ProcMsg
	k.sgl = k.sgl[:0]
	if err := k.offer(plan); err != nil {
		return err
	}
	if err := k.exposeArgs(plan.Form); err != nil {
		return err
	}
	k.out = h.Append(k.out[:0])
	k.sgl = append(k.sgl, k.out)
	switch plan.Form {
	case chunks.FormInline:
		k.sgl = k.Msg.Gather(k.sgl, 0)
	case chunks.FormReduced:
		k.sgl = append(k.sgl, k.Msg.Stream)
	}
	return nil
}

// offer exposes memory for the reply: the sink itself, or a buffer of ours. The sink never serves
// as a Reply chunk: the reply's stream holds more than the item, and is decoded in place.
func (k *Call) offer(plan chunks.CallPlan) error {
	m := &k.memory
	k.offered = plan.Offer == chunks.OfferWrite
	switch plan.Offer {
	case chunks.OfferWrite:
		seg, err := m.expose(&m.sink, k.Sink, rnic.RemoteWrite)
		if err != nil {
			return err
		}
		k.hdr.AddWrite(seg)
	case chunks.OfferReply:
		m.replyBuf = mem.Get(plan.ReplyRoom)
		seg, err := m.expose(&m.reply, m.replyBuf.B[:plan.ReplyRoom], rnic.RemoteWrite)
		if err != nil {
			return err
		}
		k.hdr.SetReply(seg)
	}
	return nil
}

// exposeArgs exposes the argument items as Read chunks, without padding (RFC 8166 §3.4.5.2
// [R8166-067]), or a copy of the complete call as a Position-zero chunk (RFC 8166 §3.5.3
// [R8166-088]).
func (k *Call) exposeArgs(form chunks.Form) error {
	m := &k.memory
	switch form {
	case chunks.FormReduced:
		for len(m.args) < len(k.Msg.Items) {
			m.args = append(m.args, nil)
		}
		for i := range k.Msg.Items {
			if len(k.Msg.Items[i].Data) == 0 {
				continue // an empty chunk would still cost the peer a Read
			}
			seg, err := m.expose(&m.args[i], k.Msg.Items[i].Data, rnic.RemoteRead)
			if err != nil {
				return err
			}
			k.hdr.Read = append(k.hdr.Read, chunks.ReadSegment{Position: k.Msg.Position(i), Segment: seg})
		}
	case chunks.FormLong:
		// The message is copied, although each piece could be a separate segment: this form is rare
		// in NFSv3, and the threshold limits the number of segments.
		n := k.Msg.FullLen()
		m.longBuf = mem.Get(n)
		at := 0
		k.sgl = k.Msg.Gather(k.sgl[:0], 0)
		for _, b := range k.sgl {
			at += copy(m.longBuf.B[at:], b)
		}
		k.sgl = k.sgl[:0]
		seg, err := m.expose(&m.long, m.longBuf.B[:n], rnic.RemoteRead)
		if err != nil {
			return err
		}
		k.hdr.Proc = ProcNoMsg
		k.hdr.Read = append(k.hdr.Read, chunks.ReadSegment{Segment: seg})
	}
	return nil
}

// An exposure is the memory of one call accessible to the peer: the caller's own (Sink and argument
// items), and buffers of ours for messages that travel whole. Each region is exposed for one call,
// with the single right it needs, under a new STag (RFC 8166 §8.1.3 [R8166-201], RFC 8797 §3.2
// [R8797-002]); the MRs are kept from call to call. The owner of the Call owns it. It has no lock,
// since the RNIC locks where it places bytes.
type exposure struct {
	pd *rnic.PD // set once

	args  []*rnic.MR // of the argument items
	sink  *rnic.MR
	reply *rnic.MR
	long  *rnic.MR

	longBuf  *mem.Buffer   // the complete call, sent as a Position-zero chunk
	replyBuf *mem.Buffer   // the Reply chunk
	standIns []*mem.Buffer // replace the caller's memory for the peer
	// exposed: memory was exposed since the last release. Most calls expose none, while the MRs of
	// earlier calls remain.
	exposed bool
}

// expose makes b accessible to the peer through the MR *mr, which the Call keeps.
func (m *exposure) expose(mr **rnic.MR, b []byte, access rnic.Access) (seg chunks.Segment, err error) {
	if uint64(len(b)) > 1<<32-1 {
		return seg, ErrTooLarge
	}
	if *mr == nil {
		if *mr, err = m.pd.AllocMR(); err != nil {
			return seg, err
		}
	}
	if err := (*mr).Rereg(b, access); err != nil {
		return seg, err
	}
	m.exposed = true
	return chunks.Segment{Handle: uint32((*mr).STag()), Length: uint32(len(b)), Offset: (*mr).Base()}, nil
}

// invalidate ends all the peer's access: when it returns no byte is placed or read any more. The
// RNIC skips STags already invalidated by the peer.
func (m *exposure) invalidate() {
	if !m.exposed {
		return
	}
	for _, mr := range m.args {
		invalidate(mr)
	}
	invalidate(m.sink)
	invalidate(m.reply)
	invalidate(m.long)
}

// release invalidates, and returns our buffers to their pool.
func (m *exposure) release() {
	m.invalidate()
	m.exposed = false
	if m.longBuf != nil {
		m.longBuf.Put()
		m.longBuf = nil
	}
	if m.replyBuf != nil {
		m.replyBuf.Put()
		m.replyBuf = nil
	}
	for i, f := range m.standIns {
		f.Put()
		m.standIns[i] = nil
	}
	m.standIns = m.standIns[:0]
}

// deregister gives the STags back: the connection has ended.
func (m *exposure) deregister() {
	for _, mr := range append(m.args, m.sink, m.reply, m.long) {
		if mr != nil {
			mr.Dereg()
		}
	}
	m.args, m.sink, m.reply, m.long = nil, nil, nil, nil
}

func invalidate(mr *rnic.MR) {
	if mr != nil {
		mr.Invalidate()
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
