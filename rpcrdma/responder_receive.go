// The responder, inbound: calls are taken in, checked in the RFC's order, and refused, or served
// after their Read chunks have been pulled.

package rpcrdma

import (
	"encoding/binary"
	"errors"

	"github.com/nfsrdma/nfsrdma/chunks"
	"github.com/nfsrdma/nfsrdma/rnic"
	"github.com/nfsrdma/nfsrdma/rpcrdma/mem"
)

// takeCall begins the service of the call in recv. Each call holds a credit
// until its reply is posted; a peer that overdraws is cut off (RFC 8166 §3.3.1 [R8166-030]).
func (rs *responder) takeCall(recv *recvCtx) {
	rs.mu.Lock()
	if rs.serving >= rs.grant.allowed {
		rs.mu.Unlock()
		rs.c.fail(errOvercommit)
		return
	}
	rs.serving++
	r := rs.getRequest()
	if r == nil { // the peer is within its credits, but does not take the replies before
		rs.backlog = append(rs.backlog, recv)
		rs.mu.Unlock()
		return
	}
	rs.mu.Unlock()
	r.take(recv)
}

// take checks a call in the order of RFC 8166 §4.5 and starts its pulls, or serves it. What
// is wrong with the header is answered before anything is read from the peer: RDMA Reads
// by a header that cannot be trusted could end the connection for all other calls.
//
//	header too short                       dropped, by Conn.receive
//	rdma_vers                              ERR_VERS
//	rdma_proc, lists, Positions, lengths   ERR_CHUNK
//	XID of header and message              ERR_CHUNK, here or in assemble
//	a call that cost a connection before   ERR_CHUNK
//	RPC header and arguments               the Handler's
func (r *Request) take(recv *recvCtx) {
	r.recv = recv
	r.become(requestTaken)
	err := r.hdr.Parse(recv.buf[:recv.n])
	switch {
	case errors.Is(err, errHeaderVersion): // RFC 8166 §4.5.1 [R8166-156]
		_ = r.refuse(CodeVers)
	case err != nil, !r.admissible(): // RFC 8166 §4.5.2 [R8166-157 R8166-158 R8166-160], RFC 8166 §4.6.1 [R8166-172]
		_ = r.refuse(CodeChunk)
	case r.fatalReplay(): // RFC 8166 §4.5.3 [R8166-166]
		_ = r.refuse(CodeChunk)
	case r.pullLen() > 0:
		r.rs.queuePull(r)
	default:
		r.serve(r.inline())
	}
}

// inline is the bytes after the call's header.
func (r *Request) inline() []byte { return r.recv.buf[r.hdr.Len:r.recv.n] }

// serve gives the call, complete, to the Handler.
func (r *Request) serve(stream []byte) {
	r.Msg = chunks.Message{Stream: stream, Items: r.items}
	r.become(requestServed)
	r.rs.handler.ServeRPC(r)
}

// admissible checks what a well-formed header says, and places the items of its
// Read chunks, before any RDMA Read.
func (r *Request) admissible() bool {
	r.chunks = r.hdr.ReadChunks()
	zero, long := chunks.PositionZero(r.chunks)
	stream := uint64(len(r.inline()))
	switch {
	case r.pullLen() > uint64(r.rs.maxPull()): // RFC 8166 §3.4.4 [R8166-050], RFC 8166 §8.1.4 [R8166-204]
		return false
	case r.hdr.Proc == ProcNoMsg:
		if !long || zero.Len() < rpcMinLen || stream > 0 { // RFC 8166 §4.2.4 [R8166-110], RFC 8166 §4.5.2 [R8166-159]
			return false
		}
		stream = zero.Len()
	case long, !r.xidMatches(r.inline()): // a Position-zero chunk beside a message: two streams
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

// queuePull puts a call with Read chunks in line for the budget.
func (rs *responder) queuePull(r *Request) {
	r.become(requestWaiting)
	rs.mu.Lock()
	rs.pulls = append(rs.pulls, r)
	rs.mu.Unlock()
	rs.runPulls()
}

// runPulls starts the pulls for which there is budget, in order of arrival. The
// first that has to wait stands in the Budget's line, the others of this
// connection after it; the credits bound how many. No lock may be held.
func (rs *responder) runPulls() {
	for r := rs.nextPull(); r != nil; r = rs.nextPull() {
		r.startPull()
	}
}

// nextPull takes the first call in line out of it, with budget for it, or
// returns nil.
func (rs *responder) nextPull() *Request {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	if len(rs.pulls) == 0 || rs.waits || rs.ended {
		return nil
	}
	if !rs.account.TakeOrWait(rs.pulls[0].pullSize()) {
		rs.waits = true
		return nil
	}
	return rs.popPull()
}

// popPull takes the first call in line out of it, whose budget has been taken. The
// caller holds mu.
func (rs *responder) popPull() *Request {
	r := rs.pulls[0]
	r.held += r.pullSize()
	rs.pulls = append(rs.pulls[:0], rs.pulls[1:]...)
	return r
}

// budgetServed goes on with the pull that waited: its n bytes have been taken. It is
// where the Budget calls, on the goroutine of whoever gave bytes back.
func (rs *responder) budgetServed(n int64) {
	rs.mu.Lock()
	rs.waits = false
	if rs.ended { // end has the pull already
		rs.mu.Unlock()
		rs.account.Give(n)
		return
	}
	r := rs.popPull()
	rs.mu.Unlock()
	r.startPull()
	rs.runPulls()
}

// maxPull is the most bytes that one call's Read chunks can have: what is
// configured, and what the Budget can ever give.
func (rs *responder) maxPull() int {
	cfg := &rs.c.cfg
	return int(min(int64(cfg.MaxPull), cfg.Budget.Largest()))
}

// pullLen is the bytes of all Read chunks of the call.
func (r *Request) pullLen() (n uint64) {
	for i := range r.chunks {
		n += r.chunks[i].Len()
	}
	return n
}

// pullSize is what the call's pull counts in the Budget.
func (r *Request) pullSize() int64 { return mem.Size(int(r.pullLen())) }

// startPull registers a sink for all Read chunks of the call and posts one RDMA
// Read for each segment. The last one, with its completion, stands for all: the RNIC
// completes Reads in the order of posting. How many are outstanding at once is the RNIC's to
// bound, by the ORD of the connection. One buffer serves all chunks, so that a call has one
// sink to invalidate, whatever the peer made of it.
func (r *Request) startPull() {
	r.become(requestPulling)
	n := int(r.pullLen())
	r.pull = mem.Get(n)
	if err := r.registerSink(r.pull.B[:n]); err != nil {
		_ = r.refuse(CodeChunk)
		return
	}
	off := uint64(0)
	for i := range r.chunks {
		for _, seg := range r.chunks[i].Segments {
			if seg.Length == 0 {
				continue // an empty segment is legal and holds nothing (RFC 8166 §3.4.3 [R8166-046])
			}
			r.wrs = append(r.wrs, rnic.SendWR{
				ID: wrQuiet, Op: rnic.OpRead,
				MR: r.pullMR, Offset: off, Length: seg.Length,
				RemoteSTag: rnic.STag(seg.Handle), RemoteTO: seg.Offset,
				Unsignaled: true,
			})
			off += uint64(seg.Length)
		}
	}
	last := &r.wrs[len(r.wrs)-1] // there is one: take has seen to it
	last.ID, last.Unsignaled = wrPull|r.index, false
	if err := r.post(); err != nil {
		r.discard()
	}
}

// registerSink gives the RNIC, and nobody else, the right to place what the Reads bring.
func (r *Request) registerSink(b []byte) (err error) {
	if r.pullMR == nil {
		if r.pullMR, err = r.rs.c.pd.AllocMR(); err != nil {
			return err
		}
	}
	r.pullMR.Invalidate()
	return r.pullMR.Rereg(b, rnic.LocalWrite)
}

// pulled goes on with a call whose RDMA Reads have ended.
func (rs *responder) pulled(index int, ok bool) {
	r := rs.at(index)
	clear(r.wrs)
	r.wrs = r.wrs[:0]
	r.pullMR.Invalidate() // before anybody reads the buffer: the peer must not change it afterwards
	if !ok {              // the connection is lost: that is what a failed Read means (RFC 8166 §4.5.3 [R8166-163])
		rs.noteFatal(r)
		r.discard()
		return
	}
	r.assemble()
}

// assemble puts the call together from the inline bytes and the pulled chunks, which lie one after
// the other in order of their Positions, and has it served. Whether a chunk holds its item's pad
// too only the decoder can tell (RFC 8166 §3.4.5.2 [R8166-071]).
func (r *Request) assemble() {
	stream, pulled := r.inline(), r.pull.B
	items := r.items
	for i := range r.chunks {
		n := int(r.chunks[i].Len())
		b := pulled[:n:n]
		pulled = pulled[n:]
		switch {
		case r.chunks[i].Position == 0:
			stream = b
		case n > 0: // Place made an item for each of these
			items[0].Data = b
			items = items[1:]
		}
	}
	if !r.xidMatches(stream) { // of a long call it is known only now
		_ = r.refuse(CodeChunk)
		return
	}
	r.serve(stream)
}
