// Update computes the same CRC as the standard library, for any length, alignment and preceding
// CRC.

package crcieee

import (
	"bytes"
	"hash/crc32"
	"math/rand/v2"
	"testing"
)

var oracle = crc32.IEEETable

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

// TestCopiesAreWholeAndTheirCRCsJoin: Copy's bytes arrive, no byte beside them changes, and its
// CRC, joined to the preceding one, is the CRC of all bytes.
func TestCopiesAreWholeAndTheirCRCsJoin(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	mem := make([]byte, 20_000)
	for i := range mem {
		mem[i] = byte(rng.Uint32())
	}
	for _, n := range []int{0, 1, 16, 255, 256, 257, 512, 768, 1024, 2048, 4096, 1024, 4352, 8192} {
		src, room := mem[rng.IntN(64):][:n], make([]byte, 64+n+64)
		at := rng.IntN(64)
		p := Copy(room[at:at+n], src)
		if !bytes.Equal(room[at:at+n], src) {
			t.Fatalf("%d bytes are other ones", n)
		}
		for i, b := range room {
			if b != 0 && (i < at || i >= at+n) {
				t.Fatalf("%d bytes: one at %d has changed", n, i-at)
			}
		}
		head := mem[10_000:][:rng.IntN(100)]
		if whole := canFold && n > 0 && n <= copyMax && n%copyUnit == 0; whole != (p.N == n && n > 0) || !whole && p != (Piece{}) {
			t.Fatalf("%d bytes: %+v", n, p)
		}
		rest := src[:n-p.N] // all of it if Copy has computed nothing
		got, want := Join(Update(Update(0, head), rest), p), crc32.Update(crc32.Update(0, oracle, head), oracle, src)
		if got != want {
			t.Fatalf("%d bytes after %d: %#x, want %#x", n, len(head), got, want)
		}
	}
}

// BenchmarkCopy compares Copy with a copy and a CRC.
func BenchmarkCopy(b *testing.B) {
	dst, src := make([]byte, 4096), make([]byte, 4096)
	b.Run("one pass", func(b *testing.B) {
		for range b.N {
			Copy(dst, src)
		}
	})
	b.Run("two passes", func(b *testing.B) {
		for range b.N {
			copy(dst, src)
			Update(0, dst)
		}
	})
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
		for _, n := range []int{12, 16, 64, 256, 1024, 4096, 16384, 65536, 16 << 20} {
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
