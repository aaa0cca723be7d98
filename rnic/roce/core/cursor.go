// A cursor through the payload of a work request.

package core

import "github.com/nfsrdma/nfsrdma/rnic/roce/packet"

// A cursor is a position in a gather list.
type cursor struct {
	sgl [][]byte
	at  int // slice index
	off int // byte offset in that slice
}

// copy fills b from the cursor's position and advances. The list must have len(b) more bytes. copy
// returns the CRC computed over the end of b.
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

// skip advances by n bytes.
func (c *cursor) skip(n int) {
	for n > 0 {
		n -= c.step(min(n, len(c.sgl[c.at])-c.off))
	}
}

// step advances by n bytes within one slice, and returns n.
func (c *cursor) step(n int) int {
	if c.off += n; c.off == len(c.sgl[c.at]) {
		c.at, c.off = c.at+1, 0
	}
	return n
}

// put writes a packet at the front of b: headers, the next size bytes, and the pad. It returns
// the packet's length and the CRC computed over its end.
func (c *cursor) put(b []byte, h *packet.Header, size int) (n int, t packet.Tail) {
	n = h.Put(b)
	t = c.copy(b[n : n+size])
	if h.Pad > 0 {
		t = packet.Tail{}
	}
	return n + size + padAfter(b[n+size:], h.Pad), t
}

// padAfter writes n pad bytes at the front of b, and returns n.
func padAfter(b []byte, n uint8) int {
	clear(b[:n])
	return int(n)
}
