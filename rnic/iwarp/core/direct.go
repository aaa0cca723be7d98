// Payload that is read straight into the memory it is for, without CRCs, or where its place is
// known before.

package core

import (
	"encoding/binary"

	"github.com/nfsrdma/nfsrdma/rnic"
	"github.com/nfsrdma/nfsrdma/rnic/iwarp/ddp"
	"github.com/nfsrdma/nfsrdma/rnic/iwarp/mpa"
	"github.com/nfsrdma/nfsrdma/rnic/iwarp/rdmap"
)

// With markers off, a large segment is checked as soon as its header is
// here; what has come of its payload is placed, and the rest is read by scattered
// reads: payload into its memory, what follows into the receive buffer.
// Each of these reads checks the memory anew, borrows it, and takes only
// what TCP has. So nothing is locked while a slow peer is waited for, and memory that is
// taken away meanwhile is not touched again: its next byte ends the stream, as
// it would have before the segment began.
//
// With CRCs the header of a segment is not believed before its CRC is right, so only a segment
// whose place is known without it is read so: the next of the same RDMA Write (continuation), or
// any of the response to our oldest Read. Its header names the memory that a verified segment has
// named, at the offset at which that one has ended, or that the Read was posted for, and has passed
// the same check; damage cannot make it touch other memory. What it brings is delivered to nobody
// before its CRC, which is computed as the bytes come, has been checked (RFC 5044 §6 [R5044-083]):
// there is no completion, no next segment. With a wrong CRC the stream ends, and what is in the
// region from that offset on is undefined, as RFC 5040 leaves it after any error.
const (
	directMin = 16 << 10 // with fewer bytes to come, one read of many FPDUs and a copy are cheaper
	bulkPause = 4        // small FPDUs, as between two large messages, after which another large one is expected

	// headMax is the most bytes of an FPDU before its payload.
	headMax = mpa.LengthLen + ddp.UntaggedLen
)

// A placement is a segment that has been checked and whose payload is not all here.
// The receive loop owns it.
type placement struct {
	// open is set by begin and ends with endDirect, or Discard. Between them the receive loop
	// reads: Borrow, a read of the socket, Return, Placed, until got is n; then Consume sees the
	// trailer.
	open     bool
	borrowed bool // between Borrow and Return
	op       rdmap.Opcode
	h        ddp.Header
	head     [ddp.UntaggedLen]byte // as it came, for a Terminate
	length   int                   // of the ULPDU
	n        int                   // bytes of payload
	got      int                   // of which are in place
	trailer  int                   // bytes of pad and CRC
	mr       *rnic.MR              // where tagged payload goes
	fault    error                 // why it cannot go on
	crc      uint32                // of what has come, if CRCs are in use
	mem      []byte                // what is borrowed
}

// A continuation is the segment that is expected next: after one of a tagged message that is not
// its last, for a sender finishes a message before it begins another (RFC 5041 §5.3 [R5041-067]).
// The zero value: none is.
type continuation struct {
	op   rdmap.Opcode
	stag uint32
	to   uint64
	open bool
}

// after notes a segment with n bytes of payload that has been verified and done.
func (c *continuation) after(op rdmap.Opcode, h *ddp.Header, n int) {
	*c = continuation{op: op, stag: h.STag, to: h.TO + uint64(n), open: h.Tagged && !h.Last && n > 0}
}

// is reports whether a is that segment.
func (c *continuation) is(a *action) bool {
	return c.open && a.h.Tagged && a.op == c.op && a.h.STag == c.stag && a.h.TO == c.to
}

// left is how many bytes of payload are to come.
func (p *placement) left() int { return p.n - p.got }

// begin is for a segment whose payload is in place as far as it has come.
func (p *placement) begin(in *Inbound, a *action) {
	*p = placement{open: true, op: a.op, h: a.h, got: len(a.payload), length: a.length, n: a.n,
		trailer: mpa.Pad(a.length) + mpa.CRCLen}
	copy(p.head[:], a.ulpdu[:a.h.Len()])
	switch a.kind {
	case actWrite:
		p.mr = in.mr
	case actResponse:
		p.mr = in.read.e.MR
	}
}

// beginDirect begins to place the FPDU that is not whole in b, if that is worth it. It returns
// how much of b it has taken: nothing, or all.
func (in *Inbound) beginDirect(b []byte) (n int, err error) {
	if !in.direct || len(b) < headMax {
		return 0, nil
	}
	length := int(binary.BigEndian.Uint16(b))
	// Only a guess which check confirms: it is worth a check if there is payload to come.
	op := rdmap.Opcode(b[mpa.LengthLen+1] & 0x0f)
	if mpa.LengthLen+length-len(b) < directMin || !op.Payload() {
		return 0, nil
	}
	ulpdu := b[mpa.LengthLen:]
	a, err := in.check(ulpdu, length)
	if in.crc && (err != nil || !in.placeKnown(&a)) {
		return 0, nil // told, if it is an error, when the segment is whole and its CRC right
	}
	if err == nil {
		err = in.do(&a)
	}
	if err != nil && in.crc {
		return 0, nil // memory that is refused: nothing has been touched, and the same holds
	}
	if err != nil {
		return 0, in.fail(err, ulpdu, length)
	}
	in.small = 0
	if in.crc {
		in.place.crc = mpa.UpdateCRC(0, b)
	}
	return len(b), nil
}

// placeKnown reports whether a segment that check has let pass, but whose CRC has not come, goes
// where no damage to its header could have sent it.
func (in *Inbound) placeKnown(a *action) bool {
	// checkResponse lets no response pass that does not name the sink of our oldest Read, at the
	// byte that is next.
	return a.op == rdmap.OpReadResponse || in.cont.is(a)
}

// endDirect ends the placement if its payload is in place and its trailer, which is the
// first n bytes of b, has come.
func (in *Inbound) endDirect(b []byte) (n int, whole bool, err error) {
	p := &in.place
	// Told here and not by Borrow, so that Consume alone is where a stream ends, with the segment's
	// header.
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

// Direct is how many of the next bytes of the stream are payload that Borrow has a place for.
func (in *Inbound) Direct() int {
	if !in.place.open {
		return 0
	}
	return in.place.left()
}

// InPlacement reports whether a segment has been begun by direct placement, its trailer included.
func (in *Inbound) InPlacement() bool { return in.place.open }

// noteSmall notes an FPDU of n bytes that was not placed directly.
func (in *Inbound) noteSmall(n int) {
	if n >= directMin {
		in.small = 0
	} else if in.small < bulkPause {
		in.small++
	}
}

// Limit is how many of the bytes after b are to be read into the buffer at once, tail being a few;
// 0: as many as there are. What follows the header of a large segment is better read to where it
// belongs, and a first segment, whose CRC has to be right first, is read with no more than the
// header of the one after it.
func (in *Inbound) Limit(b []byte, tail int) int {
	bulk := in.small < bulkPause
	switch {
	case !in.direct:
	case len(b) < headMax:
		if bulk {
			return tail
		}
	case in.crc || bulk: // without CRCs it is a segment of which too little is to come
		n := mpa.FPDULen(int(binary.BigEndian.Uint16(b))) - len(b) // to come of the FPDU
		if bulk || n >= directMin && ddp.MoreTagged(b[mpa.LengthLen]) {
			return n + tail
		}
	}
	return 0
}

// Borrow returns the memory for the next Direct bytes, checked anew, to be read into until Return.
// It fails when the stream has ended or the memory is gone: Consume then tells why. Under the
// owner's lock, which the caller holds until Return; it does not wait for anything meanwhile.
func (in *Inbound) Borrow() (p []byte, ok bool) {
	l := &in.place
	if in.stopped {
		return nil, false
	}
	if !l.h.Tagged {
		l.borrowed = true
		// The buffer of a Send belongs to the receive, which nobody can revoke: no lock is needed
		// but the owner's.
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

// Borrowed reports whether Return is due.
func (in *Inbound) Borrowed() bool { return in.place.borrowed }

// Return ends what Borrow began: n bytes have been read, of which the first are in the memory of
// the placement. It returns how many those are. Their CRC is computed here, while they are in the
// cache and nobody can take the memory away.
func (in *Inbound) Return(n int) (placed int) {
	l := &in.place
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

// Discard forgets a placement: the stream has ended.
func (in *Inbound) Discard() { in.place = placement{} }
