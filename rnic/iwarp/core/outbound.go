// The outbound half of a stream: work is cut into segments, and segments become FPDUs of a batch.

package core

import (
	"github.com/nfsrdma/nfsrdma/rnic"
	"github.com/nfsrdma/nfsrdma/rnic/iwarp/ddp"
	"github.com/nfsrdma/nfsrdma/rnic/iwarp/mpa"
	"github.com/nfsrdma/nfsrdma/rnic/iwarp/rdmap"
)

// Modes are the results of MPA start-up for one stream.
type Modes struct {
	CRC         bool // FPDUs have CRCs in both directions
	SendMarkers bool // the peer requested markers
	RecvMarkers bool // we requested markers
	// WholeTrailer keeps each FPDU's trailer in one TCP segment: the peer might be Linux siw, which
	// would reject the CRC of a split one.
	WholeTrailer bool
	Extensions   bool // RFC 7306 is enabled
	Direct       bool // large payload can be read straight into its destination; not with markers
	Strict       bool // overrides Direct with CRCs: no byte is placed before its CRC check
}

// An Outbound turns Work into FPDUs. It does no I/O: Fill makes a batch, Pending returns the bytes
// not yet taken by TCP, Sent records the taken ones. Only the Turn's holder calls its methods,
// except Detach and Stop; the Outbound's owner has a lock for these two.
type Outbound struct {
	// set once
	q       *rnic.ProviderQP
	w       *Work
	crc     bool
	record  bool              // a batch is a record, after which TCP begins a segment; see splits
	markers *mpa.MarkerSender // not nil: the peer requested markers

	// For the Turn's holder; Detach and Stop come from other goroutines, under the owner's lock.
	b             batch
	cur           message
	sendMSN       uint32 // the MSN of the next message on queue 0
	readMSN       uint32 // the same on queue 1
	atomicMSN     uint32 // the same on queue 3
	mss           int    // TCP's segment size, and the largest ULPDU for such a segment
	mulpdu        int
	untilMSS      int              // batches until the next segment-size look-up
	markersBefore mpa.MarkerSender // the markers' state before the batch
	markedBuf     markedFPDU
	src           *rnic.MR // the last response's region
	// A response can be refused in the middle of a batch. The FPDUs before the refused response are
	// good and go first, then the Terminate. So the fault waits here until Pending is empty.
	fault   error // ended the current batch; reported when the batch has left
	stopped bool
}

// A message is being cut into segments: one of our work requests (e) or the response to a peer's
// Read (r). No other message's segment goes between its segments (RFC 5041 §5.3 [R5041-067]).
type message struct {
	pickedMessage
	c    cursor // e: position in its payload
	sent uint32 // bytes in segments already made
}

// Init makes an Outbound without a stream.
func (o *Outbound) Init(q *rnic.ProviderQP, w *Work) {
	o.q, o.w = q, w
	o.sendMSN, o.readMSN, o.atomicMSN = 1, 1, 1 // RFC 5041 §4.3 [R5041-046]
	o.b.init(q)
}

// Start configures the Outbound for a stream.
func (o *Outbound) Start(m Modes) {
	o.crc, o.record = m.CRC, m.WholeTrailer && !m.SendMarkers
	if m.SendMarkers {
		o.markers = new(mpa.MarkerSender)
	}
}

// NeedsMSS reports whether SetMSS must be called before the next Fill: TCP's segment size can
// change (RFC 5044 §4.5 [R5044-073]).
func (o *Outbound) NeedsMSS() bool {
	o.untilMSS--
	return o.untilMSS <= 0
}

// SetMSS sets the largest segment that TCP sends, in bytes.
func (o *Outbound) SetMSS(mss int) {
	o.untilMSS = mssEvery
	o.mss = mss
	o.mulpdu = mpa.MULPDU(mss, o.markers != nil)
}

// A WriteMode describes how to pass pending bytes to TCP.
type WriteMode struct {
	Record bool // the pending bytes begin a TCP segment, and so do the bytes after them
}

// Pending returns the rest of the batch for TCP, in order; valid until the next call.
func (o *Outbound) Pending() (pieces [][]byte, how WriteMode) {
	if o.b.empty() {
		return nil, how
	}
	return o.b.pieces[o.b.at:], WriteMode{Record: o.record}
}

// TakesSources reports whether payload from a Source is possible, and pays: there are no markers,
// and TCP segments of mss bytes make long FPDUs.
func (m Modes) TakesSources(mss int) bool {
	return !m.SendMarkers && mpa.MULPDU(mss, false) >= sourcedSegment
}

// Fill makes a batch of as many available FPDUs as fit, once TCP has taken the last batch. If it
// returns nil and nothing is Pending, there is nothing to send. It returns an error, a *Fault or a
// plain one, when all earlier FPDUs have left.
func (o *Outbound) Fill() error {
	if !o.b.empty() {
		return nil
	}
	if o.stopped {
		return rnic.ErrClosed
	}
	if o.fault == nil {
		o.fill()
	}
	if o.b.empty() {
		o.b.shrink()
		return o.fault
	}
	return nil
}

// fill makes a batch. Messages from both sides follow each other, and each is cut to its end:
// segments of two messages are never mixed. fill stops when the batch is full, nothing can begin
// (gate, ORD, fence), or a segment had better be first in the next batch.
func (o *Outbound) fill() {
	o.b.reset()
	if o.markers != nil {
		// The state is saved in case the whole batch is dropped: markers count bytes of the stream,
		// and unsent bytes are not in the stream.
		o.markersBefore = *o.markers
	}
	for !o.b.full() {
		if o.markers != nil && len(o.b.ends) > 0 {
			break // one FPDU in each batch, so that dropping unsent FPDUs cannot shift the markers
		}
		if o.cur.e == nil && o.cur.r == nil && !o.pick() {
			return
		}
		added, err := o.segment()
		if err != nil {
			o.fault = err
		}
		if !added {
			return
		}
	}
	if o.cur.e == nil && o.cur.r == nil {
		o.w.made()
	}
}

// pick takes the next message.
func (o *Outbound) pick() bool {
	b, ok := o.w.pick()
	if !ok {
		return false
	}
	o.cur = message{pickedMessage: b}
	if b.e != nil {
		o.cur.c.sgl = b.e.SGL
	}
	return true
}

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

// Sent records that TCP has taken n more Pending bytes, and completes the work ending in them.
// It reports whether the CQ had room.
func (o *Outbound) Sent(n int) (fits bool) {
	if n == 0 {
		return true
	}
	// A work request is complete when TCP has its last byte, not before: until then the ranges
	// point into the ULP's memory, which the ULP may reuse after the completion (RFC 5040 §6).
	o.b.advance(n)
	return o.w.taken(o.b.pos)
}

// Idle reports whether Outbound holds nothing taken from Work: no byte of a batch and no unfinished
// message, so no fault either, since a fault leaves its message unfinished. Work may still have
// more.
func (o *Outbound) Idle() bool { return o.b.empty() && o.cur.e == nil && o.cur.r == nil }

// Position returns how many bytes of the stream TCP has taken.
func (o *Outbound) Position() uint64 { return o.b.pos }

// Detach makes the Pending bytes independent of mr's memory.
func (o *Outbound) Detach(mr *rnic.MR) { o.b.detach(mr) }

// Stop ends transmission permanently. It returns the rest of a partly sent FPDU: a Terminate can
// only follow after it.
func (o *Outbound) Stop() []byte {
	// TCP may have part of an FPDU; the peer must get the rest first, or it would take the
	// Terminate for payload. FPDUs that have not begun to leave are dropped.
	o.stopped = true
	o.cur = message{}
	if o.markers != nil && !o.b.empty() && o.b.pos == o.b.began {
		*o.markers = o.markersBefore
	}
	return o.b.takePartial()
}

// Terminate appends the last FPDU of the stream (RFC 5040 §4.8) to the bytes returned by Stop.
func (o *Outbound) Terminate(rest []byte, f *Fault) []byte {
	// The Terminate is built outside of batches: it is the last FPDU in this direction, and queue 2
	// has no other message.
	h := ddp.Header{Last: true, Ctrl: rdmap.Control(rdmap.OpTerminate), QN: ddp.QNTerminate, MSN: 1}
	ulpdu := f.term.Append(h.Append(nil))
	if o.markers != nil {
		return o.markers.Append(rest, o.crc, ulpdu)
	}
	return mpa.AppendFPDU(rest, o.crc, ulpdu)
}

// splits reports whether TCP would cut the trailer of an FPDU with l ULPDU bytes, as the batch's
// next FPDU: TCP begins a segment with each batch, sent as a record, and another segment every mss
// bytes from there. Linux siw rejects the CRC of such an FPDU and ends the connection. As the next
// batch's first FPDU it fits in one segment.
func (o *Outbound) splits(l int) bool {
	if !o.record || o.b.empty() {
		return false
	}
	from := o.b.left + mpa.LengthLen + l
	last := from + mpa.Pad(l) + mpa.CRCLen - 1
	return last/o.mss > from/o.mss
}
