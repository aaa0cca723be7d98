// The CRC-32 of IEEE 802.3, faster than the standard library's where the processor can multiply polynomials by the vector.

// Package crcieee computes the CRC-32 of the standard library's hash/crc32 with IEEETable, and the same value always. It is RoCEv2's
// invariant CRC: every packet is one short piece, its masked headers, and one of the size of a path MTU, at both ends. So it
// has to be quick for a dozen bytes, too, for which the standard library has tables of 8 KiB that payload drives out of the cache.
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
