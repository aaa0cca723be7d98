// CRC32C of large pieces, faster than the standard library's where the processor can multiply
// polynomials by the vector.

// Package crc32c computes the Castagnoli CRC of the standard library's hash/crc32, and the same
// value always. Every byte of an RDMA connection passes through it at both ends, so where the
// processor has VPCLMULQDQ for vectors of 512 bits, pieces of some hundred bytes and more are
// folded by it.
package crc32c

import "hash/crc32"

var table = crc32.MakeTable(crc32.Castagnoli)

// Update returns the CRC of some bytes, whose CRC is crc, and then p. It starts at 0.
func Update(crc uint32, p []byte) uint32 {
	if len(p) >= foldMin && canFold {
		return fold(crc, p)
	}
	return crc32.Update(crc, table, p)
}
