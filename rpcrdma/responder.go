// The responder: taking calls in, and the Requests that live for each of them.

package rpcrdma

import (
	"encoding/binary"
	"sync/atomic"

	"github.com/nfsrdma/nfsrdma/chunks"
	"github.com/nfsrdma/nfsrdma/rnic"
	"github.com/nfsrdma/nfsrdma/xdr"
)

// A Handler serves inbound RPC calls.
type Handler interface {
	// ServeRPC is called on the connection's receive loop: it must not block.
	// It ends, now or later and on any goroutine, in exactly one of the
	// Request's Reply, RejectChunks and Drop.
	ServeRPC(r *Request)
}

// responder is the responder's part of a Conn. Conn.mu guards it.
type responder struct {
	requests  []*Request // all of them, by index
	idleReqs  *Request
	serving   int        // calls taken in and not yet answered
	backlog   []*recvCtx // calls that wait for a Request
	pulls     []*Request // calls that wait for budget, in order
	pullWaits bool       // the first of pulls stands in the Budget's line
	ended     bool
}

// A Request is one inbound RPC call, its Read chunks pulled already.
type Request struct {
	// Msg is the call: the stream begins with the XID; items are the pulled
	// Read chunks with their offset in the stream. Valid until the request ends.
	Msg chunks.Message

	// Set once.
	c     *Conn
	index uint64

	// Owned by whoever has the Request: the receive loop, the Handler, then the
	// completion of the reply.
	hdr     Header    // the call's
	ident   fatalCall // of a call with chunks
	recv    *recvCtx
	scratch []byte
	items   []xdr.Item
	pull    *buffer // pulled Read chunks, one behind the other
	pullMR  *rnic.MR
	results []*buffer
	octets  int64              // of the Budget
	chunks  []chunks.ReadChunk // of hdr
	out     []byte             // octets of the reply's header
	sgl     [][]byte
	wrs     []rnic.SendWR

	open atomic.Bool // the Handler has it and has not ended it

	next       *Request // guarded by Conn.mu
	generation uint     // of the grant in the reply, 0 while there is none; guarded by Conn.mu
}

// Conn is the connection that the call came on.
func (r *Request) Conn() *Conn { return r.c }

// Scratch is a slice of length 0 for the reply's stream, of good capacity, valid until the reply has left.
func (r *Request) Scratch() []byte { return r.scratch[:0:r.c.cfg.InlineSize] }

// Buffer returns n octets for a result item, valid until the reply has left. It
// fails (nil) when the budget is spent. Contents are not zeroed.
func (r *Request) Buffer(n int) []byte {
	if n < 0 || !r.c.account.take(bufferSize(n)) {
		return nil
	}
	r.octets += bufferSize(n)
	f := getBuffer(n)
	r.results = append(r.results, f)
	return f.b[:n:n]
}

// getRequest takes an idle Request, makes one, or returns nil when too many
// replies are on their way. The caller holds mu.
func (c *Conn) getRequest() *Request {
	if r := c.idleReqs; r != nil {
		c.idleReqs, r.next = r.next, nil
		r.scratch = c.buffers.Get()
		return r
	}
	if len(c.requests) >= 2*c.cfg.MaxCredits+recvSlack {
		return nil
	}
	r := &Request{
		c:       c,
		index:   uint64(len(c.requests)),
		scratch: c.buffers.Get(),
	}
	c.requests = append(c.requests, r)
	return r
}

// takeCall begins the service of the call in recv. Each call holds a credit
// until its reply is posted; a peer that overdraws is cut off (R8166-030).
func (c *Conn) takeCall(recv *recvCtx) {
	c.mu.Lock()
	if c.serving >= c.grant.allowed {
		c.mu.Unlock()
		c.fail(errOvercommit)
		return
	}
	c.serving++
	r := c.getRequest()
	if r == nil {
		c.backlog = append(c.backlog, recv)
		c.mu.Unlock()
		return
	}
	c.mu.Unlock()
	r.recv = recv
	r.begin()
}

// begin judges a call in the order of RFC 8166 §4.5 and starts its pulls, or serves it.
func (r *Request) begin() {
	err := r.hdr.Parse(r.recv.buf[:r.recv.n])
	switch {
	case err == errHeaderVersion: // R8166-156
		_ = r.refuse(CodeVers)
	case err != nil, !r.admissible(): // R8166-157, R8166-158, R8166-160, R8166-172
		_ = r.refuse(CodeChunk)
	case r.fatalReplay(): // R8166-166
		_ = r.refuse(CodeChunk)
	case r.pullLen() > 0:
		r.c.queuePull(r)
	default:
		r.serve(r.inline())
	}
}

// inline is the octets behind the call's header.
func (r *Request) inline() []byte { return r.recv.buf[r.hdr.Len:r.recv.n] }

// serve gives the call, complete, to the Handler.
func (r *Request) serve(stream []byte) {
	r.Msg = chunks.Message{Stream: stream, Items: r.items}
	r.open.Store(true)
	r.c.cfg.Handler.ServeRPC(r)
}

// admissible judges what a well-formed header says, and places the items of its
// Read chunks, before any RDMA Read.
func (r *Request) admissible() bool {
	r.chunks = r.hdr.ReadChunks()
	zero, long := chunks.PositionZero(r.chunks)
	stream := uint64(len(r.inline()))
	switch {
	case r.pullLen() > uint64(r.c.maxPull()): // R8166-050, R8166-204
		return false
	case r.hdr.Proc == ProcNoMsg:
		if !long || zero.Len() < rpcMinLen || stream > 0 { // R8166-110, R8166-159
			return false
		}
		stream = zero.Len()
	case long, !r.xidMatches(r.inline()):
		return false
	}
	var err error
	r.items, err = chunks.Place(r.items[:0], r.chunks, int(stream))
	return err == nil
}

// xidMatches compares the header's XID with that of the message (R8166-160).
func (r *Request) xidMatches(stream []byte) bool {
	return len(stream) >= rpcMinLen && binary.BigEndian.Uint32(stream) == r.hdr.XID
}

// Drop ends the request with no answer.
func (r *Request) Drop() {
	if r.open.CompareAndSwap(true, false) {
		r.drop()
	}
}

func (r *Request) drop() {
	r.endService()
	r.c.home(r)
}

// lose is drop for a Request whose work the connection did not take: of a call
// that is not answered, or of an answer.
func (r *Request) lose() {
	if r.recv != nil {
		r.endService()
	}
	r.c.home(r)
}

// endService gives the receive buffer back and ends the use of the credit,
// before the reply that announces it can leave (R8166-027).
func (r *Request) endService() {
	c := r.c
	r.Msg = chunks.Message{}
	recv := r.recv
	r.recv = nil
	c.mu.Lock()
	c.serving--
	c.mu.Unlock()
	if recv != nil {
		c.repost(recv)
	}
}

// home brings a Request back with all that it holds, and lets a call of the
// backlog have it.
func (c *Conn) home(r *Request) {
	invalidate(r.pullMR)
	if r.pull != nil {
		r.pull.put()
		r.pull = nil
	}
	for i, f := range r.results {
		f.put()
		r.results[i] = nil
	}
	r.results = r.results[:0]
	c.buffers.Put(r.scratch)
	r.scratch = nil
	clear(r.items)
	clear(r.sgl)
	clear(r.wrs)
	r.items, r.sgl, r.wrs = r.items[:0], r.sgl[:0], r.wrs[:0]
	r.chunks = nil
	octets := r.octets
	r.octets = 0

	c.mu.Lock()
	c.grant.heard(r, false)
	ended := c.ended
	var recv *recvCtx
	if len(c.backlog) > 0 && !ended {
		recv = c.backlog[0]
		c.backlog = append(c.backlog[:0], c.backlog[1:]...)
	} else if !ended {
		r.next, c.idleReqs = c.idleReqs, r
	}
	c.mu.Unlock()

	if octets > 0 {
		c.account.give(octets)
	}
	if ended && r.pullMR != nil {
		r.pullMR.Dereg()
	}
	if recv != nil {
		r.recv, r.scratch = recv, c.buffers.Get()
		r.begin()
	}
}

// replySent brings a Request home whose reply, or error, has left or was flushed.
func (c *Conn) replySent(index int, ok bool) {
	c.mu.Lock()
	r := c.requests[index]
	c.grant.heard(r, ok)
	c.mu.Unlock()
	c.wrote(r, ok)
	c.home(r)
}

// dropRequests lets go of the calls that nobody serves yet when the connection
// has ended. Those that the Handler has come home when it ends them.
func (c *Conn) dropRequests() {
	waiting := c.line.empty()
	c.mu.Lock()
	c.ended = true
	waiting = append(waiting, c.pulls...)
	c.serving -= len(c.backlog)
	c.pulls, c.backlog = nil, nil
	idle := c.idleReqs
	c.idleReqs = nil
	call := c.idle
	c.idle = nil
	c.mu.Unlock()
	c.account.close()
	for ; call != nil; call = call.nextIdle {
		call.deregister()
	}
	for _, r := range waiting {
		r.lose()
	}
	for ; idle != nil; idle = idle.next {
		if idle.pullMR != nil {
			idle.pullMR.Dereg()
		}
	}
}
