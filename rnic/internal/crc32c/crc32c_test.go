// Update computes the same CRC as the standard library, for any length, alignment and preceding
// CRC.

package crc32c

import (
	"hash/crc32"
	"math/rand/v2"
	"testing"
)

var oracle = crc32.MakeTable(crc32.Castagnoli)

// TestUpdateIsTheStandardLibrarys covers every length around the sizes at which folding enters its
// next step.
func TestUpdateIsTheStandardLibrarys(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	mem := make([]byte, 70_000)
	for i := range mem {
		mem[i] = byte(rng.Uint32())
	}
	lengths := []int{4095, 4096, 4097, 16384, 64768, 65537}
	for n := range 1100 {
		lengths = append(lengths, n)
	}
	for _, n := range lengths {
		for _, crc := range []uint32{0, 1, 0xffffffff, rng.Uint32()} {
			p := mem[rng.IntN(64):][:n]
			if got, want := Update(crc, p), crc32.Update(crc, oracle, p); got != want {
				t.Fatalf("%d bytes after %#x: %#x, want %#x", n, crc, got, want)
			}
		}
	}
}

// FuzzUpdate cuts the input anywhere.
func FuzzUpdate(f *testing.F) {
	f.Add([]byte("123456789"), uint32(0), uint16(3))
	f.Add(make([]byte, 1000), uint32(7), uint16(300))
	f.Fuzz(func(t *testing.T, p []byte, crc uint32, cut uint16) {
		n := min(int(cut), len(p))
		want := crc32.Update(crc, oracle, p)
		if got := Update(Update(crc, p[:n]), p[n:]); got != want {
			t.Fatalf("%d bytes cut at %d: %#x, want %#x", len(p), n, got, want)
		}
	})
}

// BenchmarkUpdate compares Update with the standard library, with data inside and outside the
// first-level cache.
func BenchmarkUpdate(b *testing.B) {
	for name, update := range map[string]func(uint32, []byte) uint32{"ours": Update, "std": func(c uint32, p []byte) uint32 { return crc32.Update(c, oracle, p) }} {
		for _, n := range []int{256, 512, 1024, 4096, 16384, 65536, 16 << 20} {
			p := make([]byte, n)
			b.Run(name+"/"+size(n), func(b *testing.B) {
				b.SetBytes(int64(n))
				for range b.N {
					update(0, p)
				}
			})
		}
	}
}

func size(n int) string {
	unit := "B"
	if n >= 1<<20 {
		n, unit = n>>20, "MiB"
	} else if n >= 1<<10 {
		n, unit = n>>10, "KiB"
	}
	s := ""
	for ; n > 0; n /= 10 {
		s = string(rune('0'+n%10)) + s
	}
	return s + unit
}
