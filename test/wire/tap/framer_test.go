// Tests for the framer: only whole units go on.

package tap

import (
	"bytes"
	"slices"
	"testing"
)

// TestWholeUnits: however a stream arrives, it goes on up to the end of a unit.
func TestWholeUnits(t *testing.T) {
	b, ends := stream(100, 101, 1, 4000)
	for step := 1; step < 300; step += 7 {
		var f framer
		var out []byte
		for part := range slices.Chunk(b, step) {
			f.add(part)
			for u := f.next(); u != nil; u = f.next() {
				out = append(out, u...)
			}
			if len(out) > 0 && !slices.Contains(ends, len(out)) {
				t.Fatalf("in steps of %d: %d bytes went on, units end at %v", step, len(out), ends)
			}
		}
		if !bytes.Equal(out, b) {
			t.Fatalf("in steps of %d: %d bytes of %d, or others", step, len(out), len(b))
		}
	}
}

// TestNoUnits: bytes that are not MPA are not held back, however short.
func TestNoUnits(t *testing.T) {
	var f framer
	for _, b := range []string{"x", "MPA", "y"} {
		f.add([]byte(b))
		if got := string(f.next()); got != b {
			t.Errorf("%q became %q", b, got)
		}
	}
}
