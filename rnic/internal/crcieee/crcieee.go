// The CRC-32 of IEEE 802.3, faster than the standard library's on processors with vector polynomial
// multiplication.

// Package crcieee computes the same CRC-32 as the standard library's hash/crc32 with IEEETable. It
// is RoCEv2's invariant CRC: every packet has one short piece, its masked headers, and one with up
// to a path MTU, at both ends. So it must be fast for a dozen bytes, too; for these the standard
// library uses tables of 8 KiB, which the payload evicts from the cache.
package crcieee

import "hash/crc32"

// Update extends crc, the earlier bytes' CRC, by p. The first crc is 0.
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

// A Piece is the CRC for a message's last N bytes, computed when the bytes were copied; N is 0 if
// there is no such CRC.
type Piece struct {
	N   int
	CRC uint32
}

// Copy folds multiples of copyUnit, the four vectors of one round, up to copyMax.
const (
	copyUnit = 256
	copyMax  = 4096
)

// Copy copies src to dst's front, which must have room for it. It returns src's CRC if the
// copy could compute it in the same pass.
func Copy(dst, src []byte) Piece {
	if n := len(src); canFold && n > 0 && n <= copyMax && n%copyUnit == 0 {
		return Piece{n, foldCopy(0, dst, src)}
	}
	copy(dst, src)
	return Piece{}
}

// Join returns a message's CRC: crc is its first part's, p the rest's.
func Join(crc uint32, p Piece) uint32 {
	if p.N == 0 {
		return crc
	}
	return foldShift(crc, p.N/copyUnit) ^ p.CRC
}
