// Payload that is read straight into the memory it is for: possible when no CRC has to be right first.

package rnic

import (
	"encoding/binary"

	"github.com/nfsrdma/nfsrdma/rnic/iwarp/ddp"
	"github.com/nfsrdma/nfsrdma/rnic/iwarp/mpa"
	"github.com/nfsrdma/nfsrdma/rnic/iwarp/rdmap"
)

// With CRCs and markers off, a large segment is judged as soon as its header is
// here; what has come of its payload is placed, and the rest lands by scattered
// reads: payload into its memory, what follows into the receive buffer.
// Each of these reads judges the memory anew, holds receiver.mu and MR.mu, and takes only
// what TCP has. So nothing is locked while a slow peer is waited for, and memory that is
// taken away meanwhile is not touched again: its next octet ends the stream, as
// it would have before the segment began.
const (
	directMin = 16 << 10 // with fewer octets to come, one read of many FPDUs and a copy are cheaper
	bulkTail  = 2 << 10  // octets that are read behind payload: a header, or some small FPDUs
	headMax   = mpa.LengthLen + ddp.UntaggedLen
)

// A landing is a segment that has been judged and whose payload is not all here.
// The receive loop owns it.
type landing struct {
	open    bool
	held    bool // between aim and release
	op      rdmap.Opcode
	h       ddp.Header
	head    [ddp.UntaggedLen]byte // as it came, for a Terminate
	length  int                   // of the ULPDU
	n       int                   // octets of payload
	got     int                   // of which are in place
	trailer int                   // octets of pad and CRC
	mr      *MR                   // where tagged payload goes
	fault   error                 // why it cannot go on
}

// left is how many octets of payload are to come.
func (l *landing) left() int { return l.n - l.got }

// set begins a landing of which got octets are in place.
func (l *landing) set(h *ddp.Header, op rdmap.Opcode, ulpdu []byte, got, length int) {
	l.open, l.op, l.h, l.got, l.fault = true, op, *h, got, nil
	copy(l.head[:], ulpdu[:h.Len()])
	l.length, l.n, l.trailer = length, length-h.Len(), mpa.Pad(length)+mpa.CRCLen
}

// add takes its share of n octets that have been read.
func (l *landing) add(n int) int {
	if !l.open {
		return 0
	}
	n = min(n, l.left())
	l.got += n
	return n
}

// takeOff begins to land the FPDU that is not whole in the buffer, if that is worth it.
func (r *receiver) takeOff() error {
	b := r.buf[r.r:r.w]
	if !r.direct || len(b) < headMax {
		return nil
	}
	length := int(binary.BigEndian.Uint16(b))
	op := rdmap.Opcode(b[mpa.LengthLen+1] & 0x0f)
	if mpa.LengthLen+length-len(b) < directMin || !op.Payload() {
		return nil
	}
	if err := r.segment(b[mpa.LengthLen:], length); err != nil {
		return r.fault(err, b[mpa.LengthLen:], length)
	}
	r.land.mr = r.mr
	if r.land.op == rdmap.OpReadResponse {
		r.land.mr = r.read.MR
	}
	r.r, r.w, r.bulk = 0, 0, true
	return nil
}

// landed ends the landing if its payload and trailer are here. The caller holds mu.
func (r *receiver) landed() (whole bool, err error) {
	l := &r.land
	if l.fault != nil {
		return false, r.fault(l.fault, l.head[:l.h.Len()], l.length)
	}
	if l.left() > 0 || r.w-r.r < l.trailer {
		return false, nil
	}
	r.r += l.trailer
	l.open, l.mr = false, nil
	if err := r.placedAll(l.op, &l.h); err != nil {
		return false, r.fault(err, l.head[:l.h.Len()], l.length)
	}
	r.begin()
	return true, nil
}

// hold judges the rest of the landing's memory anew, and locks it for one read. The
// caller ends that with letGo. It fails when the stream has ended or the memory is gone.
func (r *receiver) hold() (p []byte, ok bool) {
	l := &r.land
	r.mu.Lock()
	switch {
	case r.stopped:
		r.mu.Unlock()
		return nil, false
	case !l.h.Tagged:
		l.held = true
		return r.recv.Buf[int(l.h.MO)+l.got:][:l.left()], true
	}
	need := RemoteWrite
	if l.op == rdmap.OpReadResponse {
		need = LocalWrite
	}
	l.mr.mu.RLock()
	off, f := l.mr.judge(r.qp, STag(l.h.STag), l.h.TO+uint64(l.got), uint64(l.left()), need)
	if f != memOK {
		l.mr.mu.RUnlock()
		r.mu.Unlock()
		l.fault = writeFaults[f]
		return nil, false
	}
	l.held = true
	return l.mr.buf[off:][:l.left()], true
}

// letGo unlocks what hold locked.
func (r *receiver) letGo() {
	if r.land.h.Tagged {
		r.land.mr.mu.RUnlock()
	}
	r.land.held = false
	r.mu.Unlock()
}
