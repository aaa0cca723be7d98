// Reads that miss the page cache return the same bytes with the ring and without it.

package osfs

import (
	"bytes"
	"crypto/rand"
	"errors"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/nfsrdma/nfsrdma/internal/tally"
	"github.com/nfsrdma/nfsrdma/nfsserver/osfs/internal/uring"
	"github.com/nfsrdma/nfsrdma/test/machine"
	"github.com/nfsrdma/nfsrdma/test/must"
	"golang.org/x/sys/unix"
)

func TestColdReads(t *testing.T) {
	want := make([]byte, 1<<20)
	rand.Read(want)
	for place, base := range places(t) {
		for name, none := range map[string]bool{"ring": false, "no ring": true} {
			t.Run(place+" "+name, func(t *testing.T) {
				dir := tempDir(t, base)
				file, err := os.Create(filepath.Join(dir, "f"))
				must.Succeed(t, err)
				defer file.Close()
				_, err = file.Write(want)
				must.Succeed(t, err)
				must.Succeed(t, file.Sync())
				must.Succeed(t, unix.Fadvise(int(file.Fd()), 0, 0, unix.FADV_DONTNEED))
				f := newFS(t, dir, Options{})
				f.cold.none = none
				r, _, err := f.Lookup(me, f.Root(), "f")
				must.Succeed(t, err)
				var wg sync.WaitGroup
				for g := range 8 {
					wg.Go(func() {
						for i := range 32 {
							off := (i*8 + g) * 4096
							// some of these bytes may be in memory already
							p := make([]byte, 4096*(1+i%3))
							n, err := f.ReadAt(me, r, p, uint64(off))
							if end := min(off+len(p), len(want)); err != nil || !bytes.Equal(p[:n], want[off:end]) {
								t.Errorf("at %d: %d bytes, %v", off, n, err)
							}
						}
					})
				}
				wg.Wait()
				got := f.Mechanisms()["cold_read"]
				if f.cold.none && got.Won+got.Lost > 0 {
					t.Errorf("no ring: got counts %+v, want only passed ones", got)
				}
				if !f.cold.none && got.Passed > 0 {
					t.Errorf("with a ring: got counts %+v, want none passed", got)
				}
			})
		}
	}
}

// Reads do not wait when other reads fill the ring, for example reads from a disk that does not
// respond.
func TestColdReadsBesideAFullRing(t *testing.T) {
	want := make([]byte, 64<<10)
	rand.Read(want)
	dir := tempDir(t, os.TempDir())
	name := filepath.Join(dir, "f")
	must.Succeed(t, os.WriteFile(name, want, 0o600))
	f := newFS(t, dir, Options{})
	r := f.cold.take()
	if r == nil {
		machine.Skip(t, "no io_uring")
	}
	defer f.cold.put()
	var pipe [2]int
	must.Succeed(t, unix.Pipe2(pipe[:], unix.O_CLOEXEC))
	defer unix.Close(pipe[0])
	var wg sync.WaitGroup
	defer wg.Wait()
	defer unix.Close(pipe[1]) // ends the reads that fill the ring
	full := make(chan struct{})
	var once sync.Once
	for range 1000 {
		wg.Go(func() {
			if _, err := r.ReadAt(pipe[0], make([]byte, 1), 0); errors.Is(err, uring.ErrFull) {
				once.Do(func() { close(full) })
			}
		})
	}
	<-full
	file, err := os.Open(name)
	must.Succeed(t, err)
	defer file.Close()
	must.Succeed(t, file.Sync())
	must.Succeed(t, unix.Fadvise(int(file.Fd()), 0, 0, unix.FADV_DONTNEED))
	ref, _, err := f.Lookup(me, f.Root(), "f")
	must.Succeed(t, err)
	f.nowait = true // as if the file system supported it
	p := make([]byte, len(want))
	if n, err := f.ReadAt(me, ref, p, 0); err != nil || !bytes.Equal(p[:n], want) {
		t.Errorf("%d bytes, %v", n, err)
	}
	// no read is counted if the file's pages have stayed in memory
	if got := f.Mechanisms()["cold_read"]; got != (tally.Counts{}) && got != (tally.Counts{Lost: 1}) {
		t.Errorf("a read beside a full ring: counts %+v, want one that is lost", got)
	}
}

// An unused ring is closed, and the next read that waits opens another one.
func TestIdleRingEnds(t *testing.T) {
	c := &coldRing{open: uring.Open, closed: make(chan struct{}, 1)}
	for range 2 {
		if c.take() == nil {
			machine.Skip(t, "no io_uring")
		}
		if c.take() == nil {
			t.Fatal("no ring for a second read")
		}
		c.put()
		c.sweep() // as a timer that was started earlier would
		if c.ring == nil {
			t.Fatal("the ring of a read has ended")
		}
		c.put()
		<-c.closed
		c.mu.Lock()
		if c.ring != nil || c.users != 0 {
			t.Errorf("%d users of a ring that has ended", c.users)
		}
		c.mu.Unlock()
	}
}

// Close closes the ring, even right after a use.
func TestCloseEndsRing(t *testing.T) {
	f := newFS(t, tempDir(t, os.TempDir()), Options{})
	if f.cold.take() == nil {
		machine.Skip(t, "no io_uring")
	}
	f.cold.put()
	must.Succeed(t, f.Close())
	f.cold.mu.Lock()
	defer f.cold.mu.Unlock()
	if f.cold.ring != nil {
		t.Error("Close left the ring, want none")
	}
}

// A file in memory that serves as a disk (DAX) is never in the page cache, and reading it needs no
// ring. The test cannot make such a disk, so it replaces statx.
func TestReadsOfDAX(t *testing.T) {
	defer func(f func(int, string, int, int, *unix.Statx_t) error) { statx = f }(statx)
	want := make([]byte, 64<<10)
	rand.Read(want)
	for _, dax := range []bool{false, true} {
		asked := 0
		statx = func(fd int, path string, flags, mask int, sx *unix.Statx_t) error {
			asked++
			err := unix.Statx(fd, path, flags, mask, sx)
			if dax {
				sx.Attributes |= unix.STATX_ATTR_DAX
			}
			return err
		}
		rings := 0
		dir := tempDir(t, os.TempDir())
		name := filepath.Join(dir, "f")
		must.Succeed(t, os.WriteFile(name, want, 0o600))
		f := newFS(t, dir, Options{})
		neverSweeps(f) // a sweep would drop the cached daxState
		f.cold.open = func() (*uring.Ring, error) {
			rings++
			return nil, unix.ENOMEM // the next read tries again
		}
		ref, _, err := f.Lookup(me, f.Root(), "f")
		must.Succeed(t, err)
		f.nowait, f.quickReads = true, true // as if the file system supported both
		file, err := os.OpenFile(name, os.O_RDWR, 0)
		must.Succeed(t, err)
		defer file.Close()
		misses := 0
		for i := 0; misses < 3 && i < 100; i++ {
			must.Succeed(t, file.Sync())
			must.Succeed(t, unix.Fadvise(int(file.Fd()), 0, 0, unix.FADV_DONTNEED))
			all, errno := cached(int(file.Fd()), 0, len(want))
			if errno != 0 {
				machine.Skip(t, "no cachestat")
			}
			if all {
				continue
			}
			misses++
			p := make([]byte, len(want))
			if n, err := f.ReadAt(me, ref, p, 0); err != nil || !bytes.Equal(p[:n], want) {
				t.Errorf("DAX %v: %d bytes, %v", dax, n, err)
			}
		}
		if misses == 0 {
			machine.Skip(t, "the pages stay in memory")
		}
		want := misses
		if dax {
			want = 0
		}
		if rings != want {
			t.Errorf("DAX %v: %d of %d reads asked for a ring, want %d", dax, rings, misses, want)
		}
		if asked != 1 {
			t.Errorf("DAX %v: asked %d times, want once", dax, asked)
		}
	}
}
