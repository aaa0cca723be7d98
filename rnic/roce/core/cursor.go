// A walk through the payload of a work request.

package core

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
