// A walk through the payload of a work request.

package core

import "github.com/nfsrdma/nfsrdma/rnic/roce/packet"

// A cursor is a place in a gather list.
type cursor struct {
	sgl [][]byte
	at  int // index of the slice
	off int // and of the byte in it
}

// copy fills b from where the cursor stands, and steps past that. The list has as many bytes. It
// returns what it has learned of the end of b.
func (c *cursor) copy(b []byte) (t packet.Tail) {
	for len(b) > 0 {
		from := c.sgl[c.at][c.off:]
		n := min(len(b), len(from))
		t = packet.CopyTail(b, from[:n])
		b = b[n:]
		c.step(n)
	}
	return t
}

// skip steps past n bytes.
func (c *cursor) skip(n int) {
	for n > 0 {
		n -= c.step(min(n, len(c.sgl[c.at])-c.off))
	}
}

// step steps past n bytes of one slice, and returns n.
func (c *cursor) step(n int) int {
	if c.off += n; c.off == len(c.sgl[c.at]) {
		c.at, c.off = c.at+1, 0
	}
	return n
}

// put writes a packet at the front of b: headers, the next size bytes, and the pad. It returns its
// length, and what it has learned of its end.
func (c *cursor) put(b []byte, h *packet.Header, size int) (n int, t packet.Tail) {
	n = h.Put(b)
	t = c.copy(b[n : n+size])
	if h.Pad > 0 {
		t = packet.Tail{}
	}
	return n + size + padAfter(b[n+size:], h.Pad), t
}

// padAfter writes n bytes of pad at the front of b, and returns n.
func padAfter(b []byte, n uint8) int {
	clear(b[:n])
	return int(n)
}
