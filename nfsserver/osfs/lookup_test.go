// LOOKUP without waiting: its results, and the cases that it refuses.

package osfs

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/nfsrdma/nfsrdma/nfsserver"
	"github.com/nfsrdma/nfsrdma/test/must"
)

// TestLookupInUse: for open files and permitted callers, LookupInUse returns the same as Lookup,
// after any change of the name.
func TestLookupInUse(t *testing.T) {
	for place, base := range places(t) {
		t.Run(place, func(t *testing.T) { lookupInUse(t, tempDir(t, base)) })
	}
}

func lookupInUse(t *testing.T, dir string) {
	for _, name := range []string{"a", "b"} {
		must.Succeed(t, os.WriteFile(filepath.Join(dir, name), []byte(name), 0o644))
	}
	must.Succeed(t, os.Chmod(dir, 0o700))
	f := newFS(t, dir, Options{})
	if !f.byName {
		return
	}
	neverSweeps(f)
	// generations of files just made are not cached yet
	time.Sleep(f.gens.SettlesIn() + 20*time.Millisecond)
	find := func(c nfsserver.Cred, name string) (nfsserver.Ref, nfsserver.Attr, bool) {
		_, err := f.Getattr(f.Root()) // as the LOOKUP procedure does
		must.Succeed(t, err)
		return f.LookupInUse(c, f.Root(), name)
	}
	if _, _, ok := find(me, "a"); ok {
		t.Fatal("found in a directory that the caller was not allowed to search yet")
	}
	refs := make(map[string]nfsserver.Ref)
	for _, name := range []string{"a", "b"} {
		ref, attr, err := f.Lookup(me, f.Root(), name)
		must.Succeed(t, err)
		refs[name] = ref
		got, at, ok := find(me, name)
		if !ok {
			t.Fatalf("%s is not found", name)
		}
		if got != ref || at != attr {
			t.Fatalf("%s: got %x %+v, Lookup returns %x %+v", name, got.Bytes(), at, ref.Bytes(), attr)
		}
	}
	for _, name := range []string{"none", ".", "..", string(make([]byte, 300))} {
		if _, _, ok := find(me, name); ok {
			t.Errorf("%q is found", name)
		}
	}
	if _, _, ok := find(nfsserver.Cred{UID: 4711, GID: 4711}, "a"); ok {
		t.Error("found by a caller who was not allowed to search")
	}
	// not every file system changes the ctime here
	must.Succeed(t, os.Rename(filepath.Join(dir, "b"), filepath.Join(dir, "a")))
	_, err := f.Getattr(refs["b"])
	must.Succeed(t, err)
	if got, _, ok := find(me, "a"); ok && got != refs["b"] {
		t.Errorf("a is found as %x after it has become the name of another file", got.Bytes())
	}
	if _, _, ok := find(me, "b"); ok {
		t.Error("b is found after it was renamed")
	}
	f.cache.closeAll()
	if _, _, ok := f.LookupInUse(me, f.Root(), "a"); ok {
		t.Error("found in a directory that is not open")
	}
}
