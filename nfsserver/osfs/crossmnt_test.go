// File systems mounted inside an export: not seen.

package osfs

import (
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/nfsrdma/nfsrdma/nfsserver"
	"golang.org/x/sys/unix"
)

// list is the entries of a directory by name.
func list(t *testing.T, f *FS, dir nfsserver.Ref) map[string]nfsserver.Dirent {
	t.Helper()
	all := map[string]nfsserver.Dirent{}
	_, err := f.ReadDir(me, dir, 0, true, func(de *nfsserver.Dirent) bool {
		e := *de
		e.Name = nil
		all[string(de.Name)] = e
		return true
	})
	must(t, err)
	return all
}

// TestMountsAreNotCrossed: clients see what lies under a file system mounted in
// the export, whenever and however it was mounted, and the machine can unmount it.
func TestMountsAreNotCrossed(t *testing.T) {
	needRoot(t)
	bothKinds(t, func(t *testing.T, o Options) {
		top := t.TempDir()
		mount(t, top, "-t", "tmpfs", "tmpfs")
		must(t, unix.Mount("", top, "", unix.MS_SHARED, "")) // as systemd makes all mounts
		dir := filepath.Join(top, "export")
		write(t, "secret", top, "outside", "secret")
		for _, name := range []string{"before", "bind", "after"} {
			write(t, "under", dir, name, "under")
		}
		mount(t, filepath.Join(dir, "before"), "-t", "tmpfs", "tmpfs")
		mount(t, filepath.Join(dir, "bind"), "--bind", filepath.Join(top, "outside"))
		f := newFS(t, dir, o)
		mount(t, filepath.Join(dir, "after"), "-t", "tmpfs", "tmpfs")
		write(t, "secret", dir, "before", "secret")
		write(t, "secret", dir, "after", "secret")
		root, err := f.Getattr(f.Root())
		must(t, err)
		all := list(t, f, f.Root())
		for _, name := range []string{"before", "bind", "after"} {
			d, a, err := f.Lookup(me, f.Root(), name)
			must(t, err)
			if a.Fsid != root.Fsid || a.Fileid != all[name].Fileid || all[name].Ref != d {
				t.Errorf("%s: fsid %x, fileid %d; listed as %+v; the root's fsid is %x", name, a.Fsid, a.Fileid, all[name], root.Fsid)
			}
			if _, _, err := f.Lookup(me, d, "secret"); !errors.Is(err, syscall.ENOENT) {
				t.Errorf("%s/secret: %v", name, err)
			}
			if _, ok := list(t, f, d)["under"]; !ok {
				t.Errorf("%s does not list what lies under the mount", name)
			}
			r, _, err := f.Lookup(me, d, "under")
			must(t, err)
			if _, err := f.WriteAt(me, r, []byte("UNDER"), 0); err != nil {
				t.Errorf("WriteAt %s/under: %v", name, err)
			}
			if err := f.Rmdir(me, f.Root(), name); !errors.Is(err, syscall.EBUSY) {
				t.Errorf("Rmdir of mount point %s: %v", name, err)
			}
			// With all that open, the machine is free to unmount it.
			must(t, unix.Unmount(filepath.Join(dir, name), 0))
			if b, err := os.ReadFile(filepath.Join(dir, name, "under")); string(b) != "UNDER" {
				t.Errorf("%s/under: %q, %v", name, b, err)
			}
		}
		// The export itself is in use, and says so.
		if err := unix.Unmount(top, 0); !errors.Is(err, unix.EBUSY) {
			t.Errorf("unmounting the export: %v, want EBUSY", err)
		}
	})
}

// TestMountsWithoutPrivilege: a server that cannot have a mount of its own shows
// that there is something, and refuses to go into it.
func TestMountsWithoutPrivilege(t *testing.T) {
	needRoot(t)
	copyMount = func(int) (int, error) { return -1, unix.EPERM }
	t.Cleanup(func() { copyMount = privateMount })
	bothKinds(t, func(t *testing.T, o Options) {
		dir := t.TempDir()
		write(t, "under", dir, "m", "under")
		write(t, "plain", dir, "d", "plain")
		f := newFS(t, dir, o)
		under, _, err := f.Lookup(me, f.Root(), "m")
		must(t, err)
		mount(t, filepath.Join(dir, "m"), "-t", "tmpfs", "tmpfs")
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
		// A handle of before names the directory below.
		if _, _, err := f.Lookup(me, under, "secret"); !errors.Is(err, syscall.ENOENT) {
			t.Errorf("secret by the handle of the directory under the mount: %v", err)
		}
		f.cache.closeAll()
		if _, _, err := f.Lookup(me, under, "secret"); err == nil {
			t.Error("secret by the handle, opened anew, of the directory under the mount")
		}
		if d, _, err := f.Lookup(me, f.Root(), "d"); err != nil {
			t.Error(err)
		} else if up, _, err := f.Lookup(me, d, ".."); err != nil || up != f.Root() {
			t.Errorf("d/..: %v", err)
		}
	})
}
