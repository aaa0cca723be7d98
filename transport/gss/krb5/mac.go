// HMAC that hashes the key's two padded blocks only once.

package krb5

import (
	"bytes"
	"encoding"
	"encoding/binary"
	"hash"
)

// A macKey is an HMAC key (RFC 2104): the hash's states after the inner and after the outer padded
// key.
type macKey struct {
	et           *enctype
	inner, outer []byte
}

// A marshaler is a hash with a state that can be saved, as all enctypes' hashes are.
type marshaler interface {
	hash.Hash
	encoding.BinaryMarshaler
	encoding.BinaryUnmarshaler
	encoding.BinaryAppender
}

// A macState is a computation. States go back to their enctype's pool, so computing a MAC
// allocates nothing.
type macState struct {
	hash marshaler
	key  *macKey
	sum  [64]byte
	head [tokenHeader]byte // scratch for a token's header

	// Scratch of short.
	input [shortInput]byte
	state [256]byte
}

func newMACKey(et *enctype, value []byte) *macKey {
	return &macKey{et, padded(et, value, 0x36), padded(et, value, 0x5c)}
}

// padded returns the hash's state after the key xor pad. No key is longer than a hash's block.
func padded(et *enctype, value []byte, pad byte) []byte {
	h := et.newHash().(marshaler)
	block := make([]byte, h.BlockSize())
	copy(block, value)
	for i := range block {
		block[i] ^= pad
	}
	h.Write(block)
	state, err := h.MarshalBinary()
	if err != nil {
		panic(err) // the hashes of the standard library do not fail
	}
	return state
}

// begin starts a MAC.
func (k *macKey) begin() *macState {
	s, _ := k.et.states.Get().(*macState)
	if s == nil {
		s = &macState{hash: k.et.newHash().(marshaler)}
	}
	s.key = k
	s.restore(k.inner)
	return s
}

func (s *macState) restore(state []byte) {
	if err := s.hash.UnmarshalBinary(state); err != nil {
		panic(err) // padded made the state
	}
}

// end returns the truncated MAC. It is in the state's memory, which free gives back.
func (s *macState) end() []byte {
	inner := s.hash.Sum(s.sum[:0])
	s.restore(s.key.outer)
	s.hash.Write(inner)
	return s.hash.Sum(s.sum[:0])[:s.key.et.macSize]
}

// shortInput is the room for a short message with its padding, a multiple of each hash's block: an
// RPC header has up to 200 bytes.
const shortInput = 512

// stateMagic is the length of the identifier in a saved state. The chaining value follows.
const stateMagic = 4

// gather copies the parts and the header to input, and returns their length. ok is false if there
// is no room for them and the padding.
func (s *macState) gather(parts [][]byte) (n int, ok bool) {
	most := shortInput - 1 - s.hash.BlockSize()/8 - tokenHeader
	for _, p := range parts {
		if len(p) > most-n {
			return 0, false
		}
		n += copy(s.input[n:], p)
	}
	return n + copy(s.input[n:], s.head[:]), true
}

// short returns the MAC of the first n bytes of input. It takes half the time of Write and Sum,
// because whole blocks need no buffer and no copy of the hash.
func (s *macState) short(n int) []byte {
	n = copy(s.input[:], s.chained(n))
	s.restore(s.key.outer)
	return s.chained(n)[:s.key.et.macSize]
}

// chained pads n bytes of input, which follow the padded key, and returns their hash: the chaining
// value, from the saved state.
func (s *macState) chained(n int) []byte {
	size := s.hash.BlockSize()
	total := (n + 1 + size/8 + size - 1) / size * size
	b := s.input[:total]
	b[n] = 0x80
	clear(b[n+1 : total-8])
	binary.BigEndian.PutUint64(b[total-8:], 8*uint64(size+n))
	s.hash.Write(b)
	state, _ := s.hash.AppendBinary(s.state[:0]) // does not fail
	return state[stateMagic : stateMagic+s.hash.Size()]
}

// shortWorks checks once that the saved states have the expected layout, which package hash does
// not promise. Otherwise all messages take Write and Sum.
func (et *enctype) shortWorks() bool {
	et.probe.Do(func() {
		k := &macKey{et, padded(et, []byte("key"), 0x36), padded(et, []byte("key"), 0x5c)}
		slow, fast := k.begin(), k.begin()
		defer slow.free()
		defer fast.free()
		slow.hash.Write(slow.head[:])
		n, _ := fast.gather(nil)
		et.shortOK = len(k.inner) <= len(fast.state) && bytes.Equal(fast.short(n), slow.end())
	})
	return et.shortOK
}

// free returns the state to the pool.
func (s *macState) free() {
	et := s.key.et
	s.key = nil
	et.states.Put(s)
}
