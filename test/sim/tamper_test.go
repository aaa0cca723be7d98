// FPDUs in the hands of a hostile peer or a middlebox: it changes them, and adds others.

package sim

import (
	"encoding/binary"

	"github.com/nfsrdma/nfsrdma/rnic/iwarp/ddp"
	"github.com/nfsrdma/nfsrdma/rnic/iwarp/mpa"
	"github.com/nfsrdma/nfsrdma/rnic/iwarp/rdmap"
)

// A tamper splits the bytes of one direction into FPDUs. It is for streams without markers. The
// link's mu guards it.
type tamper struct {
	reply  bool                      // the start-up frame is a Reply
	framed bool                      // it has gone by
	held   []byte                    // of an FPDU that is not whole
	extra  []byte                    // FPDUs to add at the next boundary
	change func(ulpdu []byte) []byte // returns a ULPDU's replacement; nil: FPDUs go on unchanged
	damage int                       // the damaged FPDU, from 1, among those of least bytes; 0: none
	least  int
	where  uint32 // the bit to flip in the FPDU, outside of its length
	told   func() // called when the FPDU has been damaged
}

// feed takes bytes as they are sent and returns those that go on.
func (t *tamper) feed(p []byte) (out []byte) {
	t.held = append(t.held, p...)
	for {
		n := t.whole()
		if n == 0 {
			break
		}
		unit := t.held[:n]
		if t.framed && t.change != nil {
			unit = t.changed(unit)
		}
		if t.framed && t.damage > 0 && n >= t.least {
			if t.damage--; t.damage == 0 {
				unit[mpa.LengthLen+int(t.where/8)%(n-mpa.LengthLen)] ^= 1 << (t.where % 8)
				t.told()
			}
		}
		out = append(out, unit...)
		t.held, t.framed = t.held[n:], true
	}
	return append(out, t.boundary()...)
}

// whole returns the length of the frame or FPDU at the front; 0 while it is not all there.
func (t *tamper) whole() int {
	if !t.framed {
		_, n, err := mpa.ParseFrame(t.held, t.reply)
		if err != nil {
			return len(t.held)
		}
		return n
	}
	if len(t.held) < mpa.LengthLen {
		return 0
	}
	n := mpa.FPDULen(int(binary.BigEndian.Uint16(t.held)))
	if n > len(t.held) {
		return 0
	}
	return n
}

func (t *tamper) changed(fpdu []byte) []byte {
	n := int(binary.BigEndian.Uint16(fpdu))
	ulpdu := fpdu[mpa.LengthLen:][:n]
	if other := t.change(ulpdu); other != nil {
		return mpa.AppendFPDU(nil, true, other)
	}
	return fpdu
}

// boundary returns the bytes to add now, if this is between two FPDUs.
func (t *tamper) boundary() []byte {
	if !t.framed || len(t.held) > 0 {
		return nil
	}
	extra := t.extra
	t.extra = nil
	return extra
}

// inject adds an FPDU to d at the next boundary between FPDUs. The caller holds the link's mu.
func (d *direction) inject(ulpdu []byte) {
	d.tamper.extra = mpa.AppendFPDU(d.tamper.extra, true, ulpdu)
	d.sent = append(d.sent, d.tamper.boundary()...)
	d.toCarry.Signal()
}

// readResponse returns the whole answer to a Read of few bytes.
func readResponse(stag uint32, to uint64, data []byte) []byte {
	h := ddp.Header{Tagged: true, Last: true, Ctrl: rdmap.Control(rdmap.OpReadResponse), STag: stag, TO: to}
	return append(h.Append(nil), data...)
}
