// The number of bytes after which a Burst yields.

package wait

import "testing"

// A burst yields after a number of bytes, however many come at once, and then counts from zero.
func TestBurst(t *testing.T) {
	var b Burst
	for i, c := range []struct {
		n     int
		after uint64 // yields so far
	}{
		{BurstBytes - 1, 0}, {1, 1}, {BurstBytes - 1, 1}, {3 * BurstBytes, 2}, {BurstBytes - 1, 2}, {1, 3},
	} {
		if b.Add(c.n); b.Yields() != c.after {
			t.Errorf("addition %d: it has yielded %d times, want %d", i, b.Yields(), c.after)
		}
	}
}
