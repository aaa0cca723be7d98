// The requester, outbound: a call's header and SGL, and the memory that the peer can access.

package rpcrdma

import (
	"fmt"

	"github.com/nfsrdma/nfsrdma/chunks"
	"github.com/nfsrdma/nfsrdma/rnic"
	"github.com/nfsrdma/nfsrdma/rpcrdma/mem"
)

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
