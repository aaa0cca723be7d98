// Deferred reads return the same bytes as ReadAt, under the same permissions, or are refused.

package osfs

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nfsrdma/nfsrdma/nfsserver"
	"github.com/nfsrdma/nfsrdma/rpcrdma/mem"
	"github.com/nfsrdma/nfsrdma/test/must"
	"golang.org/x/sys/unix"
)

func TestReadLater(t *testing.T) {
	dir := t.TempDir()
	must.Succeed(t, os.Chmod(dir, 0o755))
	content := make([]byte, 300_001)
	rand.NewChaCha8([32]byte{4}).Read(content)
	name := filepath.Join(dir, "f")
	must.Succeed(t, os.WriteFile(name, content, 0o600))
	f := newFS(t, dir, Options{})
	f.defersReads = true // as if the file system supported it
	self := nfsserver.Self()
	r, _, err := f.Lookup(self, f.Root(), "f")
	must.Succeed(t, err)
	wasRead(t, name)
	l, err := f.ReadLater(self, r, len(content), 0)
	must.Succeed(t, err)
	got := make([]byte, 200_000)
	for _, row := range []struct {
		off  int64
		n    int
		want int
	}{{0, 200_000, 200_000}, {5, 100_000, 100_000}, {200_000, 200_000, 100_001}, {300_001, 10, 0}, {1 << 40, 10, 0}} {
		wantErr := error(nil)
		if row.want < row.n {
			wantErr = io.EOF
		}
		n, err := l.ReadAt(got[:row.n], row.off)
		if n != row.want || err != wantErr {
			t.Errorf("%d bytes at %d: got %d, %v, want %d, %v", row.n, row.off, n, err, row.want, wantErr)
		}
		if n > 0 && !bytes.Equal(got[:n], content[row.off:][:n]) {
			t.Errorf("%d bytes at %d: other bytes", row.n, row.off)
		}
	}
	// the deferred read holds the node, which stays open when all others are evicted and its name
	// is removed
	must.Succeed(t, os.Remove(name))
	if n, err := l.ReadAt(got[:10], 0); n != 10 || err != nil {
		t.Errorf("of a removed file: got %d bytes, %v, want 10", n, err)
	}
	if !bytes.Equal(got[:10], content[:10]) {
		t.Error("of a removed file: other bytes")
	}
	n := f.cache.get(&r)
	if n == nil || n.refs != 2 {
		t.Fatalf("its node has other references than the two that there are: %+v", n)
	}
	l.Done()
	if n.refs != 1 {
		t.Errorf("%d references after the end, one is the test's", n.refs)
	}
	f.cache.release(n)
}

func TestReadLaterOfFewFiles(t *testing.T) {
	dir := t.TempDir()
	must.Succeed(t, os.Chmod(dir, 0o755))
	must.Succeed(t, os.WriteFile(filepath.Join(dir, "f"), make([]byte, 1<<20), 0o600))
	f := newFS(t, dir, Options{})
	self := nfsserver.Self()
	r, _, err := f.Lookup(self, f.Root(), "f")
	must.Succeed(t, err)
	f.defersReads = true
	if _, err := f.ReadLater(self, f.Root(), 10, 0); err != unix.EISDIR {
		t.Errorf("a directory: %v", err)
	}
	if _, err := f.ReadLater(self, r, 10, math.MaxInt64); !errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("beyond all files: %v", err)
	}
	if self.UID == 0 {
		if _, err := f.ReadLater(nfsserver.Cred{UID: 1000, GID: 1000}, r, 10, 0); err != unix.EACCES {
			t.Errorf("of a file that the caller MUST NOT read: %v", err)
		}
	}
	f.defersReads = false
	if _, err := f.ReadLater(self, r, 10, 0); !errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("of a file system that is another's: %v", err)
	}
}

// TestReadLaterOfWhatIsInMemory: a read that misses the page cache, or would change an access time,
// is not deferred.
func TestReadLaterOfWhatIsInMemory(t *testing.T) {
	dir := t.TempDir()
	f := newFS(t, dir, Options{})
	if f.onlyTmpfs() || !f.defersReads {
		return // a tmpfs misses no page, or this FS defers no reads
	}
	name := filepath.Join(dir, "f")
	must.Succeed(t, os.WriteFile(name, make([]byte, 1<<20), 0o600))
	wasRead(t, name)
	r, _, err := f.Lookup(me, f.Root(), "f")
	must.Succeed(t, err)
	l, err := f.ReadLater(me, r, 1<<20, 0)
	must.Succeed(t, err)
	l.Done()
	f.atime = atimeRelative
	now := time.Now()
	// changing the access time may make a read wait
	must.Succeed(t, os.Chtimes(name, now.Add(-time.Minute), now))
	if _, err := f.ReadLater(me, r, 1<<20, 0); !errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("of a file whose access time is to be changed: %v", err)
	}
	wasRead(t, name)
	file, err := os.Open(name)
	must.Succeed(t, err)
	defer file.Close()
	evict(t, file)
	if _, err := f.ReadLater(me, r, 1<<20, 0); !errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("of a file that is not in memory: %v", err)
	}
	n := f.cache.get(&r)
	defer f.cache.release(n)
	if n.refs != 1 {
		t.Errorf("%d references to its node, one is the test's", n.refs)
	}
}

// TestReadLaterOfWhatIsOnItsWay: pages that are being read from the disk count as in memory. A read
// has to wait for them, so it is not deferred.
func TestReadLaterOfWhatIsOnItsWay(t *testing.T) {
	dir := t.TempDir()
	f := newFS(t, dir, Options{})
	if f.onlyTmpfs() || !f.defersReads {
		return // a tmpfs misses no page, or this FS defers no reads
	}
	const size, piece = 32 << 20, 1 << 20
	name := filepath.Join(dir, "f")
	must.Succeed(t, os.WriteFile(name, make([]byte, size), 0o600))
	wasRead(t, name)
	r, _, err := f.Lookup(me, f.Root(), "f")
	must.Succeed(t, err)
	file, err := os.Open(name)
	must.Succeed(t, err)
	defer file.Close()
	var b [1]byte
	for range 10 {
		evict(t, file)
		must.Succeed(t, unix.Fadvise(int(file.Fd()), 0, size, unix.FADV_WILLNEED))
		for off := size - piece; off >= 0; off -= piece {
			l, err := f.ReadLater(me, r, piece, uint64(off))
			if err != nil {
				continue
			}
			if _, errno := preadNow(int(file.Fd()), b[:], int64(off+piece-1)); errno == unix.EAGAIN {
				t.Fatalf("%d bytes at %d are left for later, and are not there yet", piece, off)
			}
			l.Done()
		}
	}
}

// TestReadLaterLeavesFilesToOthers: replies not yet sent hold at most half of the files that may be
// open, and each file counts once. Further reads are not deferred until one of these replies is
// sent.
func TestReadLaterLeavesFilesToOthers(t *testing.T) {
	dir := t.TempDir()
	must.Succeed(t, os.Chmod(dir, 0o755))
	f := newFS(t, dir, Options{})
	f.defersReads = true
	limit := shared.limit.Swap(8)
	defer shared.limit.Store(limit)
	var held []mem.DeferredRead
	defer func() {
		for _, l := range held {
			l.Done()
		}
		if n := shared.deferredReads.Load(); n != 0 {
			t.Errorf("%d files are held in the end", n)
		}
	}()
	var refs []nfsserver.Ref
	read := func(r nfsserver.Ref) error {
		l, err := f.ReadLater(me, r, 5000, 0)
		if err == nil {
			held = append(held, l)
		}
		return err
	}
	for i := range 6 {
		name := filepath.Join(dir, string(rune('a'+i)))
		must.Succeed(t, os.WriteFile(name, make([]byte, 5000), 0o600))
		wasRead(t, name)
		r, _, err := f.Lookup(me, f.Root(), filepath.Base(name))
		must.Succeed(t, err)
		refs = append(refs, r)
		for range 3 {
			want := error(nil)
			if i >= 4 {
				want = errors.ErrUnsupported
			}
			if err := read(r); !errors.Is(err, want) {
				t.Errorf("file %d: got %v, want %v", i, err, want)
			}
		}
	}
	for range 3 {
		held[0].Done()
		held = held[1:]
	}
	if err := errors.Join(read(refs[4]), read(refs[1])); err != nil {
		t.Errorf("after one has left: %v", err)
	}
	if err := read(refs[5]); !errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("one more after that: %v", err)
	}
}

// TestReadLaterEndsWithoutWaiting: the last reply that holds a file releases it at once, even if
// many files wait for a disk. Each file is synced and closed afterwards.
func TestReadLaterEndsWithoutWaiting(t *testing.T) {
	real := flushData
	t.Cleanup(func() { flushData = real })
	disk, synced := make(chan struct{}), new(atomic.Int32)
	flushData = func(int) error {
		<-disk
		synced.Add(1)
		return nil
	}
	dir := t.TempDir()
	must.Succeed(t, os.Chmod(dir, 0o755))
	f := newFS(t, dir, Options{})
	f.defersReads = true
	var held []mem.DeferredRead
	for i := range maxQueuedFlushes + 3 {
		name := fmt.Sprint(i)
		r := createFile(t, f, f.Root(), name, "content")
		wasRead(t, filepath.Join(dir, name))
		l, err := f.ReadLater(me, r, 7, 0)
		must.Succeed(t, err)
		held = append(held, l)
	}
	f.cache.closeAll()
	before := openFDs(t)
	done := make(chan struct{})
	go func() {
		for _, l := range held {
			l.Done()
		}
		close(done)
	}()
	select {
	case <-done:
	case <-time.After(time.Minute):
		t.Error("the end of a reply waits for a disk")
	}
	close(disk)
	<-done
	f.flush.done.Wait()
	if n := synced.Load(); n != maxQueuedFlushes+3 {
		t.Errorf("%d files were synced", n)
	}
	if n := openFDs(t); n > before-len(held) {
		t.Errorf("%d descriptors are open, of %d before", n, before)
	}
}

// TestReadLaterOutlivesItsFS: an export can be closed while its replies are being sent. The
// replies' descriptors stay open until they are sent.
func TestReadLaterOutlivesItsFS(t *testing.T) {
	dir := t.TempDir()
	must.Succeed(t, os.Chmod(dir, 0o755))
	f, err := New(dir, Options{})
	must.Succeed(t, err)
	f.defersReads = true
	r := createFile(t, f, f.Root(), "f", "content")
	wasRead(t, filepath.Join(dir, "f"))
	l, err := f.ReadLater(me, r, 7, 0)
	must.Succeed(t, err)
	must.Succeed(t, f.Close())
	before := openFDs(t)
	got := make([]byte, 7)
	n, err := l.ReadAt(got, 0)
	must.Succeed(t, err)
	must.Equal(t, "a read after Close", string(got[:n]), "content")
	l.Done()
	if n := openFDs(t); n >= before {
		t.Errorf("%d descriptors are open after the reply has left, and %d were before", n, before)
	}
}

// wasRead sets a file's access time to a time after its last change, as a read would. So the next
// read does not change it.
func wasRead(t *testing.T, name string) {
	now := time.Now()
	must.Succeed(t, os.Chtimes(name, now.Add(time.Minute), now))
}
