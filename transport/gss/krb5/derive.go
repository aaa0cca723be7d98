// Keys derived from a protocol key for one usage (RFC 3961 §5.1 and §5.3, RFC 8009 §3).

package krb5

import (
	"crypto/aes"
	"crypto/hmac"
	"encoding/binary"
)

// The last byte of a derivation constant names the derived key (RFC 3961 §5.3).
const (
	forChecksum   = 0x99 // Kc
	forEncryption = 0xaa // Ke
	forIntegrity  = 0x55 // Ki
)

// derive returns a key for a usage number and one of the purposes above.
func (k key) derive(usage uint32, purpose byte) []byte {
	constant := binary.BigEndian.AppendUint32(nil, usage)
	constant = append(constant, purpose)
	if !k.et.sha2 {
		return k.dk(constant)
	}
	size := k.et.macKey
	if purpose == forEncryption {
		size = k.et.keySize
	}
	return k.kdf(constant, size)
}

// kdf is KDF-HMAC-SHA2 (RFC 8009 §3), for at most one output of the hash.
func (k key) kdf(label []byte, size int) []byte {
	m := hmac.New(k.et.newHash, k.value)
	m.Write([]byte{0, 0, 0, 1})
	m.Write(label)
	m.Write([]byte{0})
	m.Write(binary.BigEndian.AppendUint32(nil, uint32(8*size)))
	return m.Sum(nil)[:size]
}

// dk is DK (RFC 3961 §5.1). The function random-to-key of AES is the identity (RFC 3962 §4).
func (k key) dk(constant []byte) []byte {
	block, err := aes.NewCipher(k.value)
	if err != nil {
		panic(err) // newKey has checked the length
	}
	out := make([]byte, 0, k.et.keySize+aes.BlockSize)
	last := nfold(constant, aes.BlockSize)
	for len(out) < k.et.keySize {
		block.Encrypt(last, last)
		out = append(out, last...)
	}
	return out[:k.et.keySize]
}

// nfold stretches or folds in to n bytes (RFC 3961 §5.1): copies of in, each rotated right by 13
// bits more than the one before, are cut into pieces of n bytes, and the pieces are added in one's
// complement arithmetic.
func nfold(in []byte, n int) []byte {
	total := lcm(n, len(in))
	sum := make([]int, n)
	for i := range total {
		sum[i%n] += int(rotatedByte(in, 13*(i/len(in)), i%len(in)))
	}
	for carry := 0; ; {
		for i := n - 1; i >= 0; i-- {
			carry += sum[i]
			sum[i] = carry & 0xff
			carry >>= 8
		}
		if carry == 0 {
			break
		}
	}
	out := make([]byte, n)
	for i, v := range sum {
		out[i] = byte(v)
	}
	return out
}

// rotatedByte returns byte i of in rotated right by bits.
func rotatedByte(in []byte, bits, i int) byte {
	n := 8 * len(in)
	at := ((8*i-bits)%n + n) % n
	high, low := in[at/8], in[(at/8+1)%len(in)]
	return byte((uint16(high)<<8 | uint16(low)) << (at % 8) >> 8)
}

func lcm(a, b int) int {
	x, y := a, b
	for y != 0 {
		x, y = y, x%y
	}
	return a / x * b
}
