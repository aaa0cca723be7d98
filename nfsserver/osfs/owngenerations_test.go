// File systems without generations: which file a handle has after removals, on the server and below
// it, and after changes by other processes.

package osfs

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/nfsrdma/nfsrdma/nfsserver"
	"github.com/nfsrdma/nfsrdma/test/machine"
	"github.com/nfsrdma/nfsrdma/test/must"
	"golang.org/x/sys/unix"
)

// unnumbered has file systems in user space, with their mount commands. They are over a directory
// on ext4, which gives a free inode number to the next file. byPath means: a number belongs to a
// path, not to the file below.
var unnumbered = []struct {
	name    string
	command []string
	byPath  bool
}{
	{"bindfs", []string{"bindfs"}, false},
	{"mergerfs", []string{"mergerfs", "-o", "minfreespace=0,use_ino,inodecalc=devino-hash,cache.attr=0,cache.entry=0"}, false},
	{"mergerfs by path", []string{"mergerfs", "-o", "minfreespace=0"}, true},
	{"sshfs", []string{"sshfs"}, true},
}

// eachUnnumbered runs a test on each of these file systems, but on those with byPath only if byPath
// is set. source is the directory below.
func eachUnnumbered(t *testing.T, byPath bool, test func(t *testing.T, f *FS, source string)) {
	for _, u := range unnumbered {
		if u.byPath && !byPath {
			continue
		}
		t.Run(u.name, func(t *testing.T) {
			machine.NeedRoot(t, "mounts, real file systems and other users: needs root", u.command[0], "mkfs.ext4")
			scratch := t.TempDir()
			source, dir := filepath.Join(scratch, "source"), filepath.Join(scratch, "mnt")
			must.Succeed(t, os.Mkdir(source, 0o755), os.Mkdir(dir, 0o755))
			onImage(32<<20, "", "mkfs.ext4", "-q", "-b", "4096")(t, scratch, source)
			t.Cleanup(func() { unix.Unmount(source, unix.MNT_DETACH) })
			// chmod renews the times, because mkfs gives the root times of whole seconds
			must.Succeed(t, os.Chmod(source, 0o755))
			command := append(slices.Clone(u.command), source, dir)
			if u.name == "sshfs" {
				command = sshfs(t, scratch, source, dir)
			}
			run(t, command...)
			t.Cleanup(func() { unix.Unmount(dir, unix.MNT_DETACH) })
			f := newFS(t, dir, Options{})
			neverSweeps(f) // closeIdle closes files instead, because laterTimes can take long
			test(t, f, source)
		})
	}
}

// closeIdle closes all open files, as the sweeper does for idle files.
func closeIdle(f *FS) {
	f.cache.closeAll()
	f.flush.done.Wait()
}

// laterTimes waits until the next file made in dir, which is below f, has later times than all
// files there now.
func laterTimes(t *testing.T, f *FS, dir string) {
	t.Helper()
	delta := f.Info().TimeDelta.Sec*1e9 + int64(f.Info().TimeDelta.Nsec)
	name := filepath.Join(dir, "clock")
	made := func() int64 {
		var st unix.Stat_t
		must.Succeed(t, os.WriteFile(name, nil, 0o600), unix.Stat(name, &st), os.Remove(name))
		return st.Ctim.Nano() / delta
	}
	for first := made(); made() == first; {
		time.Sleep(time.Millisecond)
	}
}

// inode returns a file's inode number.
func inode(t *testing.T, path string) uint64 {
	t.Helper()
	var st unix.Stat_t
	must.Succeed(t, unix.Lstat(path, &st))
	return st.Ino
}

// isStale reports whether err means that a handle names no file.
func isStale(err error) bool {
	return errors.Is(err, nfsserver.ErrStale) || errors.Is(err, syscall.ESTALE) || errors.Is(err, syscall.ENOENT)
}

// mustRead checks that reading r returns want.
func mustRead(t *testing.T, f *FS, r nfsserver.Ref, want, when string) {
	t.Helper()
	b := make([]byte, 64)
	n, err := f.ReadAt(me, r, b, 0)
	if err != nil || string(b[:n]) != want {
		t.Errorf("%s: read %q, %v, want %q", when, b[:n], err, want)
	}
}

// TestNumberGivenToAnotherBelow: a file is removed below the file system, and another file, with
// any name, gets its number. The first file's handle neither reads nor changes the other, whether
// the first was in use a moment ago or not.
func TestNumberGivenToAnotherBelow(t *testing.T) {
	eachUnnumbered(t, true, func(t *testing.T, f *FS, source string) {
		used, rounds := 0, 12
		if f.Info().TimeDelta.Sec > 0 {
			rounds = 4 // each round waits for a second
		}
		for i := range rounds {
			name, idle := "other", i%2 == 0
			if i%4 < 2 {
				name = "old"
			}
			when := fmt.Sprintf("%d: the new one is %s, idle %v", i, name, idle)
			old := createFile(t, f, f.Root(), "old", "old")
			mustRead(t, f, old, "old", when)
			closeIdle(f)
			if !idle {
				_, err := f.Getattr(old)
				must.Succeed(t, err)
			}
			number := inode(t, filepath.Join(source, "old"))
			laterTimes(t, f, source)
			must.Succeed(t, os.Remove(filepath.Join(source, "old")))
			write(t, "another", source, name)
			if inode(t, filepath.Join(source, name)) == number {
				used++
			}
			b := make([]byte, 16)
			if n, err := f.ReadAt(me, old, b, 0); !isStale(err) {
				t.Errorf("%s: the old handle reads %q, %v, want stale", when, b[:n], err)
			}
			if _, err := f.WriteAt(me, old, []byte("CLOBBER"), 0); !isStale(err) {
				t.Errorf("%s: the old handle writes: %v, want stale", when, err)
			}
			if err := f.Setattr(me, old, &nfsserver.SetAttr{Mask: nfsserver.SetMode | nfsserver.SetSize, Mode: 0}); !isStale(err) {
				t.Errorf("%s: the old handle sets attributes: %v, want stale", when, err)
			}
			content, err := os.ReadFile(filepath.Join(source, name))
			must.Succeed(t, err)
			if string(content) != "another" {
				t.Errorf("%s: the new file has %q", when, content)
			}
			closeIdle(f)
			for range 2 { // a second time, because the kernel may cache names for a second
				for {
					n := 0
					r, _, err := f.Lookup(me, f.Root(), name)
					if err == nil {
						n, err = f.ReadAt(me, r, b, 0)
					}
					if err == nil {
						if r == old {
							t.Fatalf("%s: a look-up has the old handle", when)
						}
						must.Equal(t, when+": a look-up reads", string(b[:n]), "another")
						break
					}
					if !isStale(err) {
						t.Fatalf("%s: look up and read: got %v, want success or a stale handle", when, err)
					}
					time.Sleep(10 * time.Millisecond)
				}
				closeIdle(f)
			}
			mustStale(t, f, old, when)
			must.Succeed(t, f.Remove(me, f.Root(), name))
		}
		if used == 0 {
			t.Error("no number was given to another file")
		}
	})
}

// TestRemovedNumberIsServedAgain: if a new file gets a removed file's number, the new file is
// served, and the old handle is stale.
func TestRemovedNumberIsServedAgain(t *testing.T) {
	eachUnnumbered(t, true, func(t *testing.T, f *FS, source string) {
		numbers := map[uint64]bool{}
		var was []nfsserver.Ref
		check := func(name string, r nfsserver.Ref) {
			t.Helper()
			numbers[inode(t, filepath.Join(source, name))] = true
			for range 2 {
				closeIdle(f)
				if _, err := f.Getattr(r); err != nil {
					t.Errorf("%s: %v", name, err)
				}
			}
			for i, old := range was {
				mustStale(t, f, old, fmt.Sprintf("%s: handle %d of a removed file", name, i))
			}
			was = append(was, r)
		}
		for range 4 {
			r := createFile(t, f, f.Root(), "file", "content")
			check("file", r)
			mustRead(t, f, r, "content", "a new file")
			must.Succeed(t, f.Remove(me, f.Root(), "file"))
		}
		for range 4 {
			d, _, err := f.Mkdir(me, f.Root(), "dir", &nfsserver.SetAttr{Mask: nfsserver.SetMode, Mode: 0o755})
			must.Succeed(t, err)
			check("dir", d)
			must.Succeed(t, f.Rmdir(me, f.Root(), "dir"))
		}
		for i := range 4 { // saves a file as editors do
			r := createFile(t, f, f.Root(), "tmp", fmt.Sprint("save ", i))
			closeIdle(f)
			must.Succeed(t, f.Rename(me, f.Root(), "tmp", f.Root(), "saved"))
			check("saved", r)
			mustRead(t, f, r, fmt.Sprint("save ", i), "a saved file")
		}
		if len(numbers) >= len(was) {
			t.Errorf("%d numbers of %d files: none was reused", len(numbers), len(was))
		}
	})
}

// TestChangedByOthersStaysTheSame: a handle keeps its file after other processes have written,
// renamed, linked or chmodded it. A directory's handle keeps the directory after others have
// changed and listed it.
func TestChangedByOthersStaysTheSame(t *testing.T) {
	eachUnnumbered(t, false, func(t *testing.T, f *FS, source string) {
		r := createFile(t, f, f.Root(), "log", "1")
		path := filepath.Join(source, "log")
		closeIdle(f)
		laterTimes(t, f, source)
		must.Succeed(t, os.WriteFile(path, []byte("12"), 0o644))
		mustRead(t, f, r, "12", "written by another")
		closeIdle(f)
		must.Succeed(t, os.Chmod(path, 0o640))
		mustRead(t, f, r, "12", "after chmod by another")
		closeIdle(f)
		must.Succeed(t, os.Rename(path, path+".1"))
		mustRead(t, f, r, "12", "renamed by another")
		closeIdle(f)
		must.Succeed(t, os.Link(path+".1", path+".2"), os.Remove(path+".1"))
		mustRead(t, f, r, "12", "under another name")

		d, _, err := f.Mkdir(me, f.Root(), "d", &nfsserver.SetAttr{Mask: nfsserver.SetMode, Mode: 0o755})
		must.Succeed(t, err)
		closeIdle(f)
		descriptors := openFDs(t)
		for i := range 3 {
			closeIdle(f)
			laterTimes(t, f, source)
			write(t, "", source, "d", fmt.Sprint(i))
			_, err := os.ReadDir(filepath.Join(source, "d"))
			must.Succeed(t, err)
			if _, err := f.Getattr(d); err != nil {
				t.Errorf("a directory that others have changed and listed: %v", err)
			}
		}
		closeIdle(f)
		if n := openFDs(t); n != descriptors {
			t.Errorf("%d descriptors with nothing open, want %d", n, descriptors)
		}
		times := nfsserver.SetAttr{Mask: nfsserver.SetAtime | nfsserver.SetMtime, Atime: nfsserver.Time{Sec: 1e9}, Mtime: nfsserver.Time{Sec: 1e9}}
		must.Succeed(t, f.Setattr(me, r, &times))
		closeIdle(f)
		mustRead(t, f, r, "12", "with times that were set")

		_, err = f.Getattr(r) // the kernel caches these attributes for a second
		must.Succeed(t, err)
		laterTimes(t, f, source)
		must.Succeed(t, os.WriteFile(path+".2", []byte("123"), 0o644))
		_, err = os.ReadFile(path + ".2")
		must.Succeed(t, err)
		closeIdle(f)
		mustRead(t, f, r, "123", "written and read by another while it was in use")
		closeIdle(f)
		f.identities.mu.Lock()
		defer f.identities.mu.Unlock()
		for k, e := range f.identities.known {
			if want := int32(0); k != f.rootKey && e.pins != want {
				t.Errorf("inode %d has %d pins with nothing open, want %d", k.ino, e.pins, want)
			}
		}
	})
}

// TestPathOfAnOpenFileLeadsToAnother: while the server has a file open for reading, another process
// renames it and makes a file at its path. A write with the handle does not change the new file,
// unless both have the same number.
func TestPathOfAnOpenFileLeadsToAnother(t *testing.T) {
	eachUnnumbered(t, false, func(t *testing.T, f *FS, source string) {
		r := createFile(t, f, f.Root(), "f", "content")
		closeIdle(f)
		mustRead(t, f, r, "content", "before")
		must.Succeed(t, os.Rename(filepath.Join(source, "f"), filepath.Join(source, "moved")))
		write(t, "another", source, "f")
		_, writeErr := f.WriteAt(me, r, []byte("CLOBBER"), 0)
		got, err := os.ReadFile(filepath.Join(source, "f"))
		must.Succeed(t, err)
		if string(got) != "another" {
			t.Errorf("the file at its path has %q after a write (%v), want %q", got, writeErr, "another")
		}
	})
}

// TestOtherNameIsFound: a file is found without a walk under a name that LINK has given it. It is
// still found when the name for which its handle was made is removed.
func TestOtherNameIsFound(t *testing.T) {
	noWalk := func(f *FS) { f.index.walk.debt, f.index.walk.asOf = time.Hour, time.Now() }
	check := func(t *testing.T, f *FS, dir string) {
		r := createFile(t, f, f.Root(), "a", "content")
		must.Succeed(t, f.Link(me, r, f.Root(), "b"))
		must.Succeed(t, f.Remove(me, f.Root(), "a"))
		closeIdle(f)
		noWalk(f)
		mustRead(t, f, r, "content", "under its other name")
		must.Succeed(t, f.Link(me, r, f.Root(), "c"))
		createFile(t, f, f.Root(), "d", "")
		must.Succeed(t, f.Rename(me, f.Root(), "d", f.Root(), "c"))
		closeIdle(f)
		f.index.walk.debt = 0
		mustRead(t, f, r, "content", "after its other name was given to another file")
	}
	t.Run("inode numbers", func(t *testing.T) {
		dir := t.TempDir()
		check(t, newFS(t, dir, Options{noKernelHandles: true}), dir)
	})
	eachUnnumbered(t, false, check)
}

// TestIdentitiesBounded: the number of identities stays within the limit, and those in use stay.
func TestIdentitiesBounded(t *testing.T) {
	const most = 8
	eachUnnumbered(t, true, func(t *testing.T, f *FS, source string) {
		f.identities.max = most
		r := createFile(t, f, f.Root(), "open", "content")
		n, err := f.acquire(&r)
		must.Succeed(t, err)
		defer f.cache.release(n)
		for i := range 50 {
			createFile(t, f, f.Root(), fmt.Sprint(i), "")
			closeIdle(f)
			mustRead(t, f, r, "content", "a file in use")
		}
		f.identities.mu.Lock()
		defer f.identities.mu.Unlock()
		if n := len(f.identities.known); n > most {
			t.Errorf("%d identities, want at most %d", n, most)
		}
	})
	var x identities
	x.init()
	x.max = most
	for generation := range uint64(2) {
		for i := range uint64(8) {
			x.replace(inodeKey{ino: i}, generation, identity{generation: generation + 1})
		}
	}
	if n := len(x.known); n != most {
		t.Errorf("%d identities after each was replaced, want %d", n, most)
	}
}

// TestIdentitiesModel: calls, and other processes below, make, write, rename, link and remove files
// at random. A handle reads its own file's content or is stale, and some handles do read.
func TestIdentitiesModel(t *testing.T) {
	eachUnnumbered(t, true, func(t *testing.T, f *FS, source string) {
		if f.Info().TimeDelta.Sec > 0 {
			return // files made at one path within a second count as one file
		}
		seed := uint64(time.Now().UnixNano())
		rnd := rand.New(rand.NewPCG(seed, 0))
		names := map[string]int{}          // the number of the file with each name
		handles := map[int]nfsserver.Ref{} // handles of files made by calls
		reads, made, content := 0, 0, func(i int) string { return fmt.Sprintf("file %d.", i) }
		for step := range 100 {
			name, to := fmt.Sprint("n", rnd.IntN(6)), fmt.Sprint("n", rnd.IntN(6))
			i, there := names[name]
			path, op := filepath.Join(source, name), rnd.IntN(8)
			below := op >= 4
			if below {
				closeIdle(f) // other processes change only files that the server does not have open
				laterTimes(t, f, source)
			}
			switch {
			case !there && below:
				must.Succeed(t, os.WriteFile(path, []byte(content(made)), 0o644))
				names[name], made = made, made+1
			case !there:
				r, _, err := f.Create(me, f.Root(), name, &nfsserver.SetAttr{Mask: nfsserver.SetMode, Mode: 0o644})
				if err == unix.EEXIST {
					continue
				}
				must.Succeed(t, err)
				_, err = f.WriteAt(me, r, []byte(content(made)), 0)
				must.Succeed(t, err)
				names[name], handles[made], made = made, r, made+1
			case op == 0:
				if f.Remove(me, f.Root(), name) == nil {
					delete(names, name)
				}
			case op == 1:
				if err := f.Rename(me, f.Root(), name, f.Root(), to); err == nil {
					names[to] = i
					if to != name {
						delete(names, name)
					}
				}
			case op == 2:
				_, _, _ = f.Lookup(me, f.Root(), name)
			case op == 3:
				closeIdle(f)
			case op == 4:
				must.Succeed(t, os.Remove(path))
				delete(names, name)
			case op == 5:
				must.Succeed(t, os.Rename(path, filepath.Join(source, to)))
				names[to] = i
				if to != name {
					delete(names, name)
				}
			case op == 6:
				file, err := os.OpenFile(path, os.O_WRONLY|os.O_APPEND, 0)
				must.Succeed(t, err)
				_, err = file.WriteString("+")
				must.Succeed(t, err, file.Close())
			case op == 7:
				must.Succeed(t, os.Chmod(path, 0o600|os.FileMode(rnd.IntN(2))*0o44))
			}
			for i, r := range handles {
				b := make([]byte, 512)
				n, err := f.ReadAt(me, r, b, 0)
				if err == nil && bytes.HasPrefix(b[:n], []byte(content(i))) {
					reads++
				} else if !isStale(err) && !errors.Is(err, nfsserver.ErrBusy) {
					t.Fatalf("seed %d, step %d: the handle of %q reads %q, %v", seed, step, content(i), b[:n], err)
				}
			}
		}
		if reads == 0 {
			t.Errorf("seed %d: no handle was read", seed)
		}
	})
}

// TestOtherNumberIsAnotherFile: refreshing cached attributes shows another number. The file then is
// not the one with the recorded times, even if its times are the same.
func TestOtherNumberIsAnotherFile(t *testing.T) {
	dir := t.TempDir()
	f := newFS(t, dir, Options{})
	write(t, "now at the path", dir, "file")
	fd, err := unix.Open(filepath.Join(dir, "file"), unix.O_PATH, 0)
	must.Succeed(t, err)
	defer unix.Close(fd)
	var now unix.Stat_t
	must.Succeed(t, fstat(fd, &now))
	noted := identity{ctime: now.Ctim.Nano(), atime: now.Atim.Nano()}
	for ino, want := range map[uint64]bool{now.Ino: true, now.Ino + 1: false} {
		cached := unix.Stat_t{Ino: ino} // attributes from before the recorded times
		if got, err := f.isSame(fd, inodeKey{ino: ino}, noted, &cached); err != nil || got != want {
			t.Errorf("got same file %t, %v of number %d for %d, want %t", got, err, now.Ino, ino, want)
		}
	}
}
