// File systems mounted inside an export: hidden, or served as separate file systems.

package osfs

import (
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nfsrdma/nfsrdma/nfsserver"
	"github.com/nfsrdma/nfsrdma/test/machine"
	"github.com/nfsrdma/nfsrdma/test/must"
	"golang.org/x/sys/unix"
)

// list returns a directory's entries by name.
func list(t *testing.T, f *FS, dir nfsserver.Ref) map[string]nfsserver.Dirent {
	t.Helper()
	all := map[string]nfsserver.Dirent{}
	_, err := f.ReadDir(me, dir, 0, true, func(de *nfsserver.Dirent) bool {
		e := *de
		e.Name = nil
		all[string(de.Name)] = e
		return true
	})
	must.Succeed(t, err)
	return all
}

// TestMountsAreNotCrossed: a file system is mounted in the export. Clients see the directory under
// it, whenever and however it was mounted, and the machine can unmount it.
func TestMountsAreNotCrossed(t *testing.T) {
	machine.NeedRoot(t, "mounts, real file systems and other users: needs root")
	bothKinds(t, func(t *testing.T, o Options) {
		top := t.TempDir()
		mountOn(t, top, "-t", "tmpfs", "tmpfs")
		must.Succeed(t, unix.Mount("", top, "", unix.MS_SHARED, "")) // as systemd makes all mounts
		dir := filepath.Join(top, "export")
		write(t, "secret", top, "outside", "secret")
		for _, name := range []string{"before", "bind", "after"} {
			write(t, "under", dir, name, "under")
		}
		mountOn(t, filepath.Join(dir, "before"), "-t", "tmpfs", "tmpfs")
		mountOn(t, filepath.Join(dir, "bind"), "--bind", filepath.Join(top, "outside"))
		f := newFS(t, dir, o)
		mountOn(t, filepath.Join(dir, "after"), "-t", "tmpfs", "tmpfs")
		write(t, "secret", dir, "before", "secret")
		write(t, "secret", dir, "after", "secret")
		root, err := f.Getattr(f.Root())
		must.Succeed(t, err)
		all := list(t, f, f.Root())
		for _, name := range []string{"before", "bind", "after"} {
			d, a, err := f.Lookup(me, f.Root(), name)
			must.Succeed(t, err)
			if a.Fsid != root.Fsid {
				t.Errorf("%s: got fsid %x, want the root's, %x", name, a.Fsid, root.Fsid)
			}
			if a.Fileid != all[name].Fileid || all[name].Ref != d {
				t.Errorf("%s: got fileid %d, Ref %x; listed as %+v", name, a.Fileid, d.Bytes(), all[name])
			}
			if _, _, err := f.Lookup(me, d, "secret"); !errors.Is(err, syscall.ENOENT) {
				t.Errorf("%s/secret: %v", name, err)
			}
			if _, ok := list(t, f, d)["under"]; !ok {
				t.Errorf("%s does not list what lies under the mount", name)
			}
			r, _, err := f.Lookup(me, d, "under")
			must.Succeed(t, err)
			if _, err := f.WriteAt(me, r, []byte("UNDER"), 0); err != nil {
				t.Errorf("WriteAt %s/under: %v", name, err)
			}
			if err := f.Rmdir(me, f.Root(), name); !errors.Is(err, syscall.EBUSY) {
				t.Errorf("Rmdir of mount point %s: %v", name, err)
			}
			// files that f has open do not prevent the unmount
			must.Succeed(t, unix.Unmount(filepath.Join(dir, name), 0))
			if b, err := os.ReadFile(filepath.Join(dir, name, "under")); string(b) != "UNDER" {
				t.Errorf("%s/under: %q, %v", name, b, err)
			}
		}
		// the export itself stays busy
		if err := unix.Unmount(top, 0); !errors.Is(err, unix.EBUSY) {
			t.Errorf("unmounting the export: %v, want EBUSY", err)
		}
	})
}

// TestMountsWithoutPrivilege: a server that cannot make a private mount lists mount points, and
// refuses to enter them.
func TestMountsWithoutPrivilege(t *testing.T) {
	machine.NeedRoot(t, "mounts, real file systems and other users: needs root")
	copyMount = func(int) (int, error) { return -1, unix.EPERM }
	t.Cleanup(func() { copyMount = privateMount })
	bothKinds(t, func(t *testing.T, o Options) {
		dir := t.TempDir()
		write(t, "under", dir, "m", "under")
		write(t, "plain", dir, "d", "plain")
		f := newFS(t, dir, o)
		under, _, err := f.Lookup(me, f.Root(), "m")
		must.Succeed(t, err)
		mountOn(t, filepath.Join(dir, "m"), "-t", "tmpfs", "tmpfs")
		write(t, "secret", dir, "m", "secret")
		if _, _, err := f.Lookup(me, f.Root(), "m"); !errors.Is(err, syscall.EACCES) {
			t.Errorf("Lookup of a mount point: %v", err)
		}
		all := list(t, f, f.Root())
		if e, ok := all["m"]; !ok || e.HasAttr {
			t.Errorf("a mount point is listed as %+v", e)
		}
		if e := all["d"]; !e.HasAttr {
			t.Errorf("a directory is listed as %+v", e)
		}
		// a handle from before the mount leads to the directory under it
		if _, _, err := f.Lookup(me, under, "secret"); !errors.Is(err, syscall.ENOENT) {
			t.Errorf("secret by the handle of the directory under the mount: %v", err)
		}
		f.cache.closeAll()
		if _, _, err := f.Lookup(me, under, "secret"); err == nil {
			t.Error("secret by the handle, opened anew, of the directory under the mount")
		}
		if d, _, err := f.Lookup(me, f.Root(), "d"); err != nil {
			t.Errorf("look up d: %v", err)
		} else if up, _, err := f.Lookup(me, d, ".."); err != nil || up != f.Root() {
			t.Errorf("d/..: %v", err)
		}
	})
}

// TestMountsAreCrossed: with CrossMounts, clients see mounts as separate file systems.
func TestMountsAreCrossed(t *testing.T) {
	machine.NeedRoot(t, "mounts, real file systems and other users: needs root")
	bothKinds(t, func(t *testing.T, o Options) {
		o.CrossMounts = true
		top := t.TempDir()
		mountOn(t, top, "-t", "tmpfs", "tmpfs")
		dir := filepath.Join(top, "export")
		write(t, "bound", top, "outside", "file")
		write(t, "file", dir, "file")
		mountOn(t, filepath.Join(dir, "tmp"), "-t", "tmpfs", "-o", "size=1M", "tmpfs")
		mountOn(t, filepath.Join(dir, "bind mount"), "--bind", filepath.Join(top, "outside"))
		write(t, "inner", dir, "tmp", "sub", "file")
		synctest.Test(t, func(t *testing.T) {
			f := newFS(t, dir, o)
			before := openFDs(t)
			root, err := f.Getattr(f.Root())
			must.Succeed(t, err)
			tmp, a, err := f.Lookup(me, f.Root(), "tmp")
			must.Succeed(t, err)
			if a.Fsid == root.Fsid {
				t.Error("a mounted file system has the fsid of the export")
			}
			room, err := f.Statfs(tmp)
			must.Succeed(t, err)
			if room.TotalBytes != 1<<20 {
				t.Errorf("its room is %d bytes, not its own 1 MiB", room.TotalBytes)
			}
			if up, _, err := f.Lookup(me, tmp, ".."); err != nil || up != f.Root() {
				t.Errorf("tmp/..: %v", err)
			}
			checkMountEntries(t, f, tmp, root.Fileid, a.Fileid)
			sub, _, err := f.Lookup(me, tmp, "sub")
			must.Succeed(t, err)
			inner, _, err := f.Lookup(me, sub, "file")
			must.Succeed(t, err)
			bind, _, err := f.Lookup(me, f.Root(), "bind mount")
			must.Succeed(t, err)
			bound, _, err := f.Lookup(me, bind, "file")
			must.Succeed(t, err)
			for _, to := range []nfsserver.Ref{tmp, bind} {
				if err := f.Rename(me, f.Root(), "file", to, "moved"); !errors.Is(err, syscall.EXDEV) {
					t.Errorf("Rename into a mounted file system: %v", err)
				}
				if err := f.Link(me, inner, f.Root(), "linked"); !errors.Is(err, syscall.EXDEV) {
					t.Errorf("Link out of a mounted file system: %v", err)
				}
			}
			if err := f.Rmdir(me, f.Root(), "tmp"); !errors.Is(err, syscall.EBUSY) {
				t.Errorf("Rmdir of a mount point: %v", err)
			}
			// an idle FS keeps nothing open, not even mounts, and handles find the mounts again
			for range 2 {
				time.Sleep(idleTime)
				synctest.Wait()
				if n := openFDs(t); n != before {
					t.Errorf("%d descriptors after a second of rest, %d before", n, before)
				}
				for r, want := range map[nfsserver.Ref]string{inner: "inner", bound: "bound"} {
					b := make([]byte, 10)
					if n, err := f.ReadAt(me, r, b, 0); err != nil || string(b[:n]) != want {
						t.Errorf("after a rest: %q, %v, want %q", b[:n], err, want)
					}
				}
			}
			time.Sleep(idleTime)
			synctest.Wait()
			must.Succeed(t, unix.Unmount(filepath.Join(dir, "tmp"), 0), unix.Unmount(filepath.Join(dir, "bind mount"), 0))
			mustStale(t, f, inner, "a file of what was unmounted")
			mustStale(t, f, bound, "a file of what was unmounted")
		})
	})
}

// checkMountEntries checks the fileids in listings of the root and of tmp, which is mounted in it.
func checkMountEntries(t *testing.T, f *FS, tmp nfsserver.Ref, rootID, tmpID uint64) {
	t.Helper()
	for _, plus := range []bool{false, true} {
		_, err := f.ReadDir(me, f.Root(), 0, plus, func(de *nfsserver.Dirent) bool {
			if want, ok := map[string]uint64{"tmp": tmpID, ".": rootID}[string(de.Name)]; ok && de.Fileid != want {
				t.Errorf("%s is listed with fileid %d, want %d", de.Name, de.Fileid, want)
			}
			return true
		})
		must.Succeed(t, err)
		_, err = f.ReadDir(me, tmp, 0, plus, func(de *nfsserver.Dirent) bool {
			if string(de.Name) == ".." && de.Fileid != rootID {
				t.Errorf("tmp/.. is listed with fileid %d, not the parent's %d", de.Fileid, rootID)
			}
			return true
		})
		must.Succeed(t, err)
	}
}

// TestMountsOverRestart: after a restart, handles in a mounted file system are valid, wherever it
// is mounted now. They are stale if another file system is in its place.
func TestMountsOverRestart(t *testing.T) {
	machine.NeedRoot(t, "mounts, real file systems and other users: needs root")
	bothKinds(t, func(t *testing.T, o Options) {
		o.CrossMounts = true
		dir := t.TempDir()
		must.Succeed(t, os.Mkdir(filepath.Join(dir, "a"), 0o755), os.Mkdir(filepath.Join(dir, "b"), 0o755))
		mountOn(t, filepath.Join(dir, "a"), "-t", "tmpfs", "tmpfs")
		write(t, "content", dir, "a", "file")
		f := newFS(t, dir, o)
		d, _, err := f.Lookup(me, f.Root(), "a")
		must.Succeed(t, err)
		r, _, err := f.Lookup(me, d, "file")
		must.Succeed(t, err)
		f.Close()
		run(t, "mount", "--move", filepath.Join(dir, "a"), filepath.Join(dir, "b"))
		t.Cleanup(func() { unix.Unmount(filepath.Join(dir, "b"), unix.MNT_DETACH) })
		mountOn(t, filepath.Join(dir, "a"), "-t", "tmpfs", "tmpfs")
		write(t, "secret", dir, "a", "file")
		g := newFS(t, dir, o)
		b := make([]byte, 10)
		if n, err := g.ReadAt(me, r, b, 0); err != nil || string(b[:n]) != "content" {
			t.Errorf("after a restart and a move: %q, %v", b[:n], err)
		}
		g.Close()
		must.Succeed(t, unix.Unmount(filepath.Join(dir, "b"), 0))
		g = newFS(t, dir, o)
		if n, err := g.ReadAt(me, r, b, 0); err == nil {
			t.Errorf("with another file system in its place: %q", b[:n])
		}
		mustStale(t, g, r, "a file of what is mounted no more")
	})
}
