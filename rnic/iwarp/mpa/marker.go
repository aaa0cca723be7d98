// Markers: their positions in a stream, and a direction's state.

package mpa

import "encoding/binary"

// Marker (RFC 5044 §4.2), one every markerInterval bytes of the stream, itself counted:
//
//	off  size  field
//	  0     2  reserved: sent as zero, ignored
//	  2     2  FPDUPTR: bytes back to the ULPDU_Length of the FPDU it is in; low two bits zero
//
// The first stands at the very start of Full Operation. All parts of a stream have a multiple of 4
// bytes. So a marker can split a ULPDU, or fall between its padding and CRC, but never splits a
// length, padding or a CRC. A marker between two FPDUs has a zero pointer, and belongs to the
// second one, CRC included.
const (
	markerLen      = 4
	markerInterval = 512
)

// leading reports whether an FPDU at stream position pos begins with a marker.
func leading(pos uint32) bool { return pos%markerInterval == 0 }

// wireLen returns the FPDU's length at stream position pos with l ULPDU bytes and all its
// markers, the leading one too.
func wireLen(pos uint32, l int) int {
	lead := 0
	if leading(pos) {
		lead, pos = markerLen, pos+markerLen
	}
	n := FPDULen(l)
	room := markerInterval - int(pos%markerInterval) // up to the next marker
	if n > room {
		n += markerLen * (1 + (n-room-1)/(markerInterval-markerLen))
	}
	return lead + n
}

// A MarkerSender inserts markers in one outbound direction. Its zero value stands at the start of
// Full Operation. Positions are kept modulo 2^32, a multiple of the interval, so a stream with any
// length stays in phase (RFC 5044 §4.3 [R5044-034]).
type MarkerSender struct {
	pos uint32 // bytes sent since the start-up frame
}

// Append appends an FPDU with its markers. Its ULPDU is the concatenated parts: 1 to MaxULPDU
// bytes. Each appended FPDU must be sent, in order.
func (s *MarkerSender) Append(b []byte, crc bool, parts ...[]byte) []byte {
	start, l := len(b), total(parts)
	if leading(s.pos) {
		b = appendMarker(b, 0)
		s.pos += markerLen
	}
	header := s.pos
	b = binary.BigEndian.AppendUint16(b, uint16(l))
	s.pos += LengthLen
	for _, p := range parts {
		b = s.fill(b, p, header)
	}
	b = s.fill(b, zeros[:Pad(l)], header)
	if leading(s.pos) { // between padding and CRC
		b = s.mark(b, header)
	}
	s.pos += CRCLen
	return appendCRC(b, start, crc)
}

// fill appends p, with a marker before each byte at a marker position.
func (s *MarkerSender) fill(b, p []byte, header uint32) []byte {
	for len(p) > 0 {
		if leading(s.pos) {
			b = s.mark(b, header)
		}
		n := min(len(p), markerInterval-int(s.pos%markerInterval))
		b = append(b, p[:n]...)
		s.pos += uint32(n)
		p = p[n:]
	}
	return b
}

func (s *MarkerSender) mark(b []byte, header uint32) []byte {
	b = appendMarker(b, uint16(s.pos-header))
	s.pos += markerLen
	return b
}

func appendMarker(b []byte, ptr uint16) []byte {
	return append(b, 0, 0, byte(ptr>>8), byte(ptr))
}
