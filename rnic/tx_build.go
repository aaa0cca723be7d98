// Building batches: which message is next, and its segments.

package rnic

import (
	"github.com/nfsrdma/nfsrdma/rnic/iwarp/ddp"
	"github.com/nfsrdma/nfsrdma/rnic/iwarp/mpa"
	"github.com/nfsrdma/nfsrdma/rnic/iwarp/rdmap"
	"github.com/nfsrdma/nfsrdma/rnic/iwarp/term"
)

// A message is the one that is being cut into segments: a work request of ours
// (e) or the response to a Read of the peer's (r). No other message's segment
// goes between its segments (RFC 5041 §5.3, R5041-067).
type message struct {
	e    *sendEntry
	at   uint32 // e: its index in the send queue
	r    *readResponse
	sge  int    // e: where in its SGL
	off  int    // and in that slice
	sent uint32 // octets in segments already made
}

// build fills the empty batch with as many FPDUs as are there and fit. The caller holds mu.
func (t *transmitter) build() error {
	if t.fault != nil {
		return t.fault
	}
	t.b.reset()
	if t.looked--; t.looked <= 0 { // R5044-073: the segment size may change
		t.looked = mssEvery
		t.mss = t.link.mss()
		t.mulpdu = mpa.MULPDU(t.mss, t.markers != nil)
		if t.crc && t.markers == nil {
			t.mulpduNow.Store(int32(t.mulpdu))
		}
	}
	if t.markers != nil {
		t.before = *t.markers
	}
	for !t.b.full() {
		if t.markers != nil && len(t.b.ends) > 0 {
			return nil // one at a time, so that a cut cannot put the markers out of phase
		}
		if t.cur.e == nil && t.cur.r == nil && !t.pick() {
			return nil
		}
		if err := t.segment(); err == errSeam {
			return nil
		} else if err != nil {
			t.fault = err
			break
		}
	}
	return nil
}

// pick takes the next message: responses and work requests in turn, when both are there.
func (t *transmitter) pick() bool {
	sq := &t.qp.sq
	sq.mu.Lock()
	defer sq.mu.Unlock()
	if sq.gated {
		return false
	}
	work := sq.sqReady() && sq.at(sq.next).Op != OpLocalInvalidate
	resp := sq.irqNext != sq.irqTail
	switch {
	case resp && (sq.turn || !work):
		t.cur = message{r: &sq.irq[sq.irqNext&sq.irqMask]}
		sq.irqNext++
		sq.turn = false
	case work:
		t.cur = message{e: sq.at(sq.next), at: sq.next}
		sq.next++
		sq.turn = true
	default:
		return false
	}
	return true
}

// segment adds the next FPDU of the current message.
func (t *transmitter) segment() error {
	if t.cur.r != nil {
		return t.responseSegment(t.cur.r)
	}
	e := t.cur.e
	switch {
	case e.Op.atomic():
		t.atomicRequest(e)
		return nil
	case e.Op.immediate():
		t.immediateSegment(e)
		return nil
	case e.isRead():
		t.readRequest(e)
		return nil
	}
	h := ddp.Header{Inv: uint32(e.Invalidate), QN: ddp.QNSend, MSN: t.sendMSN, MO: t.cur.sent}
	switch e.Op {
	case OpSend:
		h.Ctrl, h.Inv = rdmap.Control(rdmap.OpSend), 0 // R5040-042
	case OpSendSE:
		h.Ctrl, h.Inv = rdmap.Control(rdmap.OpSendSE), 0
	case OpSendInvalidate:
		h.Ctrl = rdmap.Control(rdmap.OpSendInvalidate)
	case OpSendSEInvalidate:
		h.Ctrl = rdmap.Control(rdmap.OpSendSEInvalidate)
	default:
		h = ddp.Header{Tagged: true, Ctrl: rdmap.Control(rdmap.OpWrite),
			STag: uint32(e.RemoteSTag), TO: e.RemoteTO + uint64(t.cur.sent)}
	}
	n := t.span(min(int(e.length-t.cur.sent), e.cut(t.mulpdu-h.Len())))
	if t.seam(h.Len() + n) {
		return errSeam
	}
	h.Last = t.cur.sent+uint32(n) == e.length
	if t.markers != nil {
		t.marked(t.gather(t.made.begin(h.Put(t.made.head[:])), n))
	} else {
		t.plain(&h, n)
	}
	if t.cur.sent += uint32(n); h.Last {
		if !h.Tagged {
			t.sendMSN++
		}
		e.sent, e.end = true, t.b.end()
		t.cur = message{}
	}
	return nil
}

// span is how many of the next n octets of the current work request the batch
// has ranges for; at least one.
func (t *transmitter) span(n int) int {
	c := &t.cur
	for n > 0 && c.off == len(c.e.SGL[c.sge]) { // step over empty slices
		c.sge, c.off = c.sge+1, 0
	}
	room := batchIovecs - len(t.b.iov) - 2
	if len(c.e.SGL)-c.sge <= room {
		return n
	}
	got := -c.off
	for _, p := range c.e.SGL[c.sge:][:room] {
		if got += len(p); got >= n {
			return n
		}
	}
	return got
}

// plain adds an FPDU without markers around the next n octets of the current work request.
func (t *transmitter) plain(h *ddp.Header, n int) {
	l := h.Len() + n
	head := t.b.own(mpa.LengthLen + h.Len())
	head[0], head[1] = byte(l>>8), byte(l)
	h.Put(head[mpa.LengthLen:])
	c := &t.cur
	crc, early := c.e.earlyCRC(int(c.sent), n)
	reckon := t.crc && !early
	if reckon {
		crc = mpa.UpdateCRC(0, head)
	}
	for left := n; left > 0; {
		p := c.e.SGL[c.sge][c.off:]
		if len(p) > left {
			p = p[:left]
			c.off += left
		} else {
			c.sge, c.off = c.sge+1, 0
		}
		left -= len(p)
		if n <= inlineMax {
			copy(t.b.own(len(p)), p)
		} else {
			t.b.point(p)
		}
		crc = crcOf(reckon, crc, p)
	}
	t.trailer(l, crc)
}

// trailer adds pad and CRC of an FPDU whose ULPDU has l octets.
func (t *transmitter) trailer(l int, crc uint32) {
	pad := mpa.Pad(l)
	p := t.b.own(pad + mpa.CRCLen)
	clear(p)
	if t.crc {
		mpa.PutCRC(p[pad:], mpa.UpdateCRC(crc, p[:pad]))
	}
	t.b.endFPDU()
}

// gather appends the next n octets of the current work request in pieces.
func (t *transmitter) gather(parts [][]byte, n int) [][]byte {
	c := &t.cur
	for n > 0 {
		p := c.e.SGL[c.sge][c.off:]
		if len(p) > n {
			p = p[:n]
			c.off += n
		} else {
			c.sge, c.off = c.sge+1, 0
		}
		n -= len(p)
		parts = append(parts, p)
	}
	return parts
}

// A markedFPDU is the room in which an FPDU with markers is made, and the pieces that
// go into it. A batch with markers has one FPDU, so there is one such room.
type markedFPDU struct {
	head  [ddp.UntaggedLen + rdmap.AtomicRequestLen]byte
	parts [][]byte
	room  []byte
}

// begin lets the first n octets of head be the first piece.
func (m *markedFPDU) begin(n int) [][]byte { return append(m.parts[:0], m.head[:n]) }

// marked adds an FPDU with markers. They cut through the payload, so this path copies.
func (t *transmitter) marked(parts [][]byte) {
	m := &t.made
	m.room = t.markers.Append(m.room[:0], t.crc, parts...)
	clear(parts)
	m.parts = parts
	t.b.point(m.room)
	t.b.endFPDU()
}

// readRequest adds the one segment of an RDMA Read Request (RFC 5040 §4.4).
func (t *transmitter) readRequest(e *sendEntry) {
	h := ddp.Header{Last: true, Ctrl: rdmap.Control(rdmap.OpReadRequest), QN: ddp.QNRead, MSN: t.readMSN}
	q := rdmap.ReadRequest{SinkSTag: uint32(e.sinkSTag), SinkTO: e.sinkTO(),
		Size: e.length, SrcSTag: uint32(e.RemoteSTag), SrcTO: e.RemoteTO}
	t.readMSN++
	var room [rdmap.ReadRequestLen]byte
	t.whole(&h, q.Append(room[:0]))
	t.requested()
}

// requested publishes the Read or atomic operation in hand as outstanding. From
// then on the receiver can complete it, and its entry can be used again: a peer
// may answer before the request has left, or without having one. So this is the
// last step, when nothing of the entry is needed any more.
func (t *transmitter) requested() {
	sq := &t.qp.sq
	sq.mu.Lock()
	sq.reads[sq.readTail&sq.readMask] = t.cur.at
	sq.readTail++
	sq.mu.Unlock()
	t.cur = message{}
}

// responseSegment adds the next segment of a response. The Memory Region is
// judged anew for each: it may have been revoked since (RFC 5040 §7.2, R6 of the checks).
func (t *transmitter) responseSegment(r *readResponse) error {
	if r.atomic {
		t.atomicResponse(r)
		return nil
	}
	sent := t.cur.sent
	h := ddp.Header{Tagged: true, Ctrl: rdmap.Control(rdmap.OpReadResponse),
		STag: uint32(r.sinkSTag), TO: r.sinkTO + uint64(sent)} // R5040-048, R5040-049
	n := min(int(r.size-sent), t.mulpdu-ddp.TaggedLen)
	if t.seam(ddp.TaggedLen + n) {
		return errSeam
	}
	h.Last = sent+uint32(n) == r.size
	if n == 0 {
		t.responseFPDU(&h, nil, nil)
	} else {
		stag := r.srcSTag
		mr := t.qp.dev.stags.lookup(stag)
		if mr == nil {
			return t.responseFault(r, sent, memSTag)
		}
		mr.mu.RLock()
		off, f := mr.judge(t.qp, stag, r.srcTO+uint64(sent), uint64(n), RemoteRead)
		if f == memOK {
			t.responseFPDU(&h, mr, mr.buf[off:off+n])
		}
		mr.mu.RUnlock()
		if f != memOK {
			return t.responseFault(r, sent, f)
		}
	}
	if t.cur.sent += uint32(n); h.Last {
		t.responded(r)
	}
	return nil
}

// responded ends a response whose last segment is in the batch.
func (t *transmitter) responded(r *readResponse) {
	r.built, r.end = true, t.b.end()
	t.cur = message{}
	t.qp.sq.mu.Lock()
	t.qp.sq.irqBuilt++
	t.qp.sq.mu.Unlock()
}

// responseFPDU adds one FPDU that points into mr, whose lock the caller holds.
func (t *transmitter) responseFPDU(h *ddp.Header, mr *MR, p []byte) {
	if t.markers != nil {
		t.marked(append(t.made.begin(h.Put(t.made.head[:])), p))
		return
	}
	l := ddp.TaggedLen + len(p)
	head := t.b.own(mpa.LengthLen + ddp.TaggedLen)
	head[0], head[1] = byte(l>>8), byte(l)
	h.Put(head[mpa.LengthLen:])
	crc := crcOf(t.crc, 0, head)
	crc = crcOf(t.crc, crc, p)
	if len(p) <= inlineMax {
		if len(p) > 0 {
			copy(t.b.own(len(p)), p)
		}
	} else {
		t.b.point(p)
		mr.txRefs.Add(1)
		t.b.refs = append(t.b.refs, mrRef{mr: mr, iov: len(t.b.iov) - 1, end: t.b.end()})
	}
	t.trailer(l, crc)
}

// readFaults are the codes of a refused Read (RFC 5040 §4.8).
var readFaults = [...]*term.Error{
	memSTag:   term.New(term.RDMAPInvalidSTag, ""),
	memAssoc:  term.New(term.RDMAPSTagNotOfStream, ""),
	memAccess: term.New(term.RDMAPAccess, ""),
	memWrap:   term.New(term.RDMAPWrap, ""),
	memBounds: term.New(term.RDMAPBounds, ""),
}

// A streamFault is an error with the Terminate that tells the peer of it.
type streamFault struct {
	err  error
	term term.Terminate
}

func (f *streamFault) Error() string { return f.err.Error() }
func (f *streamFault) Unwrap() error { return f.err }

// responseFault is a Read that failed after sent octets: its request goes back
// with what has been answered taken off (RFC 5040 §4.8, R5040-085).
func (t *transmitter) responseFault(r *readResponse, sent uint32, f memFault) error {
	q := rdmap.ReadRequest{SinkSTag: uint32(r.sinkSTag), SinkTO: r.sinkTO + uint64(sent),
		Size: r.size - sent, SrcSTag: uint32(r.srcSTag), SrcTO: r.srcTO + uint64(sent)}
	err := readFaults[f]
	return &streamFault{err: err, term: term.Terminate{Code: err.Code, HasSegLen: true,
		SegLen: r.length, DDP: append([]byte(nil), r.ddp[:]...), RDMA: q.Append(nil)}}
}
