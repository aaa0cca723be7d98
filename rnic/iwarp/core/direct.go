// Payload that is read straight into the memory it is for: possible when no CRC has to be right first.

package core

import (
	"encoding/binary"

	"github.com/nfsrdma/nfsrdma/rnic"
	"github.com/nfsrdma/nfsrdma/rnic/iwarp/ddp"
	"github.com/nfsrdma/nfsrdma/rnic/iwarp/mpa"
	"github.com/nfsrdma/nfsrdma/rnic/iwarp/rdmap"
)

// With CRCs and markers off, a large segment is checked as soon as its header is
// here; what has come of its payload is placed, and the rest is read by scattered
// reads: payload into its memory, what follows into the receive buffer.
// Each of these reads checks the memory anew, borrows it, and takes only
// what TCP has. So nothing is locked while a slow peer is waited for, and memory that is
// taken away meanwhile is not touched again: its next byte ends the stream, as
// it would have before the segment began.
const (
	directMin = 16 << 10 // with fewer bytes to come, one read of many FPDUs and a copy are cheaper

	// HeadMax is the most bytes of an FPDU before its payload.
	HeadMax = mpa.LengthLen + ddp.UntaggedLen
)

// A placement is a segment that has been checked and whose payload is not all here.
// The receive loop owns it.
type placement struct {
	// open is set by begin and ends with endDirect, or Discard. Between them the receive loop reads:
	// Borrow, a read of the socket, Return, Placed, until got is n; then Consume sees the trailer.
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
	if !in.direct || len(b) < HeadMax {
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
	if err == nil {
		err = in.do(&a)
	}
	if err != nil {
		return 0, in.fail(err, ulpdu, length)
	}
	in.afterBig = true
	return len(b), nil
}

// endDirect ends the placement if its payload is in place and its trailer, which is the
// first n bytes of b, has come.
func (in *Inbound) endDirect(b []byte) (n int, whole bool, err error) {
	p := &in.place
	// Told here and not by Borrow, so that Consume alone is where a stream ends, with the segment's header.
	if p.fault != nil {
		return 0, false, in.fail(p.fault, p.head[:p.h.Len()], p.length)
	}
	if p.left() > 0 || len(b) < p.trailer {
		return 0, false, nil
	}
	p.open, p.mr = false, nil
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

// Bulk reports whether a large payload is likely to follow a header, which is then not to be read together with
// the payload.
func (in *Inbound) Bulk() bool { return in.afterBig }

// Borrow returns the memory for the next Direct bytes, checked anew, to be read into until Return. It fails when
// the stream has ended or the memory is gone: Consume then tells why. Under the owner's lock, which the
// caller holds until Return; it does not wait for anything meanwhile.
func (in *Inbound) Borrow() (p []byte, ok bool) {
	l := &in.place
	if in.stopped {
		return nil, false
	}
	if !l.h.Tagged {
		l.borrowed = true
		// The buffer of a Send belongs to the receive, which nobody can revoke: no lock is needed but the owner's.
		return in.recv.wr.Buf[int(l.h.MO)+l.got:][:l.left()], true
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
	l.borrowed = true
	return p, true
}

// Borrowed reports whether Return is due.
func (in *Inbound) Borrowed() bool { return in.place.borrowed }

// Return ends what Borrow began.
func (in *Inbound) Return() {
	if in.place.h.Tagged {
		in.q.Return(in.place.mr)
	}
	in.place.borrowed = false
}

// Placed notes that n bytes have been read, of which the first go into the memory of the placement, and
// returns how many those are.
func (in *Inbound) Placed(n int) int {
	if !in.place.open {
		return 0
	}
	n = min(n, in.place.left())
	in.place.got += n
	return n
}

// Missing is how many bytes have to come after b until there is anything to do: those that
// make the next FPDU whole, as far as that is known.
func (in *Inbound) Missing(b []byte) int {
	switch {
	case in.place.open:
		return in.place.left() + in.place.trailer - len(b)
	case len(b) < mpa.LengthLen || in.markers != nil:
		return 1
	}
	return mpa.FPDULen(int(binary.BigEndian.Uint16(b))) - len(b)
}

// Discard forgets a placement: the stream has ended.
func (in *Inbound) Discard() { in.place = placement{} }
