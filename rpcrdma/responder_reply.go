// The responder, outbound: RDMA Writes of items and long replies, then the Send that announces
// them.

package rpcrdma

import (
	"github.com/nfsrdma/nfsrdma/chunks"
	"github.com/nfsrdma/nfsrdma/rnic"
)

// Reply sends the reply: items go by the offered Write chunks, or inline, or the whole reply by the
// Reply chunk (RFC 8166 §3.5). m.Stream must begin with the XID. No part of m may lie in the call,
// because its memory is released before the reply leaves. A reply too large for the offered chunks
// becomes RDMA_ERROR, and Reply returns ErrTooLarge. Any goroutine may call it; it never blocks.
func (r *Request) Reply(m chunks.Message) error { return r.reply(m, rnic.HintNone) }

// ReplyCoalesced is Reply for a caller that expects other replies on the connection at once: other
// goroutines may run first, so that all replies leave together.
func (r *Request) ReplyCoalesced(m chunks.Message) error { return r.reply(m, rnic.HintCoalesce) }

func (r *Request) reply(m chunks.Message, hint rnic.Hint) error {
	if !r.endServed(requestReplying) {
		return ErrEnded
	}
	c := r.rs.c
	if !r.xidMatches(m.Stream) {
		_ = r.sendError(CodeChunk)
		return ErrMessage
	}
	thr := c.thresholds()
	plan := chunks.PlanReply(m, &r.hdr.Lists, thr.Send)
	if plan.Form == chunks.FormNone || plan.Form == chunks.FormLong && plan.Payload > c.cfg.MaxReply {
		// Refused before any RDMA Write (RFC 8166 §4.5.3 [R8166-165], RFC 8267 §3.1 [R8267-009]).
		_ = r.sendError(CodeChunk)
		return ErrTooLarge
	}
	if !r.checkDeferred(m, plan) {
		_ = r.sendError(CodeChunk)
		return ErrMessage
	}
	inv := r.invalidated() // before pushStream empties the Read list
	r.wrs = r.wrs[:0]
	r.pushItems(m, plan)
	send := rnic.SendWR{ID: wrReply | r.index, Op: rnic.OpSend, Hint: hint}
	if inv != 0 && thr.Invalidate { // RFC 8797 §4.1 [R8797-011 R8797-012]
		send.Op, send.Invalidate = rnic.OpSendInvalidate, inv
	}
	send.SGL = r.pushStream(m, plan)
	r.wrs = append(r.wrs, send)
	return r.postReply()
}

// RejectChunks answers RDMA_ERROR ERR_CHUNK: an item that is not eligible came in a chunk (RFC 8166
// §6.1 [R8166-189]).
func (r *Request) RejectChunks() error {
	if !r.endServed(requestReplying) {
		return ErrEnded
	}
	return r.sendError(CodeChunk)
}

// invalidated returns one STag offered by the call, for the reply to invalidate. The requester
// invalidates the others itself.
func (r *Request) invalidated() rnic.STag {
	l := &r.hdr.Lists
	if len(l.Read) > 0 {
		return rnic.STag(l.Read[0].Handle)
	}
	for _, c := range l.Write {
		if len(c) > 0 {
			return rnic.STag(c[0].Handle)
		}
	}
	if len(l.Reply) > 0 {
		return rnic.STag(l.Reply[0].Handle)
	}
	return 0
}

// pushItems makes the RDMA Writes for items going by Write chunks. It turns the call's Write list
// into the reply's: same handles and offsets, with the written bytes as lengths (RFC 8166 §3.4.6
// [R8166-075 R8166-076]).
func (r *Request) pushItems(m chunks.Message, plan chunks.ReplyPlan) {
	for i, chunk := range r.hdr.Write {
		if !plan.Reduced.Has(i) {
			chunk.Unuse()
			continue
		}
		from, wrs := len(r.sgl), len(r.wrs)
		r.sgl = append(r.sgl, m.Items[i].Data)
		r.scatter(chunk, r.sgl[from:])
		if i == 0 && r.deferred.src != nil {
			for w := range r.wrs[wrs:] {
				r.wrs[wrs+w].Source = (*deferredSource)(r)
			}
		}
	}
}

// pushStream adds the rest of m to the Send, or writes it to the Reply chunk, and returns the
// Send's SGL. Only the header's bytes are copied.
func (r *Request) pushStream(m chunks.Message, plan chunks.ReplyPlan) [][]byte {
	h := &r.hdr
	h.Read = h.Read[:0] // empty in every reply (RFC 8166 §4.3.1 [R8166-119])
	h.Proc, h.Credits = ProcMsg, r.rs.announce(r)
	if plan.Form == chunks.FormLong {
		h.Proc = ProcNoMsg
		from := len(r.sgl)
		r.sgl = m.Gather(r.sgl, plan.Reduced)
		r.scatter(h.Reply, r.sgl[from:])
	} else {
		h.Reply.Unuse()
	}
	r.out = h.Append(r.out[:0])
	from := len(r.sgl)
	r.sgl = append(r.sgl, r.out)
	if plan.Form != chunks.FormLong {
		r.sgl = m.Gather(r.sgl, plan.Reduced)
	}
	return r.sgl[from:]
}

// scatter sets the length of each segment to its received bytes, and makes one RDMA Write for each
// segment that receives bytes of src.
func (r *Request) scatter(chunk chunks.Chunk, src [][]byte) {
	for s := chunks.NewScatter(chunk, src); s.Next(); {
		from := len(r.sgl)
		r.sgl = s.AppendTo(r.sgl)
		r.wrs = append(r.wrs, rnic.SendWR{
			ID: wrUnsignaled, Op: rnic.OpWrite, SGL: r.sgl[from:len(r.sgl):len(r.sgl)],
			RemoteSTag: rnic.STag(s.Segment.Handle), RemoteTO: s.Segment.Offset,
			Unsignaled: true,
		})
	}
}

// refuse is sendError for a call that never reaches the Handler.
func (r *Request) refuse(code ErrCode) error {
	r.become(requestReplying)
	return r.sendError(code)
}

// sendError replies with RDMA_ERROR, which repeats the call's XID and version (RFC 8166 §4.5
// [R8166-150 R8166-151]) and still carries the grant (RFC 8166 §4.5 [R8166-153]).
func (r *Request) sendError(code ErrCode) error {
	h := &r.hdr // the call's header becomes the error's, keeping XID and version
	h.Lists.Reset()
	h.Proc, h.Credits = ProcError, r.rs.announce(r)
	h.Err, h.Low, h.High = code, version, version
	r.out = h.Append(r.out[:0])
	r.sgl = append(r.sgl[:0], r.out)
	r.wrs = append(r.wrs[:0], rnic.SendWR{ID: wrReply | r.index, Op: rnic.OpSend, SGL: r.sgl})
	return r.postReply()
}

// postReply ends the service of the call and posts the reply. The Writes and the Send leave in one
// batch, in this order: the Send's arrival alone shows the requester that its bytes are there (RFC
// 8166 §3.4.6 [R8166-077]).
func (r *Request) postReply() error {
	r.endService()
	if err := r.post(); err != nil {
		r.rs.release(r)
		return err
	}
	return nil
}

// post posts the Request's work, now or when the send queue has room. After nil the Request belongs
// to the completion. A connection that cannot take the work is closed (RFC 8166 §4.5.4
// [R8166-169]).
func (r *Request) post() error {
	c := r.rs.c
	err := c.post(sendWork{request: r})
	if err == nil {
		return nil
	}
	c.fail(c.cause(err))
	return c.Err()
}
