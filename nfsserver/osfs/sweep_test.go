// Open descriptors, and when they are closed.

package osfs

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nfsrdma/nfsrdma/nfsserver"
	"github.com/nfsrdma/nfsrdma/test/must"
	"golang.org/x/sys/unix"
)

// idleTime is the time after which all unused files are closed.
const idleTime = time.Second

// neverSweeps stops f's sweeper, so idle files stay open, even on a slow machine.
func neverSweeps(f *FS) {
	f.sweep.stop()
	f.sweep.init()
}

// createFile makes a file with content, as a client would, and returns its Ref.
func createFile(t *testing.T, f *FS, dir nfsserver.Ref, name, content string) nfsserver.Ref {
	t.Helper()
	r, _, err := f.Create(me, dir, name, &nfsserver.SetAttr{Mask: nfsserver.SetMode, Mode: 0o755})
	must.Succeed(t, err)
	if content != "" {
		_, err = f.WriteAt(me, r, []byte(content), 0)
		must.Succeed(t, err)
	}
	return r
}

// writersOf returns how many descriptors in this process are open for writing on the file at path.
func writersOf(t *testing.T, path string) (count int) {
	t.Helper()
	var want, st unix.Stat_t
	must.Succeed(t, unix.Stat(path, &want))
	list, err := os.ReadDir("/proc/self/fd")
	must.Succeed(t, err)
	for _, e := range list {
		var fd int
		fmt.Sscan(e.Name(), &fd)
		if unix.Fstat(fd, &st) != nil || st.Ino != want.Ino || st.Dev != want.Dev {
			continue
		}
		if flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFL, 0); err == nil && flags&unix.O_ACCMODE != unix.O_RDONLY {
			count++
		}
	}
	return count
}

// TestNothingUnusedStaysOpen: a second after any call, only the root's descriptor is open, and no
// timer runs.
func TestNothingUnusedStaysOpen(t *testing.T) {
	bothKinds(t, func(t *testing.T, o Options) {
		dir := t.TempDir()
		synctest.Test(t, func(t *testing.T) {
			f := newFS(t, dir, o)
			before := openFDs(t)
			sub, _, err := f.Mkdir(me, f.Root(), "sub", &nfsserver.SetAttr{Mask: nfsserver.SetMode, Mode: 0o755})
			must.Succeed(t, err)
			r := createFile(t, f, sub, "file", "content")
			link, _, err := f.Symlink(me, sub, "link", "file", &nfsserver.SetAttr{})
			must.Succeed(t, err)
			_, err = f.Readlink(me, link)
			must.Succeed(t, err)
			_, err = f.ReadAt(me, r, make([]byte, 10), 0)
			must.Succeed(t, err, f.Sync(r, false), f.Sync(sub, false))
			_, err = f.ReadDir(me, sub, 0, true, func(*nfsserver.Dirent) bool { return true })
			must.Succeed(t, err, f.Rename(me, sub, "file", f.Root(), "renamed"))
			if n := openFDs(t); n <= before {
				t.Errorf("%d descriptors, %d before: nothing is kept open for the next call", n, before)
			}
			time.Sleep(idleTime)
			synctest.Wait()
			if n := openFDs(t); n != before {
				t.Errorf("%d descriptors after a second of rest, %d before", n, before)
			}
			if f.sweep.live.Load() {
				t.Error("the sweeper runs with nothing open")
			}
			if _, err := f.Getattr(r); err != nil || !f.sweep.live.Load() {
				t.Errorf("used again: %v, sweeper runs: %v", err, f.sweep.live.Load())
			}
		})
	})
}

// TestWriteDescriptorCloses: a file that is still read, but no longer written, is closed for
// writing, and sooner after a Sync.
func TestWriteDescriptorCloses(t *testing.T) {
	for name, synced := range map[string]bool{"written": false, "synced": true} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			synctest.Test(t, func(t *testing.T) {
				f := newFS(t, dir, Options{})
				r := createFile(t, f, f.Root(), "prog", "content")
				if writersOf(t, filepath.Join(dir, "prog")) == 0 {
					t.Fatal("the next WRITE would have to open the file again")
				}
				rest := idleTime
				if synced {
					must.Succeed(t, f.Sync(r, false))
					rest = 2 * sweepEvery
				}
				for end := time.Now().Add(rest); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
					b := make([]byte, 10)
					if n, err := f.ReadAt(me, r, b, 0); err != nil || string(b[:n]) != "content" {
						t.Fatalf("ReadAt: %q, %v", b[:n], err)
					}
				}
				synctest.Wait()
				if n := writersOf(t, filepath.Join(dir, "prog")); n != 0 {
					t.Errorf("%d descriptors for writing %v after the last WRITE", n, rest)
				}
				_, err := f.WriteAt(me, r, []byte("C"), 0)
				must.Succeed(t, err)
			})
		})
	}
}

// TestWriteDescriptorClosesInUse: the same happens if some call uses the file at each moment.
func TestWriteDescriptorClosesInUse(t *testing.T) {
	dir := t.TempDir()
	f := newFS(t, dir, Options{})
	r := createFile(t, f, f.Root(), "prog", "content")
	user := f.cache.get(&r) // stands for a call that does not end
	for range idleTicks + 1 {
		f.sweepOnce()
	}
	other, err := f.acquire(&r)
	must.Succeed(t, err)
	if other == user {
		t.Error("new calls use the node that is open for writing")
	}
	f.cache.release(other)
	if _, err := unix.Pwrite(int(user.write.Load()), []byte("C"), 0); err != nil {
		t.Errorf("the descriptor was closed under its user: %v", err)
	}
	f.cache.release(user)
	f.flush.done.Wait()
	if n := writersOf(t, filepath.Join(dir, "prog")); n != 0 {
		t.Errorf("%d descriptors for writing after their last user", n)
	}
}

// TestIdleFileKeepsItsError: a write-back error of unsynced data survives the close of its
// descriptor: the next Sync returns the error, once.
func TestIdleFileKeepsItsError(t *testing.T) {
	real := flushData
	t.Cleanup(func() { flushData = real })
	flushData = func(int) error { return unix.EIO }
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		f := newFS(t, dir, Options{})
		lost := createFile(t, f, f.Root(), "lost", "content")
		synced := createFile(t, f, f.Root(), "synced", "content")
		must.Succeed(t, f.Sync(synced, false))
		time.Sleep(idleTime)
		synctest.Wait()
		if err := f.Sync(synced, false); err != nil {
			t.Errorf("a file that was synced before it was closed: %v", err)
		}
		if err := f.Sync(lost, false); err != unix.EIO {
			t.Errorf("a file whose data was lost while it was closed: %v, want EIO", err)
		}
		if err := f.Sync(lost, false); err != nil {
			t.Errorf("Sync says it a second time: %v", err)
		}
	})
}

// TestFlushHasAnEnd: the flush queue is bounded, and idle files beyond its bound lose no data.
func TestFlushHasAnEnd(t *testing.T) {
	real := flushData
	t.Cleanup(func() { flushData = real })
	flushData = func(int) error { return unix.EIO }
	f := newFS(t, t.TempDir(), Options{CacheFiles: 4096})
	var refs []nfsserver.Ref
	for i := range maxQueuedFlushes + 50 {
		refs = append(refs, createFile(t, f, f.Root(), fmt.Sprint(i), "x"))
	}
	for range idleTicks {
		f.sweepOnce()
	}
	if room := f.flush.room(); room < 0 {
		t.Errorf("%d files wait to be synced", maxQueuedFlushes-room)
	}
	for f.cache.nodes.Load() > 0 {
		f.sweepOnce()
		f.flush.done.Wait()
	}
	for i, r := range refs {
		if err := f.Sync(r, true); err != unix.EIO {
			t.Fatalf("file %d: %v, want EIO", i, err)
		}
	}
}

// TestRemovedFileIsNotSynced: a removed file's data is not written to the disk before its space is
// freed.
func TestRemovedFileIsNotSynced(t *testing.T) {
	real := flushData
	t.Cleanup(func() { flushData = real })
	synced := 0
	flushData = func(int) error { synced++; return nil }
	f := newFS(t, t.TempDir(), Options{})
	createFile(t, f, f.Root(), "file", "content")
	must.Succeed(t, f.Remove(me, f.Root(), "file"))
	f.flush.done.Wait()
	if synced > 0 {
		t.Error("the data of a removed file was synced")
	}
}

// TestRemovedFileIsClosed: when the last name of an open file is removed, the file is closed, so
// its space is freed. This also holds if the removal finds the file by its cached generation.
func TestRemovedFileIsClosed(t *testing.T) {
	for what, remove := range map[string]func(f *FS) error{
		"remove":      func(f *FS) error { return f.Remove(me, f.Root(), "file") },
		"rename over": func(f *FS) error { return f.Rename(me, f.Root(), "other", f.Root(), "file") },
	} {
		f := newFS(t, t.TempDir(), Options{})
		createFile(t, f, f.Root(), "other", "content")
		ref := createFile(t, f, f.Root(), "file", "content")
		a, err := f.Getattr(ref)
		must.Succeed(t, err)
		// a generation is cached only once the ctime is in the past
		for n := 0; f.byName && !f.gens.Has(a.Fileid) && n < 1000; n++ {
			time.Sleep(10 * time.Millisecond)
			_, _, err := f.Lookup(me, f.Root(), "file")
			must.Succeed(t, err)
		}
		must.Succeed(t, remove(f))
		f.flush.done.Wait()
		if n := f.cache.get(&ref); n != nil {
			f.cache.release(n)
			t.Errorf("%s: the file is still open", what)
		}
	}
}

// TestOneBudget: two FSs together stay within the limit. An FS that starts while another has used
// it up works.
func TestOneBudget(t *testing.T) {
	a, b := newFS(t, t.TempDir(), Options{}), newFS(t, t.TempDir(), Options{})
	neverSweeps(a)
	neverSweeps(b)
	limit := shared.limit.Load()
	t.Cleanup(func() { shared.limit.Store(limit) })
	shared.limit.Store(64)
	for i := range 300 {
		createFile(t, a, a.Root(), fmt.Sprint(i), "")
	}
	if n := a.cache.nodes.Load(); n > 64 || n < 32 {
		t.Errorf("%d files open with a limit of 64", n)
	}
	for i := range 300 {
		createFile(t, b, b.Root(), fmt.Sprint(i), "")
		if n := a.cache.nodes.Load() + b.cache.nodes.Load(); n > 64+2 {
			t.Fatalf("%d files open in two FSs with a limit of 64", n)
		}
	}
	if n := b.cache.nodes.Load(); n < 32 {
		t.Errorf("the second FS keeps only %d open", n)
	}
}

// TestOutOfDescriptors: when the process has no descriptor left, idle files are closed and the call
// succeeds.
func TestOutOfDescriptors(t *testing.T) {
	f := newFS(t, t.TempDir(), Options{CacheFiles: 4096})
	other := newFS(t, t.TempDir(), Options{CacheFiles: 4096})
	for i := range 100 {
		createFile(t, other, other.Root(), fmt.Sprint(i), "")
	}
	r := createFile(t, f, f.Root(), "file", "content")
	shared.reclaimOf(&f.cache, 100)
	f.flush.done.Wait()
	var old unix.Rlimit
	must.Succeed(t, unix.Getrlimit(unix.RLIMIT_NOFILE, &old))
	taken, err := os.ReadDir("/proc/self/fd")
	must.Succeed(t, err)
	full := old
	full.Cur = uint64(len(taken)) // all numbers are in use, so the next descriptor is refused
	must.Succeed(t, unix.Setrlimit(unix.RLIMIT_NOFILE, &full))
	b := make([]byte, 10)
	n, err := f.ReadAt(me, r, b, 0)
	must.Succeed(t, unix.Setrlimit(unix.RLIMIT_NOFILE, &old))
	if err != nil || string(b[:n]) != "content" {
		t.Errorf("ReadAt with no descriptor left: %q, %v", b[:n], err)
	}
}
