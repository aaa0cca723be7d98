// The outbound half of a stream: work in, FPDUs out.

package core

import (
	"github.com/nfsrdma/nfsrdma/rnic"
	"github.com/nfsrdma/nfsrdma/rnic/iwarp/ddp"
	"github.com/nfsrdma/nfsrdma/rnic/iwarp/mpa"
	"github.com/nfsrdma/nfsrdma/rnic/iwarp/rdmap"
)

// Modes is what MPA start-up has agreed on for one stream.
type Modes struct {
	CRC          bool // FPDUs have CRCs, both ways
	SendMarkers  bool // the peer asked for markers
	RecvMarkers  bool // we did
	WholeTrailer bool // cut no trailer of an FPDU: the peer might be Linux siw, which would call its CRC bad
	Extensions   bool // RFC 7306 is spoken
	Direct       bool // large payload can be read straight to where it belongs; not with markers
	Strict       bool // with CRCs it is not: each is checked before a byte of its segment is placed
}

// An Outbound turns Work into FPDUs. It does no I/O: Fill makes a batch, Pending is what of it TCP
// has not taken, Sent says how much it took. Its methods are called by one goroutine at a time, the
// one that has the Turn, but for Detach and Stop; its owner has a lock for that.
type Outbound struct {
	// set once
	q       *rnic.ProviderQP
	w       *Work
	crc     bool
	record  bool              // a batch is a record, after which TCP begins a segment; see splits
	markers *mpa.MarkerSender // not nil: the peer asked for markers

	// Of the one who has the Turn; Detach and Stop come from others, under the owner's lock.
	b         batch
	cur       message
	sendMSN   uint32 // of the next message on queue 0
	readMSN   uint32 // and queue 1
	atomicMSN uint32 // and queue 3
	mss       int    // the segment size of TCP, and the ULPDU that fits into it
	mulpdu    int
	untilMSS  int              // batches until the segment size is to be looked up again
	before    mpa.MarkerSender // markers as they were before the batch
	made      markedFPDU
	src       *rnic.MR // the last one that a response was of
	// Between them: a response can be refused in the middle of a batch. The FPDUs before it are
	// good and go first, then the Terminate. So the fault waits here until Pending is empty.
	fault   error // what ended the batch in hand: told when that has left
	stopped bool
}

// mssEvery is how many batches go out between two looks at the segment size.
const mssEvery = 64

// A message is the one that is being cut into segments: a work request of ours
// (e) or the response to a Read of the peer's (r). No other message's segment
// goes between its segments (RFC 5041 §5.3 [R5041-067]).
type message struct {
	begun
	c    cursor // e: where in its payload
	sent uint32 // bytes in segments already made
}

// Init makes an Outbound that has nothing to send to.
func (o *Outbound) Init(q *rnic.ProviderQP, w *Work) {
	o.q, o.w = q, w
	o.sendMSN, o.readMSN, o.atomicMSN = 1, 1, 1 // RFC 5041 §4.3 [R5041-046]
	o.b.init(q)
}

// Start sets it up for a stream.
func (o *Outbound) Start(m Modes) {
	o.crc, o.record = m.CRC, m.WholeTrailer && !m.SendMarkers
	if m.SendMarkers {
		o.markers = new(mpa.MarkerSender)
	}
}

// NeedsMSS reports whether SetMSS has to be called before the next Fill: the segment size of TCP
// can change (RFC 5044 §4.5 [R5044-073]).
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

// A Passing is how pending bytes are to be handed to TCP.
type Passing struct {
	Record bool // they begin a segment, and so do the bytes after them
}

// Pending is what of the batch TCP can be given next, in order; valid until the next call.
func (o *Outbound) Pending() (pieces [][]byte, how Passing) {
	if o.b.empty() {
		return nil, how
	}
	return o.b.pieces[o.b.at:], Passing{Record: o.record}
}

// sourcedSegment is the smallest FPDU, in bytes, for which a Source pays: with 9 KiB it saves a
// seventh of the server's time.
const sourcedSegment = 8 << 10

// TakesSources reports whether payload may come from a Source, and pays, as FPDUs are long enough
// where TCP sends segments of at most mss bytes.
func (m Modes) TakesSources(mss int) bool {
	return !m.SendMarkers && mpa.MULPDU(mss, false) >= sourcedSegment
}

// Fill makes a batch, when TCP has taken all of the one before, of as many FPDUs as are there and
// fit. Without an error and with nothing Pending after it there is nothing to send. The error, a
// *Fault or a plain one, comes when what was built before it has left.
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

// Messages follow each other without regard to whose they are, and each is cut to its end: segments
// of two messages are never mixed. It stops where the batch is full, nothing can begin (door, ORD,
// fence), or a segment is better off as the first of the next batch.
func (o *Outbound) fill() {
	o.b.reset()
	if o.markers != nil {
		// Remembered in case the batch is thrown away whole: the phase of the markers counts bytes
		// of the stream, and those of a batch that never left are none.
		o.before = *o.markers
	}
	for !o.b.full() {
		if o.markers != nil && len(o.b.ends) > 0 {
			break // one at a time, so that a cut cannot put the markers out of phase
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
	o.cur = message{begun: b}
	if b.e != nil {
		o.cur.c.sgl = b.e.SGL
	}
	return true
}

// Sent notes that TCP has taken n more bytes of Pending, and completes what that completes. It
// reports whether the CQ had room.
func (o *Outbound) Sent(n int) (fits bool) {
	if n == 0 {
		return true
	}
	// A work request is complete when its last byte is with TCP, not before: until then the ranges
	// point into the ULP's memory, which it may use again once it is told (RFC 5040 §6).
	o.b.advance(n)
	return o.w.taken(o.b.pos)
}

// Idle reports whether nothing of what was taken from Work is left: no byte of a batch, and no
// message that has been begun, of which more is to be sent, or a fault to be told. What Work has is
// another matter.
func (o *Outbound) Idle() bool { return o.b.empty() && o.cur.e == nil && o.cur.r == nil }

// Position is how many bytes of the stream TCP has taken.
func (o *Outbound) Position() uint64 { return o.b.pos }

// Detach makes what is Pending independent of the memory of mr.
func (o *Outbound) Detach(mr *rnic.MR) { o.b.detach(mr) }

// Stop ends transmission for good. It returns what is left of the FPDU that the
// stream is inside of: only after it can a Terminate go.
func (o *Outbound) Stop() []byte {
	// TCP has a part of an FPDU, perhaps; the peer has to be given the rest before anything else,
	// or it would take the Terminate for payload. What has not begun to leave is dropped.
	o.stopped = true
	o.cur = message{}
	if o.markers != nil && !o.b.empty() && o.b.pos == o.b.began {
		*o.markers = o.before
	}
	return o.b.cut()
}

// Terminate appends the last FPDU of the stream (RFC 5040 §4.8) to what Stop returned.
func (o *Outbound) Terminate(rest []byte, f *Fault) []byte {
	// Built apart from batches: it is the last FPDU in this direction, and queue 2 has no other
	// message.
	h := ddp.Header{Last: true, Ctrl: rdmap.Control(rdmap.OpTerminate), QN: ddp.QNTerminate, MSN: 1}
	ulpdu := f.term.Append(h.Append(nil))
	if o.markers != nil {
		return o.markers.Append(rest, o.crc, ulpdu)
	}
	return mpa.AppendFPDU(rest, o.crc, ulpdu)
}

// splits reports whether the trailer of an FPDU with l bytes of ULPDU, were it next
// in the batch, would be cut: TCP begins a segment with each batch, which goes
// as a record, and one every mss bytes from there. Linux siw takes the CRC of
// such an FPDU for a bad one and ends the connection. In the next batch the FPDU
// comes first and fits in one segment.
func (o *Outbound) splits(l int) bool {
	if !o.record || o.b.empty() {
		return false
	}
	from := o.b.left + mpa.LengthLen + l
	last := from + mpa.Pad(l) + mpa.CRCLen - 1
	return last/o.mss > from/o.mss
}
