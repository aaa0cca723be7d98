// Cutting messages into segments, and segments into FPDUs.

package core

import (
	"github.com/nfsrdma/nfsrdma/rnic"
	"github.com/nfsrdma/nfsrdma/rnic/iwarp/ddp"
	"github.com/nfsrdma/nfsrdma/rnic/iwarp/mpa"
	"github.com/nfsrdma/nfsrdma/rnic/iwarp/rdmap"
)

// segment adds the next FPDU of the current message. added is false if the FPDU must wait for the
// next batch, or failed.
func (o *Outbound) segment() (added bool, err error) {
	if r := o.cur.r; r != nil {
		if r.atomic {
			o.atomicResponse(r)
			return true, nil
		}
		return o.responseSegment(r)
	}
	switch e := o.cur.e; {
	case e.Op.IsAtomic():
		o.atomicRequest(e)
	case e.Op.IsImmediate():
		o.immediateSegment(e)
	case awaited(e.Op):
		o.readRequest(e)
	default:
		return o.payloadSegment(e)
	}
	return true, nil
}

// payloadHeader returns the header for a Send's or RDMA Write's next segment.
func (o *Outbound) payloadHeader(e *entry) ddp.Header {
	if e.Op == rnic.OpWrite {
		return ddp.Header{Tagged: true, Ctrl: rdmap.Control(rdmap.OpWrite),
			STag: uint32(e.RemoteSTag), TO: e.RemoteTO + uint64(o.cur.sent)}
	}
	h := ddp.Header{QN: ddp.QNSend, MSN: o.sendMSN, MO: o.cur.sent}
	switch e.Op {
	case rnic.OpSend:
		h.Ctrl = rdmap.Control(rdmap.OpSend)
	case rnic.OpSendSE:
		h.Ctrl = rdmap.Control(rdmap.OpSendSE)
	case rnic.OpSendInvalidate: // the other Sends have zero there (RFC 5040 §4.1 [R5040-042])
		h.Ctrl, h.Inv = rdmap.Control(rdmap.OpSendInvalidate), uint32(e.Invalidate)
	case rnic.OpSendSEInvalidate:
		h.Ctrl, h.Inv = rdmap.Control(rdmap.OpSendSEInvalidate), uint32(e.Invalidate)
	}
	return h
}

// payloadSegment adds the next segment of a Send or RDMA Write.
func (o *Outbound) payloadSegment(e *entry) (added bool, err error) {
	h := o.payloadHeader(e)
	// n is as much as the segment takes, unless the batch runs out of ranges.
	n := o.span(min(int(e.Bytes-o.cur.sent), o.mulpdu-h.Len()))
	if o.splits(h.Len() + n) {
		return false, nil
	}
	h.Last = o.cur.sent+uint32(n) == e.Bytes
	var seen []byte
	if e.Source != nil {
		if seen, err = o.b.read(e.Source, n, int(e.Bytes-o.cur.sent)); err != nil {
			return false, err // the batch contains nothing of the FPDU yet
		}
	}
	if o.markers != nil {
		o.marked(o.gather(o.markedBuf.begin(h.Put(o.markedBuf.head[:])), n))
	} else {
		o.plain(&h, n, seen)
	}
	if o.cur.sent += uint32(n); h.Last {
		if !h.Tagged {
			o.sendMSN++
		}
		// Work.taken completes the request once TCP has the stream up to end, and its entry is then
		// reused: cur must no longer point to the entry.
		e.P.sent, e.P.end = true, o.b.end()
		o.cur = message{}
	}
	return true, nil
}

// span returns how many of the current work request's next n bytes fit into the batch's ranges; at
// least one.
func (o *Outbound) span(n int) int {
	c, room := &o.cur.c, MaxPieces-len(o.b.pieces)-2
	if len(c.sgl)-c.at <= room {
		return n
	}
	return c.fits(n, room)
}

// plain adds an FPDU without markers around the current work request's next n bytes. seen, if not
// nil, holds them.
func (o *Outbound) plain(h *ddp.Header, n int, seen []byte) {
	l := h.Len() + n
	head := o.b.addScratch(mpa.LengthLen + h.Len())
	head[0], head[1] = byte(l>>8), byte(l)
	h.Put(head[mpa.LengthLen:])
	crc := crcOf(o.crc, 0, head)
	for left := n; left > 0; {
		p := o.cur.c.next(left)
		left -= len(p)
		switch {
		case seen != nil:
			p, seen = seen[:len(p)], seen[len(p):]
			o.b.addRange(p)
		case n <= inlineMax:
			copy(o.b.addScratch(len(p)), p)
		default:
			o.b.addRange(p)
		}
		crc = crcOf(o.crc, crc, p)
	}
	o.trailer(l, crc)
}

// trailer adds padding and CRC of an FPDU with a ULPDU of l bytes.
func (o *Outbound) trailer(l int, crc uint32) {
	pad := mpa.Pad(l)
	p := o.b.addScratch(pad + mpa.CRCLen)
	clear(p)
	if o.crc {
		mpa.PutCRC(p[pad:], mpa.UpdateCRC(crc, p[:pad]))
	}
	o.b.endFPDU()
}

// gather appends the current work request's next n bytes in pieces.
func (o *Outbound) gather(parts [][]byte, n int) [][]byte {
	for n > 0 {
		p := o.cur.c.next(n)
		n -= len(p)
		parts = append(parts, p)
	}
	return parts
}

// A markedFPDU holds the memory for building an FPDU with markers, and its pieces. A batch with
// markers has one FPDU, so one such buffer suffices.
type markedFPDU struct {
	head  [ddp.UntaggedLen + rdmap.AtomicRequestLen]byte
	parts [][]byte
	room  []byte
}

// begin makes the first n bytes of head the first piece.
func (m *markedFPDU) begin(n int) [][]byte { return append(m.parts[:0], m.head[:n]) }

// marked adds an FPDU with markers. Markers interrupt the payload, so this path copies.
func (o *Outbound) marked(parts [][]byte) {
	m := &o.markedBuf
	m.room = o.markers.Append(m.room[:0], o.crc, parts...)
	clear(parts)
	m.parts = parts
	o.b.addRange(m.room)
	o.b.endFPDU()
}

// whole adds the FPDU of a single-segment untagged message.
func (o *Outbound) whole(h *ddp.Header, body []byte) {
	if o.markers != nil {
		n := h.Put(o.markedBuf.head[:])
		n += copy(o.markedBuf.head[n:], body)
		o.marked(o.markedBuf.begin(n))
		return
	}
	l := ddp.UntaggedLen + len(body)
	p := o.b.addScratch(mpa.LengthLen + l)
	p[0], p[1] = 0, byte(l)
	h.Put(p[mpa.LengthLen:])
	copy(p[mpa.LengthLen+ddp.UntaggedLen:], body)
	o.trailer(l, crcOf(o.crc, 0, p))
}

// readRequest adds the one segment of an RDMA Read Request (RFC 5040 §4.4).
func (o *Outbound) readRequest(e *entry) {
	h := ddp.Header{Last: true, Ctrl: rdmap.Control(rdmap.OpReadRequest), QN: ddp.QNRead, MSN: o.readMSN}
	q := rdmap.ReadRequest{SinkSTag: uint32(e.P.sinkSTag), SinkTO: sinkTO(e),
		Size: e.Bytes, SrcSTag: uint32(e.RemoteSTag), SrcTO: e.RemoteTO}
	// Requests take their numbers on queue 1 in stream order. The sink STag is the one at posting
	// time (sinkSTag), even if the region was registered again since.
	o.readMSN++
	var room [rdmap.ReadRequestLen]byte
	o.whole(&h, q.Append(room[:0]))
	o.cur = message{}
}

// responseSegment adds a response's next segment. The Memory Region is checked again for each
// segment, because it might have been invalidated since (RFC 5040 §7.2).
func (o *Outbound) responseSegment(r *peerRequest) (added bool, err error) {
	sent := o.cur.sent
	// RFC 5040 §4.4 [R5040-048 R5040-049]
	h := ddp.Header{Tagged: true, Ctrl: rdmap.Control(rdmap.OpReadResponse),
		STag: uint32(r.sinkSTag), TO: r.sinkTO + uint64(sent)}
	n := min(int(r.size-sent), o.mulpdu-ddp.TaggedLen)
	if o.splits(ddp.TaggedLen + n) {
		return false, nil
	}
	h.Last = sent+uint32(n) == r.size
	if n == 0 { // an empty Read names no memory (RFC 5040 §5.2.1 [R5040-109])
		o.responseFPDU(&h, nil, nil)
	} else {
		mr := o.q.Find(o.src, r.srcSTag)
		o.src = mr
		// Each segment's memory is checked under the region's lock, and stays pinned after that
		// (addPinned). If an Invalidate comes while the bytes wait for TCP, Detach copies them, so
		// that Invalidate need not wait for the peer.
		p, f := o.q.Borrow(mr, r.srcSTag, r.srcTO+uint64(sent), n, rnic.RemoteRead)
		if f != rnic.MemOK {
			return false, responseFault(r, sent, f)
		}
		o.responseFPDU(&h, mr, p)
		o.q.Return(mr)
	}
	if o.cur.sent += uint32(n); h.Last {
		o.responded(r)
	}
	return true, nil
}

// responded ends a response with its last segment in the batch.
func (o *Outbound) responded(r *peerRequest) {
	r.built, r.end = true, o.b.end()
	o.cur = message{}
}

// responseFPDU adds one FPDU that points into mr, borrowed by the caller.
func (o *Outbound) responseFPDU(h *ddp.Header, mr *rnic.MR, p []byte) {
	if o.markers != nil {
		o.marked(append(o.markedBuf.begin(h.Put(o.markedBuf.head[:])), p))
		return
	}
	l := ddp.TaggedLen + len(p)
	head := o.b.addScratch(mpa.LengthLen + ddp.TaggedLen)
	head[0], head[1] = byte(l>>8), byte(l)
	h.Put(head[mpa.LengthLen:])
	crc := crcOf(o.crc, 0, head)
	crc = crcOf(o.crc, crc, p)
	if len(p) <= inlineMax {
		copy(o.b.addScratch(len(p)), p)
	} else {
		o.b.addPinned(mr, p)
	}
	o.trailer(l, crc)
}
