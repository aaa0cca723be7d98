// HMAC that hashes the key's two padded blocks only once.

package krb5

import (
	"encoding"
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
}

// A macState is a computation. States go back to their enctype's pool, so computing a MAC
// allocates nothing.
type macState struct {
	hash marshaler
	key  *macKey
	sum  [64]byte
	head [tokenHeader]byte // scratch for a token's header
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

// free returns the state to the pool.
func (s *macState) free() {
	et := s.key.et
	s.key = nil
	et.states.Put(s)
}
