// FPDUs without markers: layout, sizes, Append and Parse.

package mpa

import (
	"encoding/binary"

	"github.com/nfsrdma/nfsrdma/rnic/iwarp/term"
)

// FPDU (RFC 5044 §4.1):
//
//	off  size  field
//	  0     2  ULPDU_Length L, of the ULPDU alone
//	  2     L  ULPDU
//	 ..  0..3  pad: sent as zero, content ignored; makes the FPDU a multiple of 4
//	 ..     4  CRC over all of the above; there even when not in use
const (
	LengthLen = 2

	// MaxULPDU is the longest ULPDU to send (RFC 5044 §3). A longer one is accepted if no markers
	// are in use: Linux siw sends such on loopback.
	MaxULPDU = 64768

	// MaxFPDU is the longest FPDU for a 16-bit length, markers included.
	MaxFPDU = 66064

	// minMULPDU is the lower limit of MULPDU, for any segment size (RFC 5044 §4.5 [R5044-074]).
	minMULPDU = 128
)

// Errors in an FPDU (RFC 5044 §8). After any of them no later bytes in that direction may be
// delivered.
var (
	errCRC    = term.New(term.MPACRC, "")
	errMarker = term.New(term.MPAMarker, "")
	errEmpty  = term.New(term.MPAMarker, "FPDU with an empty ULPDU") // RFC 5044 §4.1 [R5044-024]
	errLength = term.New(term.MPAMarker, "ULPDU longer than markers can point across")
)

// Pad returns how many padding bytes follow a ULPDU with the given length.
func Pad(ulpdu int) int { return -(LengthLen + ulpdu) & 3 }

// FPDULen returns the FPDU's length for a ULPDU with the given length, without markers.
func FPDULen(ulpdu int) int { return LengthLen + ulpdu + Pad(ulpdu) + CRCLen }

// MULPDU returns the longest ULPDU with an FPDU that fits in a TCP segment with emss bytes. It
// stays within the range in RFC 5044 §3 (§4.5 has the formula). Its FPDU has no padding, also at
// the range's upper bound: Linux siw rejects a good CRC when TCP delivers the padding before the
// CRC.
func MULPDU(emss int, markers bool) int {
	over := LengthLen + CRCLen + emss&3
	if markers {
		over += markerLen * ((emss + markerInterval - 1) / markerInterval)
	}
	return min(max(emss-over, minMULPDU), MaxULPDU-Pad(MaxULPDU))
}

// ParseFPDU parses one FPDU from b's front. n == 0 with no error: more bytes are needed. With
// crc, the CRC is checked before anything else in the FPDU is trusted (RFC 5044 §6 [R5044-083
// R5044-085]). ulpdu aliases b.
func ParseFPDU(b []byte, crc bool) (ulpdu []byte, n int, err error) {
	if len(b) < LengthLen {
		return nil, 0, nil
	}
	l := int(binary.BigEndian.Uint16(b))
	n = FPDULen(l)
	if len(b) < n {
		return nil, 0, nil
	}
	if crc && CRC32C(b[:n-CRCLen]) != getCRC(b[n-CRCLen:n]) {
		return nil, 0, errCRC
	}
	if l == 0 {
		return nil, 0, errEmpty
	}
	return b[LengthLen : LengthLen+l : LengthLen+l], n, nil
}

// CheckCRC checks padding and CRC field at the end of an FPDU; crc covers all bytes before
// them.
func CheckCRC(crc uint32, trailer []byte) error {
	pad := len(trailer) - CRCLen
	if UpdateCRC(crc, trailer[:pad]) != getCRC(trailer[pad:]) {
		return errCRC
	}
	return nil
}

// AppendFPDU appends an FPDU without markers. Its ULPDU is the concatenated parts: 1 to
// MaxULPDU bytes. Without crc the CRC field is zero.
func AppendFPDU(b []byte, crc bool, parts ...[]byte) []byte {
	start, l := len(b), total(parts)
	b = binary.BigEndian.AppendUint16(b, uint16(l))
	for _, p := range parts {
		b = append(b, p...)
	}
	b = append(b, zeros[:Pad(l)]...)
	return appendCRC(b, start, crc)
}

var zeros [4]byte

// appendCRC ends the FPDU from b[start:] with its CRC field.
func appendCRC(b []byte, start int, crc bool) []byte {
	var v uint32
	if crc {
		v = CRC32C(b[start:])
	}
	return binary.LittleEndian.AppendUint32(b, v)
}

// total returns the length in bytes of a ULPDU in parts. A length that DDP MUST NOT pass down is a
// bug in the caller (RFC 5044 §3 [R5044-007]).
func total(parts [][]byte) int {
	l := 0
	for _, p := range parts {
		l += len(p)
	}
	if l < 1 || l > MaxULPDU {
		panic("mpa: ULPDU length out of range")
	}
	return l
}
