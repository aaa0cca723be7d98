// Checks of files' contents: sizes, large files, maps, holes, truncation, appending.

package fscheck

import (
	"fmt"
	"os"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// around are sizes at the limits of the transport (inline, chunk, page and segment), and one byte
// less and more.
var around = []int{0, 1, 3, 4, 1023, 1024, 1025, 3000, 3900, 4000, 4095, 4096, 4097, 5001, 65535, 65536, 65537, 1<<20 - 1, 1 << 20}

func sizes(e Env) error {
	for _, n := range around {
		if err := put(e.path(fmt.Sprint(n)), data(n, 1)); err != nil {
			return err
		}
	}
	if err := e.Forget(); err != nil {
		return err
	}
	for _, n := range around {
		if err := holds(e.path(fmt.Sprint(n)), data(n, 1)); err != nil {
			return err
		}
	}
	return oddOffsets(e)
}

// oddOffsets reads and writes unaligned ranges without the page cache.
func oddOffsets(e Env) error {
	want := data(1<<20+77, 2)
	if err := put(e.path("odd"), want); err != nil {
		return err
	}
	f, err := os.OpenFile(e.path("odd"), os.O_RDWR|syscall.O_DIRECT, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	if _, err := f.ReadAt(make([]byte, 3), 1); err != nil {
		return nil // only network file systems accept unaligned requests
	}
	for i, n := range around {
		off, patch := int64(1+i*13), data(n, 3)
		if _, err := f.WriteAt(patch, off); err != nil {
			return fmt.Errorf("%d bytes at %d: %w", n, off, err)
		}
		want = append(want[:off], append(patch, want[min(int(off)+n, len(want)):]...)...)
		got := make([]byte, n)
		if _, err := f.ReadAt(got, off); err != nil {
			return fmt.Errorf("reading %d bytes at %d: %w", n, off, err)
		}
		if err := same(fmt.Sprintf("%d bytes at %d", n, off), got, patch); err != nil {
			return err
		}
	}
	return holds(e.path("odd"), want)
}

func largeBuffered(e Env) error {
	want := data(e.Large, 4)
	if err := put(e.path("f"), want); err != nil {
		return err
	}
	if err := e.Forget(); err != nil {
		return err
	}
	return holds(e.path("f"), want)
}

func largeDirect(e Env) error {
	want := aligned(e.Large)
	copy(want, data(e.Large, 5))
	f, err := os.OpenFile(e.path("f"), os.O_CREATE|os.O_RDWR|syscall.O_DIRECT, 0o644)
	if err != nil {
		return err
	}
	defer f.Close()
	const piece = 4 << 20
	for off := 0; off < e.Large; off += piece {
		if _, err := f.WriteAt(want[off:off+piece], int64(off)); err != nil {
			return err
		}
	}
	got := aligned(piece)
	for off := 0; off < e.Large; off += piece {
		if _, err := f.ReadAt(got, int64(off)); err != nil {
			return err
		}
		if err := same(fmt.Sprintf("the piece at %d", off), got, want[off:off+piece]); err != nil {
			return err
		}
	}
	return nil
}

// aligned returns page-aligned memory.
func aligned(n int) []byte {
	b := make([]byte, n+4096)
	skip := -int(uintptr(unsafe.Pointer(&b[0]))) & 4095
	return b[skip : skip+n]
}

func mapped(e Env) error {
	want := data(300_001, 6)
	if err := put(e.path("f"), want); err != nil {
		return err
	}
	f, err := os.OpenFile(e.path("f"), os.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	m, err := unix.Mmap(int(f.Fd()), 0, len(want), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		return err
	}
	if err := same("the map", m, want); err != nil {
		return err
	}
	patch := data(70_000, 7)
	copy(m[100_003:], patch)
	copy(want[100_003:], patch)
	if err := unix.Msync(m, unix.MS_SYNC); err != nil {
		return err
	}
	if err := unix.Munmap(m); err != nil {
		return err
	}
	if err := e.Forget(); err != nil {
		return err
	}
	return holds(e.path("f"), want)
}

func sparse(e Env) error {
	const far = 10<<20 + 3
	f, err := os.Create(e.path("f"))
	if err != nil {
		return err
	}
	defer f.Close()
	want := make([]byte, far+5)
	copy(want[far:], "after")
	copy(want[5<<20:], "amid")
	if _, err := f.WriteAt([]byte("after"), far); err != nil {
		return err
	}
	if _, err := f.WriteAt([]byte("amid"), 5<<20); err != nil {
		return err
	}
	if err := f.Sync(); err != nil {
		return err
	}
	if err := e.Forget(); err != nil {
		return err
	}
	var st syscall.Stat_t
	if err := syscall.Stat(e.path("f"), &st); err != nil {
		return err
	}
	if st.Size != far+5 || st.Blocks*512 > 1<<20 {
		return fmt.Errorf("a file with holes has size %d and %d blocks", st.Size, st.Blocks)
	}
	return holds(e.path("f"), want)
}

func truncate(e Env) error {
	want := data(100_000, 8)
	if err := put(e.path("f"), want); err != nil {
		return err
	}
	for _, n := range []int{70_001, 4096, 4095, 1, 0, 5, 200_000, 3} {
		if err := os.Truncate(e.path("f"), int64(n)); err != nil {
			return err
		}
		want = append(want[:min(n, len(want))], make([]byte, max(0, n-len(want)))...)
		if err := e.Forget(); err != nil {
			return err
		}
		if err := holds(e.path("f"), want); err != nil {
			return fmt.Errorf("truncated to %d: %w", n, err)
		}
	}
	f, err := os.OpenFile(e.path("f"), os.O_WRONLY|os.O_TRUNC, 0)
	if err != nil {
		return err
	}
	f.Close()
	return holds(e.path("f"), nil)
}

func appendTo(e Env) error {
	var want []byte
	for i := range 40 {
		f, err := os.OpenFile(e.path("f"), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o644)
		if err != nil {
			return err
		}
		piece := data(i*331, 9)
		if _, err := f.Write(piece); err != nil {
			f.Close()
			return err
		}
		if err := f.Close(); err != nil {
			return err
		}
		want = append(want, piece...)
	}
	if err := e.Forget(); err != nil {
		return err
	}
	return holds(e.path("f"), want)
}

func beyond4G(e Env) error {
	f, err := os.Create(e.path("f"))
	if err != nil {
		return err
	}
	defer f.Close()
	patch := data(100_000, 10)
	for _, off := range []int64{1<<31 - 5, 1<<32 - 50_000, 1<<33 + 7} {
		if _, err := f.WriteAt(patch, off); err != nil {
			return err
		}
		if err := f.Sync(); err != nil {
			return err
		}
		if err := e.Forget(); err != nil {
			return err
		}
		st, err := os.Stat(e.path("f"))
		if err != nil {
			return err
		}
		if st.Size() != off+int64(len(patch)) {
			return fmt.Errorf("size %d after a write that ends at %d", st.Size(), off+int64(len(patch)))
		}
		got := make([]byte, len(patch)+10)
		if _, err := f.ReadAt(got[:len(patch)+5], off-5); err != nil {
			return err
		}
		if err := same(fmt.Sprintf("at %d", off), got[5:len(patch)+5], patch); err != nil {
			return err
		}
	}
	return nil
}
