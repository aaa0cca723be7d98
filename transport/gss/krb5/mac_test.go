// HMACs of short and long messages, against crypto/hmac.

package krb5

import (
	"bytes"
	"crypto/hmac"
	"testing"
)

// TestMACs: messages with all lengths around the limit of short ones have the right MAC, whole and
// in parts.
func TestMACs(t *testing.T) {
	message := make([]byte, 2*shortInput)
	for i := range message {
		message[i] = byte(i * 7)
	}
	for _, et := range enctypes {
		if !et.shortWorks() {
			t.Errorf("%s: the hash's states have another layout: short messages are slow", et.name)
		}
		value := bytes.Repeat([]byte{0xa5}, et.macKey)
		k := newMACKey(et, value)
		for n := range len(message) {
			m := hmac.New(et.newHash, value)
			m.Write(message[:n])
			m.Write(make([]byte, tokenHeader))
			want := m.Sum(nil)[:et.macSize]
			for _, parts := range [][][]byte{{message[:n]}, {message[:n/2], message[n/2 : n/2], message[n/2 : n]}} {
				s := k.begin()
				s.head = [tokenHeader]byte{}
				if got := s.checksum(parts); !bytes.Equal(got, want) {
					t.Fatalf("%s, %d bytes in %d parts: got %x, want %x", et.name, n, len(parts), got, want)
				}
				s.free()
			}
		}
	}
}

// TestMACsOfOtherStates: a hash whose states have another layout takes the slow way, with the same
// results.
func TestMACsOfOtherStates(t *testing.T) {
	et := enctype{macSize: 12, macKey: 16, newHash: enctypes[0].newHash}
	et.probe.Do(func() {})
	value := make([]byte, et.macKey)
	slow, fast := newMACKey(&et, value), newMACKey(enctypes[0], value)
	a, b := slow.begin(), fast.begin()
	a.head, b.head = [tokenHeader]byte{}, [tokenHeader]byte{}
	if got, want := a.checksum([][]byte{{1, 2, 3}}), b.checksum([][]byte{{1, 2, 3}}); !bytes.Equal(got, want) {
		t.Errorf("got %x, want %x", got, want)
	}
}
