// Files that are moved out of an export, with and without the subtree check.

package osfs

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/nfsrdma/nfsrdma/nfsserver"
	"github.com/nfsrdma/nfsrdma/test/must"
)

// forgetAll makes each handle open its file again at its next use.
func (f *FS) forgetAll() {
	for range checkTicks {
		f.cache.tick.Add(1)
	}
	f.cache.closeAll()
}

// TestMovedOut: handles of files moved out of an export, of files in a directory moved out, and of
// a file that has another name inside.
func TestMovedOut(t *testing.T) {
	for _, check := range []bool{false, true} {
		for _, evict := range []bool{false, true} {
			t.Run(fmt.Sprintf("check=%v,evict=%v", check, evict), func(t *testing.T) {
				bothKinds(t, func(t *testing.T, o Options) { testMovedOut(t, o, check, evict) })
			})
		}
	}
}

func testMovedOut(t *testing.T, o Options, check, evict bool) {
	o.SubtreeCheck = check
	top := t.TempDir()
	dir := filepath.Join(top, "export")
	for _, name := range []string{"d/file", "d/sub/file", "alone", "linked", "moved", "stays"} {
		write(t, name, dir, name)
	}
	must.Succeed(t, os.Link(filepath.Join(dir, "linked"), filepath.Join(dir, "other name")), os.Mkdir(filepath.Join(dir, "within"), 0o755))
	f := newFS(t, dir, o)
	refs := map[string]nfsserver.Ref{}
	look := func(at nfsserver.Ref, name, as string) nfsserver.Ref {
		r, _, err := f.Lookup(me, at, name)
		must.Succeed(t, err)
		refs[as] = r
		return r
	}
	d := look(f.Root(), "d", "d")
	look(d, "file", "d/file")
	look(look(d, "sub", "d/sub"), "file", "d/sub/file")
	for _, name := range []string{"alone", "linked", "moved", "stays"} {
		look(f.Root(), name, name)
	}
	for _, name := range []string{"d", "alone", "linked"} {
		must.Succeed(t, os.Rename(filepath.Join(dir, name), filepath.Join(top, name)))
	}
	must.Succeed(t, os.Rename(filepath.Join(dir, "moved"), filepath.Join(dir, "within", "moved")))
	for range checkTicks {
		f.cache.tick.Add(1)
	}
	if evict {
		f.forgetAll()
	}
	outside := map[string]bool{"d": true, "d/file": true, "d/sub": true, "d/sub/file": true, "alone": true}
	for name, r := range refs {
		_, err := f.Getattr(r)
		byPath := o.noKernelHandles && evict // a walk finds nothing outside
		switch {
		case outside[name] && (check || byPath) && !errors.Is(err, nfsserver.ErrStale):
			t.Errorf("%s, moved out: %v, want stale", name, err)
		case (!outside[name] || !check && !byPath) && err != nil:
			t.Errorf("%s: %v", name, err)
		}
	}
	// the handles are valid again once the files are back inside
	must.Succeed(t, os.Rename(filepath.Join(top, "d"), filepath.Join(dir, "back")))
	for _, name := range []string{"d", "d/file", "d/sub/file"} {
		if _, err := f.Getattr(refs[name]); err != nil {
			t.Errorf("%s, moved back: %v", name, err)
		}
	}
}

// BenchmarkConfine measures one subtree check, which each object in use has about once a second.
func BenchmarkConfine(b *testing.B) {
	for _, depth := range []int{1, 8} {
		for _, kind := range []string{"file", "dir"} {
			b.Run(fmt.Sprintf("%s/depth=%d", kind, depth), func(b *testing.B) {
				f, err := New(b.TempDir(), Options{SubtreeCheck: true})
				must.Succeed(b, err)
				defer f.Close()
				at := f.Root()
				for range depth - 1 {
					at, _, err = f.Mkdir(me, at, "d", &nfsserver.SetAttr{})
					must.Succeed(b, err)
				}
				if kind == "dir" {
					at, _, err = f.Mkdir(me, at, "d", &nfsserver.SetAttr{})
				} else {
					at, _, err = f.Create(me, at, "f", &nfsserver.SetAttr{})
				}
				must.Succeed(b, err)
				n, err := f.acquire(&at)
				must.Succeed(b, err)
				defer f.cache.release(n)
				for b.Loop() {
					n.proven.Store(0)
					if err := f.confine(n); err != nil {
						b.Fatalf("in the loop: %v", err)
					}
				}
			})
		}
	}
}

// BenchmarkGetattr measures GETATTR in the steady state, with and without the subtree check.
func BenchmarkGetattr(b *testing.B) {
	for _, check := range []bool{false, true} {
		b.Run(fmt.Sprintf("check=%v", check), func(b *testing.B) {
			f, err := New(b.TempDir(), Options{SubtreeCheck: check})
			must.Succeed(b, err)
			defer f.Close()
			r, _, err := f.Create(me, f.Root(), "f", &nfsserver.SetAttr{})
			must.Succeed(b, err)
			b.ReportAllocs()
			for b.Loop() {
				if _, err := f.Getattr(r); err != nil {
					b.Fatalf("in the loop: %v", err)
				}
			}
		})
	}
}
