// SipHash-2-4, the MAC of file handles: 64 bits, no allocation.

package nfsserver

import (
	"encoding/binary"
	"math/bits"
)

// sipKey is the key of SipHash.
type sipKey struct{ k0, k1 uint64 }

func newSipKey(b *[KeySize]byte) sipKey {
	return sipKey{binary.LittleEndian.Uint64(b[:8]), binary.LittleEndian.Uint64(b[8:])}
}

// sipState holds the four words of the algorithm (Aumasson and Bernstein, "SipHash: a fast
// short-input PRF", §2).
type sipState struct{ v0, v1, v2, v3 uint64 }

// A round is mix and then cross. Two functions on values let the compiler inline both, with the
// words in registers.

func (s sipState) mix() sipState {
	s.v0 += s.v1
	s.v1 = bits.RotateLeft64(s.v1, 13) ^ s.v0
	s.v0 = bits.RotateLeft64(s.v0, 32)
	s.v2 += s.v3
	s.v3 = bits.RotateLeft64(s.v3, 16) ^ s.v2
	return s
}

func (s sipState) cross() sipState {
	s.v0 += s.v3
	s.v3 = bits.RotateLeft64(s.v3, 21) ^ s.v0
	s.v2 += s.v1
	s.v1 = bits.RotateLeft64(s.v1, 17) ^ s.v2
	s.v2 = bits.RotateLeft64(s.v2, 32)
	return s
}

// sum returns b's SipHash-2-4 under k.
func (k sipKey) sum(b []byte) uint64 {
	s := sipState{
		k.k0 ^ 0x736f6d6570736575, k.k1 ^ 0x646f72616e646f6d,
		k.k0 ^ 0x6c7967656e657261, k.k1 ^ 0x7465646279746573,
	}
	last := uint64(len(b)) << 56
	for len(b) >= 8 {
		m := binary.LittleEndian.Uint64(b)
		s.v3 ^= m
		s = s.mix().cross().mix().cross()
		s.v0 ^= m
		b = b[8:]
	}
	for i, c := range b {
		last |= uint64(c) << (8 * i)
	}
	s.v3 ^= last
	s = s.mix().cross().mix().cross()
	s.v0 ^= last
	s.v2 ^= 0xff
	s = s.mix().cross().mix().cross().mix().cross().mix().cross()
	return s.v0 ^ s.v1 ^ s.v2 ^ s.v3
}
