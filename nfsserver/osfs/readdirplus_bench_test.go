// READDIRPLUS compared with the system calls that it needs.

package osfs

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/nfsrdma/nfsrdma/nfsserver"
	"golang.org/x/sys/unix"
)

// BenchmarkReadDirPlus lists directories with the attributes of each file. "floor" makes only the
// system calls: getdents64(2), and one stat for each entry. The others call ReadDir: "alone" with
// one goroutine, "osfs" also with its helper, and "pages" in pages of 64 KiB. Units are nanoseconds
// for each entry, by the clock and of processor time.
func BenchmarkReadDirPlus(b *testing.B) {
	for _, count := range []int{1000, 10000} {
		dir := b.TempDir()
		for i := range count {
			if err := os.WriteFile(filepath.Join(dir, fmt.Sprintf("file-%06d", i)), []byte("x"), 0o644); err != nil {
				b.Fatalf("make the files: %v", err)
			}
		}
		f, err := New(dir, Options{})
		if err != nil {
			b.Fatalf("open the directory: %v", err)
		}
		defer f.Close()
		each := func(name string, list func() int) {
			b.Run(fmt.Sprintf("%s/%d", name, count), func(b *testing.B) {
				b.ReportAllocs()
				got := list()
				before := cpuTime(b)
				for b.Loop() {
					got = list()
				}
				b.ReportMetric(float64(cpuTime(b)-before)/float64(b.N)/float64(count), "cpu-ns/entry")
				if got != count+2 {
					b.Fatalf("%d entries, want %d", got, count+2)
				}
				b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(count), "ns/entry")
			})
		}
		each("floor", func() int { return floorListing(b, f) })
		list := func() (n int) {
			_, err := f.ReadDir(me, f.Root(), 0, true, func(de *nfsserver.Dirent) bool {
				n++
				return true
			})
			if err != nil {
				b.Fatalf("list the directory: %v", err)
			}
			return n
		}
		each("alone", func() int {
			f.helpers.Add(1 << 20)
			defer f.helpers.Add(-1 << 20)
			return list()
		})
		if runtime.GOMAXPROCS(0) > 1 {
			each("osfs", list)
			each("pages", func() int { return pagedListing(b, f) })
		}
	}
}

// pagedListing lists the root in pages of 280 entries, which fit in 64 KiB, and returns the number
// of entries.
func pagedListing(b *testing.B, f *FS) (n int) {
	var next uint64
	for eof := false; !eof; {
		var err error
		page := 0
		eof, err = f.ReadDir(me, f.Root(), next, true, func(de *nfsserver.Dirent) bool {
			if page == 280 {
				return false
			}
			page++
			next = de.Cookie
			return true
		})
		if err != nil {
			b.Fatalf("list the directory: %v", err)
		}
		n += page
	}
	return n
}

// cpuTime returns this process's processor time, in nanoseconds.
func cpuTime(b *testing.B) int64 {
	var u unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &u); err != nil {
		b.Fatalf("getrusage: %v", err)
	}
	return u.Utime.Nano() + u.Stime.Nano()
}

// floorListing makes the system calls of a listing with attributes, and returns the number of
// entries.
func floorListing(b *testing.B, f *FS) (n int) {
	fd, err := unix.Openat(f.tree.root, ".", unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		b.Fatalf("open the directory: %v", err)
	}
	defer unix.Close(fd)
	buf := direntBufs.Get().(*[]byte)
	defer direntBufs.Put(buf)
	for {
		k, err := unix.Getdents(fd, *buf)
		if err != nil {
			b.Fatalf("getdents: %v", err)
		}
		if k == 0 {
			return n
		}
		var raw rawDirent
		var st unix.Stat_t
		for rest := raw.next((*buf)[:k]); rest != nil; rest = raw.next(rest) {
			if err := f.statName(fd, raw.zname, &st); err != nil {
				b.Fatalf("stat: %v", err)
			}
			n++
		}
	}
}
