// Listings with attributes, also while names change.

package osfs

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"sync"
	"testing"

	"github.com/nfsrdma/nfsrdma/nfsserver"
	"github.com/nfsrdma/nfsrdma/test/must"
	"golang.org/x/sys/unix"
)

// listPlus lists a directory with attributes, in pages of n entries.
func listPlus(t *testing.T, f *FS, dir nfsserver.Ref, n int, emit func(*nfsserver.Dirent)) {
	t.Helper()
	var cookie uint64
	for {
		left := n
		eof, err := f.ReadDir(me, dir, cookie, true, func(de *nfsserver.Dirent) bool {
			if left--; left < 0 {
				return false
			}
			cookie = de.Cookie
			emit(de)
			return true
		})
		must.Succeed(t, err)
		if eof {
			return
		}
	}
}

// TestEntriesAreWhatLookupFinds: an entry has the handle and attributes of its file, on every file
// system.
func TestEntriesAreWhatLookupFinds(t *testing.T) {
	eachFS(t, func(t *testing.T, k *fsKind, mnt string, _ func()) {
		for i, o := range []Options{{}, {noKernelHandles: true}, {SubtreeCheck: true}, {CrossMounts: true}} {
			dir := filepath.Join(mnt, fmt.Sprint("list", i))
			must.Succeed(t, os.Mkdir(dir, 0o755))
			for j := range 50 {
				must.Succeed(t, os.WriteFile(filepath.Join(dir, fmt.Sprint("f", j)), make([]byte, j), 0o640))
			}
			must.Succeed(t, os.Mkdir(filepath.Join(dir, "d"), 0o700))
			if k.posix {
				must.Succeed(t, os.Symlink("f1", filepath.Join(dir, "l")))
				must.Succeed(t, unix.Mkfifo(filepath.Join(dir, "p"), 0o600))
				must.Succeed(t, os.Link(filepath.Join(dir, "f1"), filepath.Join(dir, "hard")))
			}
			f := newFS(t, dir, o)
			entries := 0
			listPlus(t, f, f.Root(), 1000, func(de *nfsserver.Dirent) {
				name := string(de.Name)
				if name == "." || name == ".." {
					return
				}
				entries++
				ref, attr, err := f.Lookup(me, f.Root(), name)
				if err != nil {
					t.Errorf("%+v: look up %s: %v", o, name, err)
				}
				want := nfsserver.Dirent{Name: de.Name, Cookie: de.Cookie, Ref: ref, Attr: attr, Fileid: attr.Fileid, HasAttr: true}
				if !reflect.DeepEqual(*de, want) {
					t.Errorf("%+v: listed as %+v, want %+v", o, *de, want)
				}
			})
			on, err := os.ReadDir(dir)
			if err != nil || entries != len(on) {
				t.Errorf("%d entries of %d, %v", entries, len(on), err)
			}
			f.Close()
		}
	})
}

// TestPagesOfAListing: in pages of any size, each name comes once and has attributes.
func TestPagesOfAListing(t *testing.T) {
	const files = 2500 // several buffers of the kernel's entries
	dir := t.TempDir()
	for i := range files {
		must.Succeed(t, os.WriteFile(filepath.Join(dir, fmt.Sprint("a name ", i)), nil, 0o600))
	}
	f := newFS(t, dir, Options{})
	for _, n := range []int{1, 16, 300, files + 10} {
		if n == 1 && testing.Short() {
			continue
		}
		seen := make(map[string]int)
		listPlus(t, f, f.Root(), n, func(de *nfsserver.Dirent) {
			seen[string(de.Name)]++
			if !de.HasAttr && string(de.Name) != ".." {
				t.Errorf("%s has no attributes", de.Name)
			}
		})
		for name, times := range seen {
			if times != 1 {
				t.Errorf("pages of %d: %q comes %d times", n, name, times)
			}
		}
		if len(seen) != files+2 {
			t.Errorf("pages of %d: %d names", n, len(seen))
		}
	}
}

// TestEntryOfAChangingName: while a name changes its file, an entry always has the handle and
// attributes of the same file.
func TestEntryOfAChangingName(t *testing.T) {
	for name, base := range places(t) {
		t.Run(name, func(t *testing.T) {
			dir := tempDir(t, base)
			const pairs = 8
			for i := range 2 * pairs {
				must.Succeed(t, os.WriteFile(filepath.Join(dir, fmt.Sprint(i)), make([]byte, i), 0o600))
			}
			f := newFS(t, dir, Options{})
			var stop sync.WaitGroup
			done := make(chan struct{})
			for range 2 {
				stop.Go(func() {
					for i := 0; ; i = (i + 2) % (2 * pairs) {
						select {
						case <-done:
							return
						default:
						}
						a, b := filepath.Join(dir, fmt.Sprint(i)), filepath.Join(dir, fmt.Sprint(i+1))
						unix.Renameat2(unix.AT_FDCWD, a, unix.AT_FDCWD, b, unix.RENAME_EXCHANGE)
					}
				})
			}
			for range 2000 {
				listPlus(t, f, f.Root(), 1000, func(de *nfsserver.Dirent) {
					if !de.HasAttr {
						return
					}
					attr, err := f.Getattr(de.Ref)
					if errors.Is(err, nfsserver.ErrStale) {
						return
					}
					if err != nil || attr.Fileid != de.Fileid {
						t.Errorf("%s: listed with number %d, its handle has number %d, %v", de.Name, de.Fileid, attr.Fileid, err)
					}
					if attr.Size != de.Attr.Size && attr.Type == nfsserver.TypeReg {
						t.Errorf("%s: listed with %d bytes, its handle has %d", de.Name, de.Attr.Size, attr.Size)
					}
				})
				if t.Failed() {
					break
				}
			}
			close(done)
			stop.Wait()
		})
	}
}
