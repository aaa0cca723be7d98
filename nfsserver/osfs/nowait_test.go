// READ without waiting: its results, and the cases that it refuses.

package osfs

import (
	"bytes"
	"crypto/rand"
	"math"
	"os"
	"path/filepath"
	"testing"
	"time"
	"unsafe"

	"github.com/nfsrdma/nfsrdma/internal/tally"
	"github.com/nfsrdma/nfsrdma/nfsserver"
	"github.com/nfsrdma/nfsrdma/test/machine"
	"github.com/nfsrdma/nfsrdma/test/must"
	"golang.org/x/sys/unix"
)

// TestReadInUse: for open files in the page cache and permitted callers, ReadInUse reads the same
// bytes as ReadAt.
func TestReadInUse(t *testing.T) {
	for place, base := range places(t) {
		t.Run(place, func(t *testing.T) { readInUse(t, tempDir(t, base)) })
	}
}

func readInUse(t *testing.T, dir string) {
	want := make([]byte, 64<<10)
	rand.Read(want)
	name := filepath.Join(dir, "f")
	must.Succeed(t, os.WriteFile(name, want, 0o644))
	must.Succeed(t, os.Mkdir(filepath.Join(dir, "d"), 0o755))
	f := newFS(t, dir, Options{})
	if !f.quickReads {
		machine.Skip(t, "reads of this file system are not known not to wait")
	}
	now := time.Now()
	must.Succeed(t, os.Chtimes(name, now.Add(time.Minute), now)) // as if read after its last change
	ref, _, err := f.Lookup(me, f.Root(), "f")
	must.Succeed(t, err)
	read := func(c nfsserver.Cred, off uint64, n int) ([]byte, bool) {
		_, err := f.Getattr(ref) // as the READ procedure does
		must.Succeed(t, err)
		p := make([]byte, n)
		k, ok := f.ReadInUse(c, ref, p, off)
		return p[:k], ok
	}
	if _, ok := read(me, 0, 10); ok {
		t.Fatal("read of a file that is not open for reading")
	}
	_, err = f.ReadAt(me, ref, make([]byte, len(want)), 0)
	must.Succeed(t, err)
	for _, x := range []struct{ off, n int }{{0, 4096}, {4095, 2}, {8192, 16 << 10}, {len(want) - 1, 1}, {100, 5000}} {
		got, ok := read(me, uint64(x.off), x.n)
		// Read and try again: cachestat(2) may count too few pages, and a file whose last read was
		// long ago is no longer open for reading.
		for tries := 0; !ok && tries < 5; tries++ {
			_, err := f.ReadAt(me, ref, make([]byte, len(want)), 0)
			must.Succeed(t, err)
			got, ok = read(me, uint64(x.off), x.n)
		}
		if !ok || !bytes.Equal(got, want[x.off:x.off+x.n]) {
			t.Errorf("%d bytes at %d: %v, %d bytes", x.n, x.off, ok, len(got))
		}
	}
	for _, x := range []struct {
		off uint64
		n   int
	}{{uint64(len(want)) - 1, 2}, {uint64(len(want)), 1}, {math.MaxInt64, 1}, {math.MaxUint64, 1}, {0, 0}} {
		if _, ok := read(me, x.off, x.n); ok {
			t.Errorf("%d bytes at %d are there", x.n, x.off)
		}
	}
	if _, ok := read(nfsserver.Cred{UID: 4711, GID: 4711}, 0, 10); ok {
		t.Error("read by a caller who was not allowed to")
	}
	d, _, err := f.Lookup(me, f.Root(), "d")
	must.Succeed(t, err)
	if _, ok := f.ReadInUse(me, d, make([]byte, 1), 0); ok {
		t.Error("read of a directory")
	}
	if got := f.Mechanisms()["read_at_once"]; got.Won == 0 || got.Lost == 0 {
		t.Errorf("after reads that were done, and others: counts %+v, want some of both", got)
	}
	if got := testing.AllocsPerRun(100, func() { f.ReadInUse(me, ref, want[:4096], 0) }); got > 0 {
		t.Errorf("%v allocations for a read", got)
	}
	notInMemory(t, f, name, read)
	f.cache.closeAll()
	if _, ok := f.ReadInUse(me, ref, make([]byte, 1), 0); ok {
		t.Error("read of a file that is not open")
	}
}

// notInMemory checks what read refuses: missing pages, and a read that would change an access time
// on a disk.
func notInMemory(t *testing.T, f *FS, name string, read func(c nfsserver.Cred, off uint64, n int) ([]byte, bool)) {
	file, err := os.OpenFile(name, os.O_RDWR, 0)
	must.Succeed(t, err)
	defer file.Close()
	if f.nowait {
		now := time.Now()
		must.Succeed(t, os.Chtimes(name, now, now.Add(time.Second)))
		if _, ok := read(me, 0, 1); ok && f.atime == atimeRelative {
			t.Error("read of a file that was changed since it was read last")
		}
		must.Succeed(t, os.Chtimes(name, now.Add(time.Minute), now))
		if _, ok := read(me, 0, 1); !ok {
			t.Error("not read, of a file that was read since it was changed")
		}
		evict(t, file)
	} else {
		must.Succeed(t, unix.Fallocate(int(file.Fd()), unix.FALLOC_FL_PUNCH_HOLE|unix.FALLOC_FL_KEEP_SIZE, 4096, 8192))
	}
	if _, ok := read(me, 4096, 4096); ok {
		t.Error("read of a page that is not in memory")
	}
	if _, ok := read(me, 4095, 2); ok && !f.nowait {
		t.Error("read of two pages, of which one is not in memory")
	}
}

// evict makes the kernel drop a file's cached pages.
func evict(t *testing.T, file *os.File) {
	t.Helper()
	must.Succeed(t, file.Sync())
	// repeat, because a page in use stays
	for end := time.Now().Add(time.Minute); ; time.Sleep(time.Millisecond) {
		must.Succeed(t, unix.Fadvise(int(file.Fd()), 0, 0, unix.FADV_DONTNEED))
		if !resident(t, file, 4096) {
			return
		}
		if time.Now().After(end) {
			machine.Skip(t, "the page stays in memory")
		}
	}
}

// resident reports whether the page at off is in memory.
func resident(t *testing.T, file *os.File, off int64) bool {
	t.Helper()
	page, err := unix.Mmap(int(file.Fd()), off, 4096, unix.PROT_READ, unix.MAP_SHARED)
	must.Succeed(t, err)
	defer unix.Munmap(page)
	var in [1]byte
	_, _, errno := unix.Syscall(unix.SYS_MINCORE, uintptr(unsafe.Pointer(&page[0])), 4096, uintptr(unsafe.Pointer(&in)))
	must.Succeed(t, errnoError(errno))
	return in[0]&1 != 0
}

// TestAccessTimes: atimeIsNew follows the kernel's relatime, with an hour's margin for its limit of
// a day.
func TestAccessTimes(t *testing.T) {
	now := time.Now()
	ago := func(h int) unix.Timespec {
		return unix.NsecToTimespec(now.Add(-time.Duration(h) * time.Hour).UnixNano())
	}
	for _, x := range []struct {
		atime, mtime, ctime int // hours ago
		want                bool
	}{{1, 2, 2, true}, {1, 1, 2, false}, {1, 2, 1, false}, {2, 1, 3, false}, {2, 3, 1, false}, {22, 30, 30, true}, {24, 30, 30, false}, {-1, 2, 2, true}} {
		st := unix.Stat_t{Atim: ago(x.atime), Mtim: ago(x.mtime), Ctim: ago(x.ctime)}
		if atimeIsNew(&st, now) != x.want {
			t.Errorf("read %d hours ago, changed %d and %d: %v", x.atime, x.mtime, x.ctime, !x.want)
		}
	}
}

// TestReadsInVain: each time ReadInUse fails, more reads after it do not try it, up to a bound.
// When it succeeds, all reads try it again.
func TestReadsInVain(t *testing.T) {
	dir := tempDir(t, os.TempDir())
	must.Succeed(t, os.WriteFile(filepath.Join(dir, "f"), []byte("0123456789"), 0o644))
	f := newFS(t, dir, Options{})
	ref, _, err := f.Lookup(me, f.Root(), "f")
	must.Succeed(t, err)
	n := f.cache.get(&ref)
	defer f.cache.release(n)
	passes := func() (k int) {
		for !f.ReadsInUse(ref) {
			k++
		}
		return k
	}
	for i, want := range []int{0, 1, 3, 7, 15, 31, 63, 127, 255, 255} {
		if got := passes(); got != want {
			t.Errorf("after %d reads in vain %d are passed over, want %d", i, got, want)
		}
		if _, ok := f.ReadInUse(me, ref, make([]byte, 1), 0); ok {
			t.Fatal("read of a file that is not open for reading")
		}
	}
	if got, want := f.Mechanisms()["read_at_once"], (tally.Counts{Lost: 10, Passed: 757}); got != want {
		t.Errorf("after 10 reads in vain: counts %+v, want %+v", got, want)
	}
	passes()
	n.readBackoff.Note(true)
	n.readBackoff.Note(false)
	if got := passes(); got != 1 {
		t.Errorf("after one that was done, and one in vain, %d are passed over", got)
	}
	f.cache.closeAll()
	if f.ReadsInUse(ref) {
		t.Error("a file that is not in use")
	}
}

// TestReadInUseRefused: with SubtreeCheck or CrossMounts, ReadInUse refuses all reads.
func TestReadInUseRefused(t *testing.T) {
	for _, o := range []Options{{SubtreeCheck: true}, {CrossMounts: true}} {
		if f := newFS(t, tempDir(t, os.TempDir()), o); f.quickReads {
			t.Errorf("%+v: reads are taken to be quick", o)
		}
	}
}
