// osfs never leaves its directory, for any request, and while other processes change it.

package osfs

import (
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/nfsrdma/nfsrdma/nfsserver"
	"github.com/nfsrdma/nfsrdma/test/must"
)

// bothKinds runs a test with kernel handles and without.
func bothKinds(t *testing.T, test func(t *testing.T, o Options)) {
	for kind, o := range map[string]Options{"kernel": {}, "inode": {noKernelHandles: true}} {
		t.Run(kind, func(t *testing.T) { test(t, o) })
	}
}

func TestEscape(t *testing.T) {
	bothKinds(t, func(t *testing.T, o Options) {
		top := t.TempDir()
		secret := filepath.Join(top, "secret")
		must.Succeed(t, os.WriteFile(secret, []byte("secret"), 0o644), os.MkdirAll(filepath.Join(top, "export", "d"), 0o755),
			os.Symlink("..", filepath.Join(top, "export", "up")), os.Symlink(secret, filepath.Join(top, "export", "there")))
		f := newFS(t, filepath.Join(top, "export"), o)
		if r, _, err := f.Lookup(me, f.Root(), ".."); err != nil || r != f.Root() {
			t.Errorf(".. of the root: %v", err)
		}
		d, _, err := f.Lookup(me, f.Root(), "d")
		must.Succeed(t, err)
		for _, name := range []string{"up", "there"} {
			r, a, err := f.Lookup(me, f.Root(), name)
			if err != nil || a.Type != nfsserver.TypeSymlink {
				t.Fatalf("Lookup %s: %v %v", name, a.Type, err)
			}
			if _, _, err := f.Lookup(me, r, "secret"); !errors.Is(err, syscall.ENOTDIR) {
				t.Errorf("Lookup through %s: %v", name, err)
			}
			if _, err := f.ReadAt(me, r, make([]byte, 10), 0); !errors.Is(err, syscall.EINVAL) {
				t.Errorf("ReadAt through %s: %v", name, err)
			}
			if _, _, err := f.Create(me, f.Root(), name, &nfsserver.SetAttr{}); !errors.Is(err, syscall.EEXIST) {
				t.Errorf("Create through %s: %v", name, err)
			}
			if err := f.Setattr(me, r, &nfsserver.SetAttr{Mask: nfsserver.SetMode | nfsserver.SetMtime, Mode: 0o777}); err != nil {
				t.Errorf("Setattr of %s: %v", name, err)
			}
			if err := f.Setattr(me, r, &nfsserver.SetAttr{Mask: nfsserver.SetSize}); err == nil {
				t.Errorf("truncate through %s", name)
			}
		}
		st, err := os.Stat(secret)
		must.Succeed(t, err)
		if st.Mode().Perm() != 0o644 || st.Size() != 6 {
			t.Errorf("the file outside was changed: got mode %o, %d bytes, want 644, 6", st.Mode().Perm(), st.Size())
		}
		if st.ModTime().Unix() == 0 {
			t.Error("the mtime of the file outside was changed")
		}
		// another process moves a directory out of the export while a client has its handle
		must.Succeed(t, os.Rename(filepath.Join(top, "export", "d"), filepath.Join(top, "d")))
		if r, _, err := f.Lookup(me, d, ".."); err == nil {
			t.Errorf(".. of what was moved out leads to %x", r.Bytes())
		}
	})
}

// TestSwap: a name that becomes a symbolic link between two calls is not followed.
func TestSwap(t *testing.T) {
	bothKinds(t, func(t *testing.T, o Options) {
		dir := t.TempDir()
		f := newFS(t, dir, o)
		r, _, err := f.Create(me, f.Root(), "f", &nfsserver.SetAttr{Mask: nfsserver.SetMode, Mode: 0o644})
		must.Succeed(t, err)
		outside := filepath.Join(t.TempDir(), "outside")
		must.Succeed(t, os.WriteFile(outside, nil, 0o644), os.Rename(filepath.Join(dir, "f"), filepath.Join(dir, "g")),
			os.Symlink(outside, filepath.Join(dir, "f")))
		f.cache.closeAll()
		if _, err := f.WriteAt(me, r, []byte("x"), 0); err != nil {
			t.Errorf("WriteAt of what was moved: %v", err)
		}
		if st, err := os.Stat(outside); err != nil || st.Size() != 0 {
			t.Error("written through a symbolic link")
		}
		if st, err := os.Stat(filepath.Join(dir, "g")); err != nil || st.Size() != 1 {
			t.Error("not written where the file is")
		}
	})
}
