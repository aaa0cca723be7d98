// A walk through a work request's payload.

package core

// A cursor is a position in a gather list. All walks through a gather list use these methods.
type cursor struct {
	sgl [][]byte
	at  int // index of the slice
	off int // byte offset in the slice
}

// next returns at least one of the next n bytes, as many as lie in one slice, and steps past the
// returned bytes. n is at most the number of remaining bytes.
func (c *cursor) next(n int) []byte {
	for c.off == len(c.sgl[c.at]) { // empty, or all of it taken
		c.at, c.off = c.at+1, 0
	}
	p := c.sgl[c.at][c.off:]
	if len(p) > n {
		p = p[:n]
	}
	c.off += len(p)
	return p
}

// fits returns how many of the next n bytes lie in at most pieces slices.
func (c *cursor) fits(n, pieces int) int {
	got, off := 0, c.off
	for _, p := range c.sgl[c.at:] {
		if got >= n || pieces == 0 {
			break
		}
		if len(p) > off {
			got += len(p) - off
			pieces--
		}
		off = 0
	}
	return min(got, n)
}
