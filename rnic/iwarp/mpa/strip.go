// Receiving with markers: FPDUs are split off, their markers checked and removed.

package mpa

import "encoding/binary"

// A MarkerReceiver splits one inbound direction with markers. Its zero value stands at the start of
// Full Operation.
type MarkerReceiver struct {
	pos uint32 // the next FPDU's stream position, modulo 2^32
}

// Parse parses one FPDU from b's front, which begins after the last one. n == 0 with
// no error: more bytes are needed, and b is unchanged. Otherwise the ULPDU's parts have been joined
// within b, without markers; ulpdu aliases b. An FPDU that ends at a marker position is complete at
// its CRC (RFC 5044 §4.3 [R5044-042]).
func (r *MarkerReceiver) Parse(b []byte, crc bool) (ulpdu []byte, n int, err error) {
	head := 0
	if leading(r.pos) {
		head = markerLen
	}
	if len(b) < head+LengthLen {
		return nil, 0, nil
	}
	l := int(binary.BigEndian.Uint16(b[head:]))
	n = wireLen(r.pos, l)
	if len(b) < n {
		return nil, 0, nil
	}
	if crc && CRC32C(b[:n-CRCLen]) != getCRC(b[n-CRCLen:n]) {
		return nil, 0, errCRC
	}
	switch {
	case l == 0:
		return nil, 0, errEmpty
	case l > MaxULPDU: // RFC 5044 §4.3 [R5044-047]
		return nil, 0, errLength
	case !r.check(b[:n], head):
		return nil, 0, errMarker
	}
	ulpdu = closeUp(b[head+LengthLen:n], r.pos+uint32(head+LengthLen), l)
	r.pos += uint32(n)
	return ulpdu, n, nil
}

// check compares each marker in the FPDU f with the length chain (RFC 5044 §8 code 3). head is the
// offset of ULPDU_Length.
func (r *MarkerReceiver) check(f []byte, head int) bool {
	first := int(-r.pos % markerInterval)
	for i := first; i < len(f); i += markerInterval {
		// Reserved bytes and the low two bits are ignored (RFC 5044 §4.2 [R5044-027 R5044-030]).
		ptr := int(binary.BigEndian.Uint16(f[i+2:])) &^ 3
		if ptr != max(i-head, 0) {
			return false
		}
	}
	return true
}

// closeUp joins the l ULPDU bytes from b[0] on, at stream position pos, over the markers among
// them.
func closeUp(b []byte, pos uint32, l int) []byte {
	to := min(l, markerInterval-int(pos%markerInterval))
	for from := to + markerLen; to < l; from += markerInterval {
		n := min(l-to, markerInterval-markerLen)
		copy(b[to:], b[from:from+n])
		to += n
	}
	return b[:l:l]
}
