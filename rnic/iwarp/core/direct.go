// Direct placement: payload read straight into its destination, either without CRCs, or when the
// destination is known in advance.

package core

import (
	"encoding/binary"

	"github.com/nfsrdma/nfsrdma/rnic"
	"github.com/nfsrdma/nfsrdma/rnic/iwarp/ddp"
	"github.com/nfsrdma/nfsrdma/rnic/iwarp/mpa"
	"github.com/nfsrdma/nfsrdma/rnic/iwarp/rdmap"
)

// A directPlacement is a checked segment with an incomplete payload. The receive loop owns it.
//
// With markers off, a large segment is checked as soon as its header is here. The payload received
// so far is placed, and scattered reads fetch the rest: payload into its memory, later bytes into
// the receive buffer. Each of these reads checks the memory again, borrows it, and takes only the
// bytes that TCP has. So no lock is held while waiting for a slow peer, and memory taken away
// meanwhile is not touched again: its next byte ends the stream, as it would have before the
// segment began.
//
// With CRCs a segment's header is not trusted before its CRC is verified. So only segments with a
// destination known without the header are read directly: the next segment of the same RDMA Write
// (continuation), or any of the response to our oldest Read. Its header must name memory named by a
// verified segment, at that segment's end, or by the posted Read, and the header has passed the
// same checks; so a damaged header cannot touch other memory. The segment's bytes are not delivered
// before the CRC, computed as they arrive, has been checked (RFC 5044 §6 [R5044-083]): there is no
// completion and no next segment. A wrong CRC ends the stream, and the region's content from that
// offset on is undefined, as RFC 5040 leaves it after any error.
type directPlacement struct {
	// open is set by begin and ends with endDirect, or Discard. Between them the receive loop
	// repeats Borrow, a read of the socket, and Return until got is n; then Consume sees the
	// trailer.
	open     bool
	borrowed bool // between Borrow and Return
	op       rdmap.Opcode
	h        ddp.Header
	head     [ddp.UntaggedLen]byte // as received, for a Terminate
	length   int                   // the ULPDU's, in bytes
	n        int                   // payload bytes
	got      int                   // bytes already placed
	trailer  int                   // padding and CRC bytes
	mr       *rnic.MR              // tagged payload's destination
	fault    error                 // why the placement cannot continue
	crc      uint32                // the received bytes' CRC, if CRCs are in use
	mem      []byte                // the borrowed memory
}

// A continuation is the expected next segment of a tagged message: a sender finishes a message
// before it begins another (RFC 5041 §5.3 [R5041-067]). The zero value expects none.
type continuation struct {
	op   rdmap.Opcode
	stag uint32
	to   uint64
	open bool
}

// after records a verified and completed segment with n payload bytes.
func (c *continuation) after(op rdmap.Opcode, h *ddp.Header, n int) {
	*c = continuation{op: op, stag: h.STag, to: h.TO + uint64(n), open: h.Tagged && !h.Last && n > 0}
}

// is reports whether a is the expected segment.
func (c *continuation) is(a *action) bool {
	return c.open && a.h.Tagged && a.op == c.op && a.h.STag == c.stag && a.h.TO == c.to
}

// left returns the number of payload bytes not yet placed.
func (p *directPlacement) left() int { return p.n - p.got }

// begin starts the placement of a segment's missing payload. The received part is placed already.
func (p *directPlacement) begin(in *Inbound, a *action) {
	*p = directPlacement{open: true, op: a.op, h: a.h, got: len(a.payload), length: a.length, n: a.n,
		trailer: mpa.Pad(a.length) + mpa.CRCLen}
	copy(p.head[:], a.ulpdu[:a.h.Len()])
	switch a.kind {
	case actWrite:
		p.mr = in.mr
	case actResponse:
		p.mr = in.read.e.MR
	}
}

// beginDirect begins to place the incomplete FPDU in b, if that pays. It returns how many bytes of
// b it has taken: none, or all.
func (in *Inbound) beginDirect(b []byte) (n int, err error) {
	if !in.direct || len(b) < headMax {
		return 0, nil
	}
	length := int(binary.BigEndian.Uint16(b))
	// The opcode is only a guess, which check confirms: a check pays if the FPDU has payload.
	op := rdmap.Opcode(b[mpa.LengthLen+1] & 0x0f)
	if mpa.LengthLen+length-len(b) < directMin || !op.Payload() {
		return 0, nil
	}
	ulpdu := b[mpa.LengthLen:]
	a, err := in.check(ulpdu, length)
	if in.crc && (err != nil || !in.destinationKnown(&a)) {
		return 0, nil // an error is reported when the whole segment has a good CRC
	}
	if err == nil {
		err = in.do(&a)
	}
	if err != nil && in.crc {
		return 0, nil // the memory was refused and nothing was touched; this error too is reported later
	}
	if err != nil {
		return 0, in.fail(err, ulpdu, length)
	}
	in.small = 0
	if in.crc {
		in.placement.crc = mpa.UpdateCRC(0, b)
	}
	return len(b), nil
}

// destinationKnown reports whether a segment that passed check, but has no CRC yet, goes to a
// destination that no damage to its header could have caused.
func (in *Inbound) destinationKnown(a *action) bool {
	// checkResponse accepts a response only if it names our oldest Read's sink at the next byte.
	return a.op == rdmap.OpReadResponse || in.cont.is(a)
}

// endDirect ends the placement if its payload is in place and its trailer, the first n bytes of b,
// is here.
func (in *Inbound) endDirect(b []byte) (n int, whole bool, err error) {
	p := &in.placement
	// The fault is reported here and not by Borrow, so that only Consume ends a stream, with the
	// segment's header.
	if p.fault != nil {
		return 0, false, in.fail(p.fault, p.head[:p.h.Len()], p.length)
	}
	if p.left() > 0 || len(b) < p.trailer {
		return 0, false, nil
	}
	p.open, p.mr = false, nil
	if in.crc {
		if err := mpa.CheckCRC(p.crc, b[:p.trailer]); err != nil {
			return 0, false, in.fail(err, nil, 0)
		}
		in.cont.after(p.op, &p.h, p.n)
	}
	if err := in.placed(p.op, p.h.Last, rnic.STag(p.h.Inv)); err != nil {
		return 0, false, in.fail(err, p.head[:p.h.Len()], p.length)
	}
	in.begin()
	return p.trailer, true, nil
}

// Direct returns how many of the stream's next bytes are payload with memory from Borrow.
func (in *Inbound) Direct() int {
	if !in.placement.open {
		return 0
	}
	return in.placement.left()
}

// InPlacement reports whether a segment is in direct placement, its trailer included.
func (in *Inbound) InPlacement() bool { return in.placement.open }

// noteSmall counts an FPDU of n bytes that was not placed directly.
func (in *Inbound) noteSmall(n int) {
	if n >= directMin {
		in.small = 0
	} else if in.small < bulkPause {
		in.small++
	}
}

// Limit returns how many bytes after b to read into the buffer at once; 0: all available. tail is a
// small number of bytes. The payload after a large segment's header is better read straight into
// its destination. A message's first segment needs its CRC verified first: it is read with no more
// than the next segment's header.
func (in *Inbound) Limit(b []byte, tail int) int {
	bulk := in.small < bulkPause
	switch {
	case !in.direct:
	case len(b) < headMax:
		if bulk {
			return tail
		}
	case in.crc || bulk: // without CRCs: a segment with little to come
		n := mpa.FPDULen(int(binary.BigEndian.Uint16(b))) - len(b) // the FPDU's missing bytes
		if bulk || n >= directMin && ddp.MoreTagged(b[mpa.LengthLen]) {
			return n + tail
		}
	}
	return 0
}

// Borrow returns the memory for the next Direct bytes, checked again, for reading until Return. It
// fails when the stream has ended or the memory is gone: Consume then reports the error. The caller
// holds the owner's lock until Return, and must not wait meanwhile.
func (in *Inbound) Borrow() (p []byte, ok bool) {
	l := &in.placement
	if in.stopped {
		return nil, false
	}
	if !l.h.Tagged {
		l.borrowed = true
		// The buffer of a Send belongs to the receive and cannot be revoked: the owner's lock
		// suffices.
		l.mem = in.recv.wr.Buf[int(l.h.MO)+l.got:][:l.left()]
		return l.mem, true
	}
	need := rnic.RemoteWrite
	if l.op == rdmap.OpReadResponse {
		need = rnic.LocalWrite
	}
	p, f := in.q.Borrow(l.mr, rnic.STag(l.h.STag), l.h.TO+uint64(l.got), l.left(), need)
	if f != rnic.MemOK {
		l.fault = taggedFaults[f]
		return nil, false
	}
	l.borrowed, l.mem = true, p
	return p, true
}

// Borrowed reports whether a Return is due.
func (in *Inbound) Borrowed() bool { return in.placement.borrowed }

// Return ends a Borrow: n bytes have been read, and the first of them filled the placement's
// memory. It returns the number of these first bytes. Return also computes their CRC, while they
// are in the cache and cannot be taken away.
func (in *Inbound) Return(n int) (placed int) {
	l := &in.placement
	placed = min(n, l.left())
	if in.crc {
		l.crc = mpa.UpdateCRC(l.crc, l.mem[:placed])
	}
	l.got += placed
	l.borrowed, l.mem = false, nil
	if l.h.Tagged {
		in.q.Return(l.mr)
	}
	return placed
}

// Discard drops a placement: the stream has ended.
func (in *Inbound) Discard() { in.placement = directPlacement{} }
