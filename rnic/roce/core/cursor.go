// A walk through the payload of a work request.

package core

import "github.com/nfsrdma/nfsrdma/rnic/roce/packet"

// A cursor is a place in a gather list.
type cursor struct {
	sgl [][]byte
	at  int // index of the slice
	off int // and of the byte in it
}

// copy fills b from where the cursor stands, and steps past that. The list has as many bytes.
func (c *cursor) copy(b []byte) {
	for len(b) > 0 {
		n := copy(b, c.sgl[c.at][c.off:])
		b = b[n:]
		if c.off += n; c.off == len(c.sgl[c.at]) {
			c.at, c.off = c.at+1, 0
		}
	}
}

// skip steps past n bytes.
func (c *cursor) skip(n int) {
	for n > 0 {
		step := min(n, len(c.sgl[c.at])-c.off)
		n -= step
		if c.off += step; c.off == len(c.sgl[c.at]) {
			c.at, c.off = c.at+1, 0
		}
	}
}

// put writes a packet at the front of b: headers, the next size bytes, and the pad. It returns its length.
func (c *cursor) put(b []byte, h *packet.Header, size int) (n int) {
	n = h.Put(b)
	c.copy(b[n : n+size])
	return n + size + padAfter(b[n+size:], h.Pad)
}

// padAfter writes n bytes of pad at the front of b, and returns n.
func padAfter(b []byte, n uint8) int {
	clear(b[:n])
	return int(n)
}
