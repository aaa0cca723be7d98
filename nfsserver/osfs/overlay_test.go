// Overlays: files copied to the upper layer, directories merged from several layers, and layers on
// different file systems.

package osfs

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nfsrdma/nfsrdma/nfsserver"
	"github.com/nfsrdma/nfsrdma/test/machine"
	"github.com/nfsrdma/nfsrdma/test/must"
	"golang.org/x/sys/unix"
)

// eachOverlay runs a test on each overlay in the matrix. lower is the overlay's lower layer, which
// may be changed before remount.
func eachOverlay(t *testing.T, test func(t *testing.T, lower, dir string, remount func())) {
	eachFS(t, func(t *testing.T, k *fsKind, dir string, remount func()) {
		if k.isOverlay() {
			test(t, filepath.Join(filepath.Dir(dir), "base", "lower"), dir, remount)
		}
	})
}

// TestCopyUp: a change through the server copies a file from a lower layer to the upper one. The
// file keeps its handle, also after eviction, and gets no second handle.
func TestCopyUp(t *testing.T) {
	eachOverlay(t, func(t *testing.T, lower, dir string, remount func()) {
		changes := map[string]func(f *FS, r nfsserver.Ref, name string) error{
			"write": func(f *FS, r nfsserver.Ref, _ string) error {
				_, err := f.WriteAt(me, r, []byte("W"), 0)
				return err
			},
			"chmod": func(f *FS, r nfsserver.Ref, _ string) error {
				return f.Setattr(me, r, &nfsserver.SetAttr{Mask: nfsserver.SetMode, Mode: 0o600})
			},
			"rename": func(f *FS, r nfsserver.Ref, name string) error { return f.Rename(me, f.Root(), name, f.Root(), name) },
			"move": func(f *FS, r nfsserver.Ref, name string) error {
				return f.Rename(me, f.Root(), name, f.Root(), name+"2")
			},
			"link": func(f *FS, r nfsserver.Ref, name string) error { return f.Link(me, r, f.Root(), name+"2") },
		}
		for name := range changes {
			write(t, name, lower, name)
		}
		remount()
		f := newFS(t, dir, Options{})
		for name, change := range changes {
			r, before, err := f.Lookup(me, f.Root(), name)
			must.Succeed(t, err)
			if name == "move" || name == "rename" {
				f.cache.closeAll() // so the file is not open during the change
			}
			must.Succeed(t, change(f, r, name))
			if name == "move" {
				name = "move2"
			}
			for _, when := range []string{"at once", "after eviction"} {
				again, _, err := f.Lookup(me, f.Root(), name)
				must.Succeed(t, err)
				if again != r {
					t.Errorf("%s, %s: a second handle", name, when)
				}
				a, err := f.Getattr(r)
				must.Succeed(t, err)
				if a.Fileid != before.Fileid || a.Fsid != before.Fsid {
					t.Errorf("%s, %s: got fileid %d, fsid %x, want %d, %x", name, when, a.Fileid, a.Fsid, before.Fileid, before.Fsid)
				}
				f.cache.closeAll()
				f.flush.done.Wait()
			}
		}
	})
}

// TestRemovedMergedDirectory: a directory in several layers is removed: by the server, by others,
// or by a rename over it. Its link count is not 0, but its handle is stale, and nothing can be
// created in it.
func TestRemovedMergedDirectory(t *testing.T) {
	eachOverlay(t, func(t *testing.T, lower, dir string, remount func()) {
		const alive = "alive (deleted)" // the kernel's mark for a removed directory
		names := []string{"removed", "others", "replaced", alive}
		for _, name := range names {
			write(t, "x", lower, name, "x")
		}
		remount()
		f := newFS(t, dir, Options{})
		refs := map[string]nfsserver.Ref{}
		for _, name := range names {
			write(t, "y", dir, name, "y") // makes the directory in the upper layer too
			d, a, err := f.Lookup(me, f.Root(), name)
			must.Succeed(t, err)
			if a.Nlink == 0 {
				t.Fatalf("%s: no links", name)
			}
			refs[name] = d
			if name != alive {
				must.Succeed(t, f.Remove(me, d, "x"), f.Remove(me, d, "y"))
			}
		}
		must.Succeed(t, f.Rmdir(me, f.Root(), "removed"), os.Remove(filepath.Join(dir, "others")))
		_, _, err := f.Mkdir(me, f.Root(), "new", &nfsserver.SetAttr{Mask: nfsserver.SetMode, Mode: 0o755})
		must.Succeed(t, err)
		must.Succeed(t, f.Rename(me, f.Root(), "new", f.Root(), "replaced"))
		f.cache.tick.Add(1)
		for _, name := range names {
			_, err := f.Getattr(refs[name])
			_, _, err2 := f.Create(me, refs[name], "z", &nfsserver.SetAttr{})
			_, _, err3 := f.Mkdir(me, refs[name], "d", &nfsserver.SetAttr{})
			for what, err := range map[string]error{"Getattr": err, "Create": err2, "Mkdir": err3} {
				stale := errors.Is(err, nfsserver.ErrStale) || errors.Is(err, unix.ESTALE)
				if err != nil && !stale {
					t.Errorf("%s: %s: %v", name, what, err)
				}
				if want := name != alive; stale != want {
					t.Errorf("%s: %s: stale %v, want %v", name, what, stale, want)
				}
			}
		}
		f.Close()
	})
}

// TestMadeInRemovedDirectory: a directory was removed since its last check. Creating a name in it
// shows the removal at once.
func TestMadeInRemovedDirectory(t *testing.T) {
	eachOverlay(t, func(t *testing.T, lower, dir string, remount func()) {
		write(t, "x", lower, "d", "x")
		remount()
		f := newFS(t, dir, Options{})
		file := createFile(t, f, f.Root(), "f", "")
		for what, mk := range map[string]func(d nfsserver.Ref) error{
			"Create": func(d nfsserver.Ref) error { return third(f.Create(me, d, "n", &nfsserver.SetAttr{})) },
			"Mkdir":  func(d nfsserver.Ref) error { return third(f.Mkdir(me, d, "n", &nfsserver.SetAttr{})) },
			"Link":   func(d nfsserver.Ref) error { return f.Link(me, file, d, "n") },
		} {
			must.Succeed(t, os.MkdirAll(filepath.Join(dir, "d"), 0o755))
			d, _, err := f.Lookup(me, f.Root(), "d")
			must.Succeed(t, err)
			_, err = f.Getattr(d)
			must.Succeed(t, err)
			must.Succeed(t, os.RemoveAll(filepath.Join(dir, "d")))
			if err := mk(d); !errors.Is(err, nfsserver.ErrStale) {
				t.Errorf("%s: %v", what, err)
			}
		}
		f.Close()
	})
}

func third[A, B, C any](_ A, _ B, c C) C { return c }

// TestLayersApart: if an overlay has no inode numbers of its own for directories, this is
// recognized, with and without files in it.
func TestLayersApart(t *testing.T) {
	machine.NeedRoot(t, "mounts, real file systems and other users: needs root", "mkfs.ext4")
	for _, k := range []struct {
		option      string
		disks, want bool
	}{{"", true, true}, {exported, true, true}, {",xino=on", true, false}, {"", false, false}} {
		t.Run("", func(t *testing.T) {
			scratch := t.TempDir()
			dir := filepath.Join(scratch, "mnt")
			must.Succeed(t, os.Mkdir(dir, 0o755))
			onOverlay(k.option, k.disks)(t, scratch, dir)
			t.Cleanup(func() { unix.Unmount(dir, unix.MNT_DETACH) })
			for _, what := range []string{"empty", "with a directory", "with a file"} {
				f := newFS(t, dir, Options{})
				if got := f.LayersApart(); got != k.want {
					t.Errorf("%+v, %s: %v", k, what, got)
				}
				apart, known := filesApart(f.tree.root, &unix.Stat_t{Dev: f.top.dev})
				if want := what == "with a file"; known != want {
					t.Errorf("%+v, %s: by files: known %v, want %v", k, what, known, want)
				}
				if known && apart != k.want {
					t.Errorf("%+v, %s: by files: apart %v, want %v", k, what, apart, k.want)
				}
				listed := map[string]uint64{}
				_, err := f.ReadDir(me, f.Root(), 0, false, func(de *nfsserver.Dirent) bool {
					listed[string(de.Name)] = de.Fileid
					return true
				})
				must.Succeed(t, err)
				for name, id := range listed {
					if _, a, err := f.Lookup(me, f.Root(), name); err != nil || a.Fileid != id {
						t.Errorf("%+v: %s is listed as %d, and is %d, %v", k, name, id, a.Fileid, err)
					}
				}
				f.Close()
				write(t, "x", map[string]string{"empty": filepath.Join(dir, "d"), "with a directory": dir, "with a file": dir}[what], "x")
			}
		})
	}
	device := func(path string) (uint64, bool) { return uint64(strings.Index("abc", path[1:2])), path != "/unseen" }
	for options, want := range map[string]bool{
		"rw,lowerdir=/a,upperdir=/a/u,workdir=/a/w": false, "rw,lowerdir=/a:/b,upperdir=/a/u": true, "rw,lowerdir=/a,upperdir=/b,xino=on": false,
		"rw,lowerdir=/a:/unseen,upperdir=/a": false, "rw,lowerdir+=/a,lowerdir+=/c": true, "rw,lowerdir=b,upperdir=/a": false, "rw": false,
		"rw,lowerdir=/a,upperdir=/b,xino=auto": true,
	} {
		if got := optionsApart(options, device); got != want {
			t.Errorf("%s: %v", options, got)
		}
	}
}
