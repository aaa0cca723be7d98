// The CRC-32 of IEEE 802.3, faster than the standard library's where the processor can multiply
// polynomials by the vector.

// Package crcieee computes the CRC-32 of the standard library's hash/crc32 with IEEETable, and the
// same value always. It is RoCEv2's invariant CRC: every packet is one short piece, its masked
// headers, and one of the size of a path MTU, at both ends. So it has to be quick for a dozen
// bytes, too, for which the standard library has tables of 8 KiB that payload drives out of the
// cache.
package crcieee

import "hash/crc32"

// Update returns the CRC of some bytes, whose CRC is crc, and then p. It starts at 0.
func Update(crc uint32, p []byte) uint32 {
	if canFold {
		if n := len(p) &^ 3; n > 0 {
			crc = fold(crc, p[:n])
			p = p[n:]
		}
		if len(p) == 0 {
			return crc
		}
	}
	return crc32.Update(crc, crc32.IEEETable, p)
}

// A Piece is the CRC of the last N bytes of a message, which was computed where they were copied;
// none if N is 0.
type Piece struct {
	N   int
	CRC uint32
}

// Copy folds what is a multiple of copyUnit, the four vectors of one round, and no more than
// copyMax.
const (
	copyUnit = 256
	copyMax  = 4096
)

// Copy copies src to the front of dst, which has room for it, and returns the CRC of src if it has
// come by that without another pass.
func Copy(dst, src []byte) Piece {
	if n := len(src); canFold && n > 0 && n <= copyMax && n%copyUnit == 0 {
		return Piece{n, foldCopy(0, dst, src)}
	}
	copy(dst, src)
	return Piece{}
}

// Join is the CRC of a message whose first part has the CRC crc, and whose rest is p.
func Join(crc uint32, p Piece) uint32 {
	if p.N == 0 {
		return crc
	}
	return foldShift(crc, p.N/copyUnit) ^ p.CRC
}
