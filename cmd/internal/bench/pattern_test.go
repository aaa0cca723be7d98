// The pattern of measured data: every changed byte is found.

package bench

import "testing"

func TestPatternFindsEveryChange(t *testing.T) {
	p := newPattern(7)
	b := make([]byte, 4*patternBlock)
	p.fill(b, 8*patternBlock)
	if err := p.check(b, 8*patternBlock); err != nil {
		t.Fatalf("check: %v", err)
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

// Neighboring blocks differ in each byte of the stamp, so no shifted data passes.
func TestStampsOfNeighborsDiffer(t *testing.T) {
	p := newPattern(99)
	same := 0
	for block := range uint64(1 << 14) {
		a, b := p.stamp(block), p.stamp(block+1)
		if a == b {
			t.Fatalf("blocks %d and %d have one stamp", block, block+1)
		}
		for shift := 0; shift < 64; shift += 8 {
			if byte(a>>shift) == byte(b>>shift) {
				same++
			}
		}
	}
	if most := 1 << 14 * 8 / 256 * 2; same > most { // twice the number expected at random
		t.Errorf("%d bytes of stamps are the same as their neighbor's, want at most %d", same, most)
	}
}

// Another run's file is not accepted.
func TestSeedsDiffer(t *testing.T) {
	p, q := newPattern(1), newPattern(2)
	b := make([]byte, patternBlock)
	p.fill(b, 0)
	if q.sample(b, 0) == nil {
		t.Error("another seed's stamp passes")
	}
	q.restamp(b, 0)
	if q.sample(b, 0) != nil || q.check(b, 0) == nil {
		t.Error("another seed's content passes under the right stamp")
	}
}
