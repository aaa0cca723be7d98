// The Terminate header: layout, Append, and a Parse that also understands little-endian siw.

package term

import (
	"encoding/binary"
	"errors"
)

// Terminate header (RFC 5040 §4.8), after the untagged DDP header:
//
//	off  size  field
//	  0   4b   Layer
//	  0   4b   Error Type
//	  1     1  Error Code
//	  2   3b   header control: M 0x80 (segment length valid), D 0x40 (DDP header), R 0x20 (RDMA header)
//	  2  13b   reserved: sent as zero, ignored
//	  4     2  DDP Segment Length                 if M or D
//	  6  14|18 terminated DDP header              if D
//	 ..    28  terminated RDMA (Read Request) header  if R
const (
	controlLen = 4
	rdmaLen    = 28

	// maxLen is the longest Terminate header.
	maxLen = controlLen + 2 + 18 + rdmaLen
)

// errShort reports a Terminate shorter than its control field. After a faulty Terminate RFC 5040
// §7.1 allows no Terminate in return.
var errShort = errors.New("rnic: Terminate message shorter than its control field")

// A Terminate is the last message of a stream, with the reason for the end.
type Terminate struct {
	Code Code

	// The returned parts of the offending segment: DDP is its DDP header (14 or 18 bytes), RDMA its
	// Read Request header; nil if not included. SegLen, the segment's ULPDU length, is valid if
	// HasSegLen.
	HasSegLen bool
	SegLen    uint16
	DDP       []byte
	RDMA      []byte

	// swapped marks a received Terminate in the dialect of little-endian Linux siw, with its bit
	// fields in reverse order within a byte.
	swapped bool
}

// Append appends the header in the RFC's form; it sets M, D and R for the included parts.
func (t *Terminate) Append(b []byte) []byte {
	var ctrl byte
	if t.HasSegLen {
		ctrl |= 0x80
	}
	if len(t.DDP) > 0 {
		ctrl |= 0x40
	}
	if len(t.RDMA) > 0 {
		ctrl |= 0x20
	}
	b = append(b, t.Code.Layer<<4|t.Code.EType&0x0f, t.Code.Code, ctrl, 0)
	if ctrl&0xc0 != 0 {
		b = binary.BigEndian.AppendUint16(b, t.SegLen)
	}
	b = append(b, t.DDP...)
	return append(b, t.RDMA...)
}

// Parse parses a Terminate header. It goes by length rather than by flags alone: it omits a
// returned header that is announced but missing (siw sends such). DDP and RDMA alias b.
//
// setup: this is the peer's first FPDU, when the codes of RFC 6581 §8 can come. Bytes with one of
// these meanings in the RFC's form, and another in siw's, are then parsed in the RFC's form.
func Parse(b []byte, setup bool) (t Terminate, err error) {
	if len(b) < controlLen {
		return t, errShort
	}
	t.swapped = swapped(b, setup)
	t.Code = code(b, t.swapped)
	ctrl := b[2]
	if t.swapped {
		ctrl = ctrl<<7&0x80 | ctrl<<5&0x40 | ctrl<<3&0x20
	}
	rest := b[controlLen:]
	if ctrl&0xc0 != 0 && len(rest) >= 2 {
		t.HasSegLen = ctrl&0x80 != 0
		t.SegLen = binary.BigEndian.Uint16(rest)
		rest = rest[2:]
	}
	if ctrl&0x40 != 0 && len(rest) > 0 {
		n := 18
		if rest[0]&0x80 != 0 { // the T bit of the returned header
			n = 14
		}
		if len(rest) < n {
			return t, nil
		}
		t.DDP, rest = rest[:n:n], rest[n:]
	}
	if ctrl&0x20 != 0 && len(rest) >= rdmaLen {
		t.RDMA = rest[:rdmaLen:rdmaLen]
	}
	return t, nil
}

// STag returns the STag in the returned headers, of memory at the Terminate's sender: the target of
// a tagged segment, or the source of a Read; 0 if none.
func (t *Terminate) STag() uint32 {
	switch {
	case len(t.RDMA) == rdmaLen:
		return binary.BigEndian.Uint32(t.RDMA[16:])
	case len(t.DDP) == 14:
		return binary.BigEndian.Uint32(t.DDP[2:])
	}
	return 0
}

// code parses layer, type and code in one of the two dialects.
func code(b []byte, swap bool) Code {
	if swap {
		return Code{Layer: b[0] & 0x0f, EType: b[0] >> 4, Code: b[1]}
	}
	return Code{Layer: b[0] >> 4, EType: b[0] & 0x0f, Code: b[1]}
}

// swapped detects the dialect: by the header control bits if any are set (siw's are reserved bits
// in the RFC, to be ignored: RFC 5040 §4.8 [R5040-062]), else by the table of codes.
func swapped(b []byte, setup bool) bool {
	hi, lo := b[2]&0xe0, b[2]&0x07
	rfc, siw := code(b, false), code(b, true)
	switch {
	case hi != 0:
		return false
	case lo != 0 && siw.Known():
		return true
	}
	if rfc.Layer == LayerLLP && rfc.Code >= MPALocal.Code && !setup && siw.Known() {
		return true
	}
	return !rfc.Known() && siw.Known()
}
