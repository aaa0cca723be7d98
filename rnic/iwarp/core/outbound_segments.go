// Segments of Read Requests and their responses, and FPDUs with markers.

package core

import (
	"github.com/nfsrdma/nfsrdma/rnic"
	"github.com/nfsrdma/nfsrdma/rnic/iwarp/ddp"
	"github.com/nfsrdma/nfsrdma/rnic/iwarp/mpa"
	"github.com/nfsrdma/nfsrdma/rnic/iwarp/rdmap"
)

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
