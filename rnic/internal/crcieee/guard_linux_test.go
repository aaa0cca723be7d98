// Inaccessible memory on both sides of the accessed bytes: a packet's end may be the end of a
// mapping.

package crcieee

import (
	"bytes"
	"hash/crc32"
	"math/rand/v2"
	"syscall"
	"testing"
)

// guarded returns n bytes, whole pages, between pages that cannot be accessed.
func guarded(t *testing.T, n int) []byte {
	t.Helper()
	page := syscall.Getpagesize()
	mem, err := syscall.Mmap(-1, 0, page+n+page, syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_ANON|syscall.MAP_PRIVATE)
	if err != nil {
		t.Fatalf("Mmap: %v", err)
	}
	t.Cleanup(func() { _ = syscall.Munmap(mem) })
	for _, at := range []int{0, page + n} {
		if err := syscall.Mprotect(mem[at:at+page], syscall.PROT_NONE); err != nil {
			t.Fatalf("Mprotect: %v", err)
		}
	}
	return mem[page : page+n]
}

// TestNothingBesideIsTouched: Copy and Update access no byte beside theirs, for any length, at both
// ends of accessible memory. An access beyond it would end the process.
func TestNothingBesideIsTouched(t *testing.T) {
	const most = 5000
	size := (most/syscall.Getpagesize() + 1) * syscall.Getpagesize()
	from, to := guarded(t, size), guarded(t, size)
	rng := rand.New(rand.NewPCG(5, 6))
	for i := range from {
		from[i] = byte(rng.Uint32())
	}
	for n := range most + 1 {
		for _, ends := range []bool{false, true} {
			src, dst := from[:n], to[:n]
			if ends {
				src, dst = from[size-n:], to[size-n:]
			}
			crc := rng.Uint32()
			want := crc32.Update(crc, oracle, src)
			if got := Update(crc, src); got != want {
				t.Fatalf("%d bytes: %#x, want %#x", n, got, want)
			}
			clear(dst)
			p := Copy(dst, src)
			if !bytes.Equal(dst, src) || Join(Update(crc, src[:n-p.N]), p) != want {
				t.Fatalf("%d bytes are copied wrong", n)
			}
		}
	}
}
