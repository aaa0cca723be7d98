// The responder's Request: one inbound RPC call, checked in the RFC's order and refused, or served;
// its states, and its memory for reuse.

package rpcrdma

import (
	"encoding/binary"
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/nfsrdma/nfsrdma/chunks"
	"github.com/nfsrdma/nfsrdma/rnic"
	"github.com/nfsrdma/nfsrdma/rpcrdma/mem"
	"github.com/nfsrdma/nfsrdma/xdr"
)

// A Request is one inbound RPC call, with its Read chunks pulled.
type Request struct {
	// Msg is the call: the stream begins with the XID; items are the pulled Read chunks with their
	// offset in the stream. Valid until the request ends.
	Msg chunks.Message

	// Set once.
	rs    *responder
	index uint64

	state atomic.Uint32 // a requestState

	// Owned by the Request's owner: the receive loop, the Handler, then the completion of the
	// reply.
	hdr      Header    // first the call's, then the reply's
	ident    fatalCall // set for a call with chunks
	recv     *recvCtx  // nil once the service has ended
	here     bool      // served by the goroutine that has the turn of the completion handler
	more     bool      // other completions waited for that goroutine
	scratch  []byte
	items    []xdr.Item
	pull     *mem.Buffer // pulled Read chunks, one after the other
	pullMR   *rnic.MR
	results  []*mem.Buffer
	deferred deferredItem       // the first result item, if deferred
	held     int64              // bytes taken from the Budget
	chunks   []chunks.ReadChunk // from hdr
	out      []byte             // bytes of the reply's header
	sgl      [][]byte
	wrs      []rnic.SendWR // like out and sgl, owned by the RNIC while pulling or replying

	next       *Request // in the free list; guarded by responder.mu
	generation uint     // number of the grant in the reply, 0: none; guarded by responder.mu
}

// getRequest takes a free Request, makes one, or returns nil when too many replies are in flight.
// The caller holds mu.
func (rs *responder) getRequest() *Request {
	if r := rs.free; r != nil {
		rs.free, r.next = r.next, nil
		return r
	}
	if len(rs.requests) >= 2*rs.c.cfg.MaxCredits+recvSlack {
		return nil
	}
	r := &Request{
		rs:    rs,
		index: uint64(len(rs.requests)),
	}
	rs.requests = append(rs.requests, r)
	return r
}

// takeCall begins to serve the call in recv. Each call holds a credit until its reply is posted; a
// peer that overdraws is cut off (RFC 8166 §3.3.1 [R8166-030]). leads is ServeRPC's result.
func (rs *responder) takeCall(recv *recvCtx) (leads bool) {
	rs.mu.Lock()
	if rs.serving >= rs.grant.allowed {
		rs.mu.Unlock()
		rs.c.fail(errOvercommit)
		return true
	}
	rs.serving++
	r := rs.getRequest()
	if r == nil { // the peer is within its credits, but does not accept earlier replies
		rs.backlog = append(rs.backlog, recv)
		rs.mu.Unlock()
		return true
	}
	rs.mu.Unlock()
	r.here, r.more = true, rs.c.more()
	return r.take(recv)
}

// take checks a call in the order of RFC 8166 §4.5 and starts its pulls, or serves it. Header
// faults are answered before anything is read from the peer: RDMA Reads driven by a bad header
// could end the connection for all other calls.
//
//	header too short                       dropped, by Conn.receive
//	rdma_vers                              ERR_VERS
//	rdma_proc, lists, Positions, lengths   ERR_CHUNK
//	XID of header and message              ERR_CHUNK, here or in assemble
//	a call that cost a connection before   ERR_CHUNK
//	RPC header and arguments               the Handler's
func (r *Request) take(recv *recvCtx) (leads bool) {
	r.recv = recv
	r.become(requestTaken)
	err := r.hdr.Parse(recv.buf[:recv.n])
	switch {
	case errors.Is(err, errHeaderVersion): // RFC 8166 §4.5.1 [R8166-156]
		_ = r.refuse(CodeVers)
	// RFC 8166 §4.5.2 [R8166-157 R8166-158 R8166-160], RFC 8166 §4.6.1 [R8166-172]
	case err != nil, !r.admissible():
		_ = r.refuse(CodeChunk)
	case r.fatalReplay(): // RFC 8166 §4.5.3 [R8166-166]
		_ = r.refuse(CodeChunk)
	case r.pullLen() > 0:
		r.rs.queuePull(r)
	default:
		return r.serve(r.inline())
	}
	return true
}

func (r *Request) inline() []byte { return r.recv.buf[r.hdr.Len:r.recv.n] }

// serve gives the complete call to the Handler. Afterwards r may be another call's.
func (r *Request) serve(stream []byte) (leads bool) {
	r.Msg = chunks.Message{Stream: stream, Items: r.items}
	r.become(requestServed)
	return r.rs.handler.ServeRPC(r)
}

// admissible checks the values of a well-formed header, and computes the offsets of its Read
// chunks' items, before any RDMA Read.
func (r *Request) admissible() bool {
	r.chunks = r.hdr.ReadChunks()
	zero, long := chunks.PositionZero(r.chunks)
	stream := uint64(len(r.inline()))
	switch {
	// RFC 8166 §3.4.4 [R8166-050], RFC 8166 §8.1.4 [R8166-204]
	case r.pullLen() > uint64(r.rs.maxPull()):
		return false
	case r.hdr.Proc == ProcNoMsg:
		// RFC 8166 §4.2.4 [R8166-110], RFC 8166 §4.5.2 [R8166-159]
		if !long || zero.Len() < rpcMinLen || stream > 0 {
			return false
		}
		stream = zero.Len()
	case long, !r.xidMatches(r.inline()): // a Position-zero chunk in addition to a message: two streams
		return false
	}
	var err error
	r.items, err = chunks.Place(r.items[:0], r.chunks, int(stream))
	return err == nil
}

// xidMatches compares the header's XID with that of the message (RFC 8166 §4.5.2 [R8166-160]).
func (r *Request) xidMatches(stream []byte) bool {
	return len(stream) >= rpcMinLen && binary.BigEndian.Uint32(stream) == r.hdr.XID
}

// Conn returns the connection of the call.
func (r *Request) Conn() *Conn { return r.rs.c }

// Scratch returns an empty slice of InlineSize capacity for the reply's stream, valid until the
// reply has left.
func (r *Request) Scratch() []byte {
	if r.scratch == nil {
		r.scratch = r.rs.c.receives.buffers.Get()
	}
	return r.scratch[:0:r.rs.c.cfg.InlineSize]
}

// Buffer returns n bytes for a result item, valid until the reply has left; their content is
// arbitrary. It returns nil when the budget is spent.
func (r *Request) Buffer(n int) []byte {
	if n < 0 || !r.rs.account.Take(mem.Size(n)) {
		return nil
	}
	r.held += mem.Size(n)
	f := mem.Get(n)
	r.results = append(r.results, f)
	return f.B[:n:n]
}

// CanFollow is for ServeRPC: it reports whether another goroutine can take over the receive side
// while ServeRPC runs, by Conn.Follow.
func (r *Request) CanFollow() bool { return r.here && r.rs.c.cq.CanFollow() }

// Uncork is for a ServeRPC about to wait, after CanFollow has returned true: replies to other calls
// leave now, and the call's own reply leaves at once instead of with others.
func (r *Request) Uncork() { r.rs.c.qp.Uncork() }

// OwnLoop reports whether the goroutine that receives for the connection serves no other
// connection.
func (r *Request) OwnLoop() bool { return r.rs.c.qp.OwnLoop() }

// InputWaits reports whether the peer has sent bytes not received yet; always true if OwnLoop is
// false.
func (r *Request) InputWaits() bool { return r.rs.c.qp.InputWaits() }

// More is for ServeRPC: it reports whether other received messages wait for ServeRPC to return.
func (r *Request) More() bool { return r.more }

// Drop ends the request without a reply.
func (r *Request) Drop() {
	if r.endServed(requestFree) {
		r.endService()
		r.rs.release(r)
	}
}

// discard ends a Request whose work was not posted: an unanswered call, or a reply.
func (r *Request) discard() {
	if r.currentState() != requestReplying {
		r.endService()
	}
	r.rs.release(r)
}

// endService gives the receive buffer and the credit back, before the reply that announces the
// credit can leave (RFC 8166 §3.3.1 [R8166-027]).
func (r *Request) endService() {
	rs := r.rs
	r.Msg = chunks.Message{}
	recv := r.recv
	r.recv = nil
	rs.mu.Lock()
	rs.serving--
	rs.mu.Unlock()
	if recv != nil {
		rs.c.repost(recv)
	}
}

// free releases all resources of the Request, and returns the bytes of the Budget that it held.
func (r *Request) free() (held int64) {
	invalidate(r.pullMR)
	if r.pull != nil {
		r.pull.Put()
		r.pull = nil
	}
	for i, f := range r.results {
		f.Put()
		r.results[i] = nil
	}
	r.results = r.results[:0]
	r.dropDeferred()
	if r.scratch != nil {
		r.rs.c.receives.buffers.Put(r.scratch)
		r.scratch = nil
	}
	clear(r.items)
	clear(r.sgl)
	clear(r.wrs)
	r.items, r.sgl, r.wrs = r.items[:0], r.sgl[:0], r.wrs[:0]
	r.chunks = nil
	held, r.held = r.held, 0
	if r.currentState() != requestFree { // unless Drop has freed it
		r.become(requestFree)
	}
	return held
}

// requestState is a Request's place in its life, and determines its owner.
//
//	free ──── a call arrives ────► taken ──── ERR_VERS, ERR_CHUNK ────► replying
//	                                │  │ no Read chunks
//	                    Read chunks │  └──────────────► served
//	                                ▼
//	                             waiting ──── connection ended ────► free
//	                                │ budget taken
//	                                ▼
//	                             pulling ──── ERR_CHUNK ────► replying
//	                                │    └─── connection ended ────► free
//	                    Reads ended │
//	                                ▼
//	                             served ──── Drop ────► free
//	                                │ Reply, RejectChunks
//	                                ▼
//	                            replying ──── sent, or flushed ────► free
//
// Until it is replying, the call holds its receive buffer and a credit (counted in
// responder.serving). Both are given back before the reply is posted, because the reply lets the
// peer use the credit again.
type requestState uint32

const (
	requestFree     requestState = iota // on the free list, or about to be
	requestTaken                        // the receive loop's: the header is checked
	requestWaiting                      // in responder.pulls
	requestPulling                      // the RNIC's, or on the waitlist: RDMA Reads
	requestServed                       // the Handler's
	requestReplying                     // the RNIC's, or on the waitlist: reply or error
	requestStates
)

var requestStateNames = [requestStates]string{"free", "taken", "waiting", "pulling", "served", "replying"}

func (s requestState) String() string {
	if s < requestStates {
		return requestStateNames[s]
	}
	return fmt.Sprintf("requestState(%d)", uint32(s))
}

// requestNext lists the states that can follow each state, as drawn at requestState.
var requestNext = [requestStates][]requestState{
	requestFree:     {requestTaken},
	requestTaken:    {requestWaiting, requestServed, requestReplying},
	requestWaiting:  {requestPulling, requestFree},
	requestPulling:  {requestServed, requestReplying, requestFree},
	requestServed:   {requestReplying, requestFree},
	requestReplying: {requestFree},
}

// onRequestState is called at each change; tests check the changes against requestNext. It is set
// before the first connection is made, and nil in programs.
var onRequestState func(from, to requestState)

// become is the one writer of a Request's state, apart from endServed. The Request's owner calls
// it; each arrow belongs to one function:
//
//	take         free → taken
//	queuePull    taken → waiting
//	startPull    waiting → pulling
//	serve        taken → served, pulling → served
//	refuse       taken → replying, pulling → replying
//	discard      waiting, pulling, replying → free (the connection has ended)
//	free         replying → free
func (r *Request) become(s requestState) {
	if onRequestState != nil {
		onRequestState(r.currentState(), s)
	}
	r.state.Store(uint32(s))
}

// endServed is the Handler's transition: served to replying or free. It returns false when the
// Handler has already ended the Request: of two concurrent attempts one succeeds.
func (r *Request) endServed(s requestState) bool {
	if !r.state.CompareAndSwap(uint32(requestServed), uint32(s)) {
		return false
	}
	if onRequestState != nil {
		onRequestState(requestServed, s)
	}
	return true
}

func (r *Request) currentState() requestState { return requestState(r.state.Load()) }

// Offered is the set of a call's chunk lists that are not empty, in the bits below.
type Offered uint8

// The chunk lists (RFC 8166 §3.4).
const (
	OfferedRead  Offered = 1 << iota // Read list: arguments, or the whole call, for us to read
	OfferedWrite                     // Write list: memory for items of the results
	OfferedReply                     // Reply chunk: memory for the whole reply
)

// Offered returns the chunk lists of the call. It is valid before the Request has ended.
func (r *Request) Offered() (o Offered) {
	l := &r.hdr.Lists
	if len(l.Read) > 0 {
		o |= OfferedRead
	}
	if len(l.Write) > 0 {
		o |= OfferedWrite
	}
	if l.HasReply {
		o |= OfferedReply
	}
	return o
}
