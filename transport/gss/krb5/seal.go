// Encryption with integrity (RFC 3961 §5.3, RFC 8009 §5), in place and in one pass.

package krb5

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/hmac"
	"crypto/rand"
	"errors"
	"slices"
	"sync"
)

// piece is the number of bytes that are encrypted and hashed together, so that the second of both
// finds them in the processor's first-level cache.
const piece = 8 << 10

// A sealKey has the keys Ke and Ki for one usage of a protocol key. It is safe for concurrent use.
type sealKey struct {
	et         *enctype
	block      cipher.Block
	mac        *macKey
	encrypters sync.Pool // *ctsEncrypter
	decrypters sync.Pool // *ctsDecrypter
}

func newSealKey(k key, usage uint32) *sealKey {
	block, err := aes.NewCipher(k.derive(usage, forEncryption))
	if err != nil {
		panic(err) // derive returns keys of the right length
	}
	return &sealKey{et: k.et, block: block, mac: newMACKey(k.et, k.derive(usage, forIntegrity))}
}

// overhead is a message's growth in bytes: a confounder and a MAC.
func (k *sealKey) overhead() int { return blockSize + k.et.macSize }

// seal appends the ciphertext of the concatenated parts and a tail.
func (k *sealKey) seal(dst, tail []byte, parts ...[]byte) []byte {
	n := blockSize + len(tail)
	for _, p := range parts {
		n += len(p)
	}
	start := len(dst)
	dst = slices.Grow(dst, n+blockSize+k.et.macSize)[:start+n]
	message := dst[start:]
	_, _ = rand.Read(message[:blockSize]) // does not fail
	e, _ := k.encrypters.Get().(*ctsEncrypter)
	if e == nil {
		e = newCTSEncrypter(k.block)
	}
	e.begin()
	s := k.beginMAC()
	src := gather{parts: parts, tail: tail}
	for from, filled := 0, blockSize; from < n; {
		end := pieceEnd(from, n)
		src.read(message[filled:end])
		k.sealPiece(e, s, message[from:end], end == n)
		from, filled = end, end
	}
	dst = append(dst, s.end()...)
	s.free()
	k.encrypters.Put(e)
	return dst
}

// A gather reads concatenated parts and a tail. It changes no part.
type gather struct {
	parts [][]byte
	tail  []byte
	from  int // bytes already read from the first part
}

// read fills b. The parts and the tail have enough bytes.
func (g *gather) read(b []byte) {
	for len(b) > 0 {
		if len(g.parts) == 0 {
			g.tail = g.tail[copy(b, g.tail):]
			return
		}
		n := copy(b, g.parts[0][g.from:])
		b = b[n:]
		if g.from += n; g.from == len(g.parts[0]) {
			g.parts, g.from = g.parts[1:], 0
		}
	}
}

// beginMAC starts a message's MAC. In RFC 8009 §5 it begins with the initial cipher state.
func (k *sealKey) beginMAC() *macState {
	s := k.mac.begin()
	if k.et.sha2 {
		s.hash.Write(zeroIV[:])
	}
	return s
}

// sealPiece encrypts and hashes. RFC 3961 hashes the plaintext, RFC 8009 the ciphertext.
func (k *sealKey) sealPiece(e *ctsEncrypter, s *macState, b []byte, last bool) {
	if !k.et.sha2 {
		s.hash.Write(b)
	}
	if last {
		e.last(b)
	} else {
		e.blocks(b)
	}
	if k.et.sha2 {
		s.hash.Write(b)
	}
}

// pieceEnd returns the end of the piece at from in a message of n bytes. The last piece is the last
// two blocks (stolen).
func pieceEnd(from, n int) int {
	whole := n - stolen(n)
	if from >= whole {
		return n
	}
	return min(from+piece, whole)
}

var errIntegrity = errors.New("krb5: the message was altered, or encrypted with another key")

// open decrypts in place and returns the plaintext, in the same memory.
func (k *sealKey) open(b []byte) ([]byte, error) {
	n := len(b) - k.et.macSize
	if n < blockSize {
		return nil, errIntegrity
	}
	message := b[:n]
	d, _ := k.decrypters.Get().(*ctsDecrypter)
	if d == nil {
		d = newCTSDecrypter(k.block)
	}
	d.begin()
	s := k.beginMAC()
	for from := 0; from < n; {
		end := pieceEnd(from, n)
		k.openPiece(d, s, message[from:end], end == n)
		from = end
	}
	same := hmac.Equal(s.end(), b[n:])
	s.free()
	k.decrypters.Put(d)
	if !same {
		clear(message)
		return nil, errIntegrity
	}
	return message[blockSize:], nil
}

func (k *sealKey) openPiece(d *ctsDecrypter, s *macState, b []byte, last bool) {
	if k.et.sha2 {
		s.hash.Write(b)
	}
	if last {
		d.last(b)
	} else {
		d.blocks(b)
	}
	if !k.et.sha2 {
		s.hash.Write(b)
	}
}
