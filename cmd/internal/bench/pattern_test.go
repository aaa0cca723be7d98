// The pattern of measured data: every change of a byte is found.

package bench

import "testing"

func TestPatternFindsEveryChange(t *testing.T) {
	p := newPattern(7)
	b := make([]byte, 4*patternBlock)
	p.fill(b, 8*patternBlock)
	if err := p.check(b, 8*patternBlock); err != nil {
		t.Fatal(err)
	}
	if p.sample(b, 9*patternBlock) == nil || p.check(b, 0) == nil {
		t.Error("data of another place passes")
	}
	for i := range b {
		b[i] ^= 1
		if p.check(b, 8*patternBlock) == nil {
			t.Fatalf("a change at %d passes", i)
		}
		b[i] ^= 1
	}
}
