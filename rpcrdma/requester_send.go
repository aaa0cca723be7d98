// The requester, outbound: what a call offers and how it travels, as header and SGL.

package rpcrdma

import (
	"fmt"

	"github.com/nfsrdma/nfsrdma/chunks"
	"github.com/nfsrdma/nfsrdma/rnic"
	"github.com/nfsrdma/nfsrdma/rpcrdma/mem"
)

// maxItems is the most items of a message that can travel as chunks.
const maxItems = 32

// prepare makes everything that the call is sent with. Nothing of it is known to the
// peer before the call is posted, so that whoever fails here has only to release the
// memory. The choice between the forms is that of chunks.PlanCall; this is what follows from it:
//
//	form      rdma_proc    in the Send             exposed for RemoteRead
//	inline    RDMA_MSG     the whole call          nothing
//	reduced   RDMA_MSG     the call less its items each item, where the caller has it
//	long      RDMA_NOMSG   nothing                 a copy of the whole call
//
// The reply's side is independent of it: nothing, the caller's sink, or a buffer of ours is
// exposed for RemoteWrite.
func (k *Call) prepare(t Thresholds) error {
	if len(k.Msg.Items) > maxItems {
		return ErrTooLarge
	}
	plan, err := chunks.PlanCall(chunks.CallSizes{
		Stream: len(k.Msg.Stream), Items: k.Msg.FullLen() - len(k.Msg.Stream),
		ItemSegments: len(k.Msg.Items), LongSegments: 1,
		MaxReply: k.MaxReply, Sink: len(k.Sink), SinkSegments: 1, ReplySegments: 1,
		CallThreshold: t.Send, ReplyThreshold: t.Recv,
	})
	if err != nil {
		return fmt.Errorf("%w: %w", ErrTooLarge, err)
	}
	// The header has to be complete before it is appended, and the offer comes first in it only
	// in time: its segments may be what makes the call too large to go inline.
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

// offer exposes memory for the reply: the sink itself, or a buffer of ours. A Reply chunk never
// is the sink: its stream has more than the item in it, and is decoded where it lies.
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

// exposeArgs exposes the argument items as Read chunks, with no pad (RFC 8166 §3.4.5.2
// [R8166-067]), or a copy of the complete call as Position-zero chunk (RFC 8166 §3.5.3
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
				continue // a chunk of nothing would still cost the peer a Read
			}
			seg, err := m.expose(&m.args[i], k.Msg.Items[i].Data, rnic.RemoteRead)
			if err != nil {
				return err
			}
			k.hdr.Read = append(k.hdr.Read, chunks.ReadSegment{Position: k.Msg.Position(i), Segment: seg})
		}
	case chunks.FormLong:
		// Copied, though each piece could be a segment of its own: this form is rare in NFSv3,
		// and the threshold bounds how many segments there can be.
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
