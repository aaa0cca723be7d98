// Refs after restarts and changes by others, and open descriptors.

package osfs

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/nfsrdma/nfsrdma/nfsserver"
	"github.com/nfsrdma/nfsrdma/test/must"
)

func mustStale(t *testing.T, f *FS, r nfsserver.Ref, what string) {
	t.Helper()
	if _, err := f.Getattr(r); !errors.Is(err, nfsserver.ErrStale) && !errors.Is(err, syscall.ESTALE) {
		t.Errorf("%s: %v, want stale", what, err)
	}
}

func TestRestart(t *testing.T) {
	for name, base := range places(t) {
		t.Run(name, func(t *testing.T) {
			bothKinds(t, func(t *testing.T, o Options) {
				dir := tempDir(t, base)
				f := newFS(t, dir, o)
				at := f.Root()
				for i := range 5 {
					var err error
					at, _, err = f.Mkdir(me, at, fmt.Sprint("d", i), &nfsserver.SetAttr{})
					must.Succeed(t, err)
				}
				r, _, err := f.Create(me, at, "f", &nfsserver.SetAttr{})
				must.Succeed(t, err)
				gone, _, err := f.Create(me, f.Root(), "gone", &nfsserver.SetAttr{})
				must.Succeed(t, err)
				must.Succeed(t, second(f.WriteAt(me, r, []byte("content"), 0)))
				f.Close()
				must.Succeed(t, errors.Join(os.Rename(filepath.Join(dir, "d0", "d1"), filepath.Join(dir, "moved")), os.Remove(filepath.Join(dir, "gone"))))
				g := newFS(t, dir, o)
				b := make([]byte, 10)
				if n, err := g.ReadAt(me, r, b, 0); err != nil || string(b[:n]) != "content" {
					t.Errorf("after a restart: %q, %v", b[:n], err)
				}
				if found, _, err := g.Lookup(me, at, "f"); err != nil || found != r {
					t.Errorf("Lookup after a restart: another Ref, or %v", err)
				}
				mustStale(t, g, gone, "a file removed meanwhile")
				// another file may get the same inode number
				for i := range 200 {
					must.Succeed(t, os.WriteFile(filepath.Join(dir, fmt.Sprint("new", i)), nil, 0o600))
				}
				mustStale(t, g, gone, "a file removed meanwhile, its number perhaps used again")
			})
		})
	}
}

// TestRemovedBehindOurBack: if another process removes an open file, the file's handle is stale and
// the file is closed.
func TestRemovedBehindOurBack(t *testing.T) {
	bothKinds(t, func(t *testing.T, o Options) {
		dir := t.TempDir()
		f := newFS(t, dir, o)
		r, _, err := f.Create(me, f.Root(), "a", &nfsserver.SetAttr{})
		must.Succeed(t, err)
		must.Succeed(t, os.Remove(filepath.Join(dir, "a")))
		mustStale(t, f, r, "removed while open")
		if n := f.cache.get(&r); n != nil {
			t.Error("a file that is gone is still open")
		}
	})
}

// openFDs returns how many descriptors the process has, except pipes. Pipes used by splice are
// closed half a second later, perhaps during another test.
func openFDs(t *testing.T) (count int) {
	t.Helper()
	list, err := os.ReadDir("/proc/self/fd")
	must.Succeed(t, err)
	for _, e := range list {
		if to, _ := os.Readlink("/proc/self/fd/" + e.Name()); !strings.HasPrefix(to, "pipe:") {
			count++
		}
	}
	return count
}

// TestDescriptors: the cache stays within its limit, and Close closes all descriptors.
func TestDescriptors(t *testing.T) {
	bothKinds(t, func(t *testing.T, o Options) {
		dir := t.TempDir()
		before := openFDs(t)
		o.CacheFiles = 32
		f, err := New(dir, o)
		must.Succeed(t, err)
		for i := range 300 {
			r, _, err := f.Create(me, f.Root(), fmt.Sprint(i), &nfsserver.SetAttr{Mask: nfsserver.SetMode, Mode: 0o600})
			must.Succeed(t, err)
			must.Succeed(t, second(f.WriteAt(me, r, []byte("x"), 0)))
		}
		for i := range 300 {
			r, _, err := f.Lookup(me, f.Root(), fmt.Sprint(i))
			must.Succeed(t, err)
			b := make([]byte, 1)
			if n, err := f.ReadAt(me, r, b, 0); n != 1 || err != nil {
				t.Fatalf("ReadAt: %d %v", n, err)
			}
			must.Succeed(t, second(f.WriteAt(me, r, b, 1)))
		}
		if n := openFDs(t) - before; n > 3*32+3*maxQueuedFlushes+8 {
			t.Errorf("%d descriptors with a limit of 32 files", n)
		}
		must.Succeed(t, f.Close())
		// there may be fewer, because files of earlier tests are closed meanwhile
		if n := openFDs(t); n > before {
			t.Errorf("%d descriptors after Close, %d before New", n, before)
		}
	})
}

func TestNewErrors(t *testing.T) {
	file := filepath.Join(t.TempDir(), "f")
	must.Succeed(t, os.WriteFile(file, nil, 0o600))
	for _, dir := range []string{file, filepath.Join(file, "x"), filepath.Join(t.TempDir(), "nothing"), ""} {
		if f, err := New(dir, Options{}); err == nil {
			f.Close()
			t.Errorf("New(%q): no error", dir)
		}
	}
}
