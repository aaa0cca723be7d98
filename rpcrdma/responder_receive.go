// The responder, inbound: calls are taken in, checked in the RFC's order, and served, pulled or
// refused.

package rpcrdma

import (
	"encoding/binary"
	"errors"

	"github.com/nfsrdma/nfsrdma/chunks"
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
