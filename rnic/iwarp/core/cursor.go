// A walk through the payload of a work request.

package core

// A cursor is a place in a gather list. All that walks one does it by these methods.
type cursor struct {
	sgl [][]byte
	at  int // index of the slice
	off int // and of the byte in it
}

// next returns at least one of the next n bytes, as many as lie in one slice, and steps past
// them. n is not more than what is left.
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

// fits is how many of the next n bytes lie in at most pieces slices.
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
