// AES in CBC mode with ciphertext stealing (RFC 3962 §5, RFC 8009 §3), over a buffer in place.

package krb5

import (
	"crypto/aes"
	"crypto/cipher"
)

const blockSize = aes.BlockSize

// zeroIV is the initial cipher state of every message (RFC 3962 §5). It is only read.
var zeroIV [blockSize]byte

// stolen returns the number of bytes in the last two blocks of an n-byte message: 17 to 32, or 16
// if there is only one block.
func stolen(n int) int {
	if n <= blockSize {
		return n
	}
	return blockSize + (n-1)%blockSize + 1
}

// A setter is a cipher.BlockMode that starts over at another initial value. AES in the standard
// library has it.
type setter interface {
	cipher.BlockMode
	SetIV([]byte)
}

// A ctsEncrypter encrypts messages one after the other, each in pieces. All pieces but the last are
// whole blocks.
type ctsEncrypter struct{ cbc setter }

func newCTSEncrypter(b cipher.Block) *ctsEncrypter {
	return &ctsEncrypter{cipher.NewCBCEncrypter(b, zeroIV[:]).(setter)}
}

// begin starts a message.
func (e *ctsEncrypter) begin() { e.cbc.SetIV(zeroIV[:]) }

// blocks encrypts whole blocks before the last two.
func (e *ctsEncrypter) blocks(b []byte) { e.cbc.CryptBlocks(b, b) }

// last encrypts a message's last bytes, as many as stolen returns; the message has at least one
// block. The capacity of b has room for whole blocks.
func (e *ctsEncrypter) last(b []byte) {
	n := len(b)
	if n == blockSize {
		e.cbc.CryptBlocks(b, b)
		return
	}
	b = b[:2*blockSize]
	clear(b[n:])
	e.cbc.CryptBlocks(b, b)
	first := [blockSize]byte(b)
	copy(b, b[blockSize:])
	copy(b[blockSize:], first[:])
}

// A ctsDecrypter reverses a ctsEncrypter.
type ctsDecrypter struct {
	block cipher.Block
	cbc   setter
	first [blockSize]byte // scratch of last
}

func newCTSDecrypter(b cipher.Block) *ctsDecrypter {
	return &ctsDecrypter{block: b, cbc: cipher.NewCBCDecrypter(b, zeroIV[:]).(setter)}
}

// begin starts a message.
func (d *ctsDecrypter) begin() { d.cbc.SetIV(zeroIV[:]) }

// blocks decrypts whole blocks before the last two.
func (d *ctsDecrypter) blocks(b []byte) { d.cbc.CryptBlocks(b, b) }

// last decrypts a message's last bytes, as many as stolen returns.
func (d *ctsDecrypter) last(b []byte) {
	if len(b) == blockSize {
		d.cbc.CryptBlocks(b, b)
		return
	}
	// The first block decrypts to the zero-padded last plaintext xor the second block, whose end
	// is missing. Where the padding is, this is the missing end.
	first := d.first[:]
	d.block.Decrypt(first, b[:blockSize])
	for i, c := range b[blockSize:] {
		first[i], b[blockSize+i] = c, first[i]^c
	}
	d.cbc.CryptBlocks(b[:blockSize], first)
}
