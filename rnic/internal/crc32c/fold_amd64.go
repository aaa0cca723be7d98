// Folding on amd64: the constants, the required processor features, and the call into assembly.

//go:build amd64 && !purego

package crc32c

import "golang.org/x/sys/cpu"

// A message is a polynomial over GF(2), and its CRC the remainder modulo P. A 128-bit vector can be
// moved onto another one at a distance of D bits: its two halves, times x^(D+64) and x^D modulo P,
// are congruent to the moved vector, and short enough to be added. So the message is folded, four
// 512-bit vectors at a time, then one at a time, then within the last one, until 128 bits are left;
// the crc32 instruction computes their CRC. Bits are reflected, as in CRC32C: the product of two
// reflected operands comes out one bit low, so the constants are shifted by one. Each exponent is
// 32 less, because the constants have 32 bits at the upper end of 64.
const (
	foldMin    = 256        // bytes: the four vectors at the start of folding
	polynomial = 0x1EDC6F41 // P, less x^32
)

var canFold = cpu.X86.HasAVX512F && cpu.X86.HasAVX512VPCLMULQDQ && cpu.X86.HasSSE42 && cpu.X86.HasPCLMULQDQ

// foldKeys has the constants in the assembly's load order. Each pair serves a vector's lower half,
// which comes earlier in the message, and its upper half.
type foldKeys struct {
	far   [2]uint64    // move by 2048 bits, the four vectors of one round
	near  [2]uint64    // move by 512 bits, one vector
	lanes [4][2]uint64 // move within a vector by 384, 256 and 128 bits; the last lane stays
}

var keys = foldKeys{far: key(2048), near: key(512), lanes: [4][2]uint64{key(384), key(256), key(128), {}}}

// key returns the pair that moves 128 bits by the given distance.
func key(bits int) [2]uint64 { return [2]uint64{power(bits + 32), power(bits - 32)} }

// power returns x^n modulo P, reflected and shifted.
func power(n int) uint64 {
	r := uint32(1)
	for range n {
		carry := r >> 31
		r = r<<1 ^ carry*polynomial
	}
	var back uint64
	for i := range 32 {
		back |= uint64(r>>i&1) << (31 - i)
	}
	return back << 1
}

// fold is Update for at least foldMin bytes.
func fold(crc uint32, p []byte) uint32 { return ^foldVectors(^crc, &p[0], len(p), &keys) }

// foldVectors is fold without the inversions before and after. n is at least foldMin.
//
//go:noescape
func foldVectors(crc uint32, p *byte, n int, k *foldKeys) uint32
