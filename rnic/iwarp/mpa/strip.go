// The receiving side of markers: split off FPDUs, check their markers, take them out.

package mpa

import "encoding/binary"

// A MarkerReceiver splits one inbound direction that carries markers. Its zero
// value stands at the start of Full Operation.
type MarkerReceiver struct {
	pos uint32 // stream position of the next FPDU, modulo 2^32
}

// Parse reads one FPDU from the front of b, which begins where the last one ended. n == 0 with no
// error: more bytes are needed, and b is as it was. Otherwise the ULPDU has been closed up over its
// markers, within b; ulpdu aliases b. An FPDU that ends where a marker is due is complete at its
// CRC (RFC 5044 §4.3 [R5044-042]).
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

// check compares each marker of the FPDU f with the length chain (RFC 5044 §8
// code 3). head is where ULPDU_Length is.
func (r *MarkerReceiver) check(f []byte, head int) bool {
	first := int(-r.pos % markerInterval)
	for i := first; i < len(f); i += markerInterval {
		// Reserved bytes and the low two bits are not looked at (RFC 5044 §4.2 [R5044-027
		// R5044-030]).
		ptr := int(binary.BigEndian.Uint16(f[i+2:])) &^ 3
		if ptr != max(i-head, 0) {
			return false
		}
	}
	return true
}

// closeUp moves the l ULPDU bytes that begin at b[0], stream position pos, over
// the markers among them.
func closeUp(b []byte, pos uint32, l int) []byte {
	to := min(l, markerInterval-int(pos%markerInterval))
	for from := to + markerLen; to < l; from += markerInterval {
		n := min(l-to, markerInterval-markerLen)
		copy(b[to:], b[from:from+n])
		to += n
	}
	return b[:l:l]
}
