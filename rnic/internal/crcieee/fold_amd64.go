// Folding on amd64: the constants, the required processor features, and the call into assembly.

//go:build amd64 && !purego

package crcieee

import (
	"sync"

	"golang.org/x/sys/cpu"
)

// A message is a polynomial over GF(2), and its CRC the remainder modulo P. Package crc32c explains
// how vectors are moved onto each other, and why the constants are shifted by one and their
// exponents 32 less. This package differs in P, and at the end: no instruction exists for this P,
// so products also reduce the last 128 bits,
//
//	128 bits, low half L, high half H    T = L·x^96 + H·x^32                  96 bits
//	its first 32 bits F, the rest R      U = F·x^64 + R                       64 bits
//	Barrett: Q = ⌊⌊U/x^32⌋·M/x^32⌋       CRC = U + Q·P, modulo x^32           M = ⌊x^64/P⌋
//
// and each 4-byte piece of a message too short for a vector.
const polynomial = 0x04C11DB7 // P, less x^32

var canFold = cpu.X86.HasAVX512F && cpu.X86.HasAVX512VPCLMULQDQ && cpu.X86.HasPCLMULQDQ && cpu.X86.HasAVX

// foldKeys has the constants in the assembly's load order. Each pair from key serves a vector's
// lower half, which comes earlier in the message, and its upper half.
type foldKeys struct {
	far     [2]uint64    // move by 2048 bits, the four vectors of one round
	near    [2]uint64    // move by 512 bits, one vector
	lanes   [4][2]uint64 // move within a vector by 384, 256 and 128 bits; the last lane stays
	short   [2]uint64    // x^64
	barrett [2]uint64    // M and P
}

var keys = foldKeys{far: key(2048), near: key(512), lanes: [4][2]uint64{key(384), key(256), key(128), {}},
	short: [2]uint64{power(64)}, barrett: [2]uint64{reflect33(quotient()), reflect33(1<<32 | polynomial)}}

// key returns the pair that moves 128 bits by the given distance.
func key(bits int) [2]uint64 { return [2]uint64{power(bits + 32), power(bits - 32)} }

// power returns x^n modulo P, reflected and shifted.
func power(n int) uint64 {
	r := uint32(1)
	for range n {
		r = times(r)
	}
	return reflect33(uint64(r)) // x^32 is the first of 33 bits: the shift
}

// times returns r times x, modulo P.
func times(r uint32) uint32 { return r<<1 ^ r>>31*polynomial }

// quotient returns M, by long division.
func quotient() (m uint64) {
	r := uint64(1) << 32 // x^64's current part
	for range 33 {
		m <<= 1
		if r>>32 != 0 {
			m |= 1
			r ^= 1<<32 | polynomial
		}
		r <<= 1
	}
	return m
}

// reflect33 reverses v's 33 bits.
func reflect33(v uint64) (r uint64) {
	for i := range 33 {
		r |= v >> i & 1 << (32 - i)
	}
	return r
}

// fold is Update for a multiple of 4 bytes, at least 4.
func fold(crc uint32, p []byte) uint32 { return ^foldVectors(^crc, &p[0], len(p), &keys) }

// foldVectors is fold without the inversions before and after.
//
//go:noescape
func foldVectors(crc uint32, p *byte, n int, k *foldKeys) uint32

// foldCopy is fold for a multiple of copyUnit bytes, at least one, and copies them to dst.
func foldCopy(crc uint32, dst, p []byte) uint32 {
	_ = dst[len(p)-1]
	return ^copyVectors(^crc, &dst[0], &p[0], len(p), &keys)
}

// copyVectors is foldCopy without the inversions before and after.
//
//go:noescape
func copyVectors(crc uint32, dst, src *byte, n int, k *foldKeys) uint32

// shifts has x to the power of 8·copyUnit·i modulo P, in power's form.
var shifts = sync.OnceValue(func() *[copyMax/copyUnit + 1]uint64 {
	list := new([copyMax/copyUnit + 1]uint64)
	r := uint32(1)
	for i := range list {
		list[i] = reflect33(uint64(r))
		for range 8 * copyUnit {
			r = times(r)
		}
	}
	return list
})

// foldShift returns the CRC after a message is extended by i times copyUnit bytes, without the CRC
// of the added bytes; crc is the message's former CRC.
func foldShift(crc uint32, i int) uint32 { return multiply(crc, shifts()[i], &keys) }

//go:noescape
func multiply(crc uint32, by uint64, k *foldKeys) uint32
