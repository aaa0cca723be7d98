// The DDP header, tagged and untagged: layout, then codec.

// Package ddp implements the header of Direct Data Placement segments (RFC 5041): bytes to values
// and back, and the checks that need only the header.
package ddp

import (
	"encoding/binary"

	"github.com/nfsrdma/nfsrdma/rnic/iwarp/term"
)

// DDP header (RFC 5041 §4):
//
//	tagged, T = 1                     untagged, T = 0
//	off  size  field                  off  size  field
//	  0     1  T 0x80 L 0x40 DV 0x03    0     1  T 0x80 L 0x40 DV 0x03
//	  1     1  RsvdULP: RDMAP control   1     1  RsvdULP: RDMAP control
//	  2     4  STag                     2     4  RsvdULP: Invalidate STag or 0
//	  6     8  TO                       6     4  QN
//	                                   10     4  MSN
//	                                   14     4  MO
//
// Bits 0x3c of the first byte are reserved: sent as zero, ignored on receipt.
const (
	TaggedLen   = 14
	UntaggedLen = 18

	flagT   byte = 0x80
	flagL   byte = 0x40
	maskDV  byte = 0x03
	version byte = 1
)

// Untagged queues that RDMAP uses (RFC 5040 §4.2, RFC 7306 §5.2).
const (
	QNSend      = 0
	QNRead      = 1
	QNTerminate = 2
	QNAtomic    = 3
)

// Parse's errors.
var (
	errShort           = term.New(term.DDPLocal, "segment shorter than its header")
	errTaggedVersion   = term.New(term.DDPTaggedVersion, "")
	errUntaggedVersion = term.New(term.DDPUntaggedVersion, "")
)

// A Header is one DDP header.
type Header struct {
	Tagged bool
	Last   bool
	Ctrl   byte // the RsvdULP byte, where RDMAP has its control field

	// Tagged.
	STag uint32
	TO   uint64

	// Untagged.
	Inv uint32 // the RsvdULP word, where RDMAP has the STag to invalidate
	QN  uint32
	MSN uint32
	MO  uint32
}

// Len returns the header's length: TaggedLen or UntaggedLen.
func (h *Header) Len() int {
	if h.Tagged {
		return TaggedLen
	}
	return UntaggedLen
}

// Append appends the header.
func (h *Header) Append(b []byte) []byte {
	var room [UntaggedLen]byte
	return append(b, room[:h.Put(room[:])]...)
}

// Put writes the header at the front of b, which has room for it, and returns its length.
func (h *Header) Put(b []byte) int {
	first := version
	if h.Last {
		first |= flagL
	}
	if h.Tagged {
		_ = b[TaggedLen-1]
		b[0] = first | flagT
		b[1] = h.Ctrl
		binary.BigEndian.PutUint32(b[2:], h.STag)
		binary.BigEndian.PutUint64(b[6:], h.TO)
		return TaggedLen
	}
	_ = b[UntaggedLen-1]
	b[0] = first
	b[1] = h.Ctrl
	binary.BigEndian.PutUint32(b[2:], h.Inv)
	binary.BigEndian.PutUint32(b[6:], h.QN)
	binary.BigEndian.PutUint32(b[10:], h.MSN)
	binary.BigEndian.PutUint32(b[14:], h.MO)
	return UntaggedLen
}

// Parse parses a segment's header; payload is the rest and aliases ulpdu. Each error is a
// *term.Error.
func Parse(ulpdu []byte) (h Header, payload []byte, err error) {
	if len(ulpdu) < TaggedLen || ulpdu[0]&flagT == 0 && len(ulpdu) < UntaggedLen {
		return h, nil, errShort
	}
	h.Tagged = ulpdu[0]&flagT != 0
	h.Last = ulpdu[0]&flagL != 0
	h.Ctrl = ulpdu[1]
	if ulpdu[0]&maskDV != version {
		if h.Tagged {
			return h, nil, errTaggedVersion
		}
		return h, nil, errUntaggedVersion
	}
	if h.Tagged {
		h.STag = binary.BigEndian.Uint32(ulpdu[2:])
		h.TO = binary.BigEndian.Uint64(ulpdu[6:])
		return h, ulpdu[TaggedLen:], nil
	}
	h.Inv = binary.BigEndian.Uint32(ulpdu[2:])
	h.QN = binary.BigEndian.Uint32(ulpdu[6:])
	h.MSN = binary.BigEndian.Uint32(ulpdu[10:])
	h.MO = binary.BigEndian.Uint32(ulpdu[14:])
	return h, ulpdu[UntaggedLen:], nil
}

// MoreTagged reports whether a control byte begins a tagged message's segment other than the last.
func MoreTagged(ctrl byte) bool { return ctrl&(flagT|flagL) == flagT }

// Terminated returns a segment's header bytes for a Terminate to its sender, or nil if the segment
// is shorter than its header. They alias ulpdu.
func Terminated(ulpdu []byte) []byte {
	n := UntaggedLen
	if len(ulpdu) > 0 && ulpdu[0]&flagT != 0 {
		n = TaggedLen
	}
	if len(ulpdu) < n {
		return nil
	}
	return ulpdu[:n:n]
}
