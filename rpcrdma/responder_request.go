// The responder's Request: one inbound RPC call, its states, and what it keeps from use to use.

package rpcrdma

import (
	"fmt"
	"sync/atomic"

	"github.com/nfsrdma/nfsrdma/chunks"
	"github.com/nfsrdma/nfsrdma/rnic"
	"github.com/nfsrdma/nfsrdma/rpcrdma/mem"
	"github.com/nfsrdma/nfsrdma/xdr"
)

// A Request is one inbound RPC call, its Read chunks pulled already.
type Request struct {
	// Msg is the call: the stream begins with the XID; items are the pulled
	// Read chunks with their offset in the stream. Valid until the request ends.
	Msg chunks.Message

	// Set once.
	rs    *responder
	index uint64

	state atomic.Uint32 // a requestState

	// Owned by whoever has the Request: the receive loop, the Handler, then the
	// completion of the reply.
	hdr     Header    // the call's, and then the reply's
	ident   fatalCall // of a call with chunks
	recv    *recvCtx  // nil once the service has ended
	scratch []byte
	items   []xdr.Item
	pull    *mem.Buffer // pulled Read chunks, one after the other
	pullMR  *rnic.MR
	results []*mem.Buffer
	late    lateItem           // is the first result item
	held    int64              // bytes of the Budget
	chunks  []chunks.ReadChunk // of hdr
	out     []byte             // bytes of the reply's header
	sgl     [][]byte
	wrs     []rnic.SendWR // with out and sgl the RNIC's while pulling or replying

	next       *Request // in the free list; guarded by responder.mu
	generation uint     // of the grant in the reply, 0 while there is none; guarded by responder.mu
}

// Conn is the connection that the call came on.
func (r *Request) Conn() *Conn { return r.rs.c }

// Scratch is a slice of length 0 for the reply's stream, of good capacity, valid until the reply
// has left.
func (r *Request) Scratch() []byte {
	if r.scratch == nil {
		r.scratch = r.rs.c.receives.buffers.Get()
	}
	return r.scratch[:0:r.rs.c.cfg.InlineSize]
}

// Buffer returns n bytes for a result item, valid until the reply has left. It
// fails (nil) when the budget is spent. Contents are not zeroed.
func (r *Request) Buffer(n int) []byte {
	if n < 0 || !r.rs.account.Take(mem.Size(n)) {
		return nil
	}
	r.held += mem.Size(n)
	f := mem.Get(n)
	r.results = append(r.results, f)
	return f.B[:n:n]
}

// Lend has f run by the goroutine of the receive loop once it has done what has come, so that no
// other one has to be woken for a call that may wait; another goroutine receives while that takes
// long. It is for ServeRPC; false: f is the caller's to run.
func (r *Request) Lend(f func()) bool { return r.rs.c.qp.Lend(f) }

// Drop ends the request with no answer.
func (r *Request) Drop() {
	if r.endServed(requestFree) {
		r.endService()
		r.rs.release(r)
	}
}

// discard ends a Request whose work the connection did not take: of a call
// that is not answered, or of an answer.
func (r *Request) discard() {
	if r.currentState() != requestReplying {
		r.endService()
	}
	r.rs.release(r)
}

// endService gives the receive buffer back and ends the use of the credit,
// before the reply that announces it can leave (RFC 8166 §3.3.1 [R8166-027]).
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

// free takes all from the Request that it holds, and returns how many bytes of the
// Budget there were.
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
	r.giveUpLater()
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
	if r.currentState() != requestFree { // else Drop was it
		r.become(requestFree)
	}
	return held
}

// requestState is where a Request is in its life, and so who owns it.
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
// Until it is replying the call holds its receive buffer and a credit (responder.serving
// counts it); both are given back before the reply is posted, since the reply lets
// the peer use the credit again.
type requestState uint32

const (
	requestFree     requestState = iota // on the free list, or about to be
	requestTaken                        // the receive loop's: its header is checked
	requestWaiting                      // in responder.pulls
	requestPulling                      // the RNIC's, or in the send line: its RDMA Reads are under way
	requestServed                       // the Handler's
	requestReplying                     // the RNIC's, or in the send line: reply or error
	requestStates
)

var requestStateNames = [requestStates]string{"free", "taken", "waiting", "pulling", "served", "replying"}

func (s requestState) String() string {
	if s < requestStates {
		return requestStateNames[s]
	}
	return fmt.Sprintf("requestState(%d)", uint32(s))
}

// The arrows of the drawing: requestNext[s] is what can follow s.
var requestNext = [requestStates][]requestState{
	requestFree:     {requestTaken},
	requestTaken:    {requestWaiting, requestServed, requestReplying},
	requestWaiting:  {requestPulling, requestFree},
	requestPulling:  {requestServed, requestReplying, requestFree},
	requestServed:   {requestReplying, requestFree},
	requestReplying: {requestFree},
}

// onRequestState is told of each change; tests hold them against requestNext. It is
// written before the first connection is made, and nil in programs.
var onRequestState func(from, to requestState)

// become is the one writer of a Request's state, apart from endServed. Whoever owns the
// Request calls it; each arrow has one function that draws it:
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

// endServed is the Handler's part: served → replying or free. It reports false when the
// Handler has ended the Request before: of two goroutines that try, one succeeds.
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

// Offered is the chunk lists of a call that are not empty: a set of the bits below.
type Offered uint8

// The chunk lists (RFC 8166 §3.4).
const (
	OfferedRead  Offered = 1 << iota // Read list: arguments, or the whole call, to be read by us
	OfferedWrite                     // Write list: places for items of the results
	OfferedReply                     // Reply chunk: a place for the whole reply
)

// Offered is what the call came with. It is asked before the Request has ended.
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
