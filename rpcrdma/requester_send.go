// The requester, outbound: a call's header, SGL and memory offers.

package rpcrdma

import (
	"fmt"

	"github.com/nfsrdma/nfsrdma/chunks"
	"github.com/nfsrdma/nfsrdma/rnic"
	"github.com/nfsrdma/nfsrdma/rpcrdma/mem"
)

// maxItems is the limit for a message's items that travel as chunks.
const maxItems = 32

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
