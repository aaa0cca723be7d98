// Modes, owners and set-id bits after changes, compared with those on a tmpfs under Linux.

package memfs_test

import (
	"fmt"
	"os"
	"testing"

	"github.com/nfsrdma/nfsrdma/nfsserver"
	"github.com/nfsrdma/nfsrdma/nfsserver/memfs"
	"github.com/nfsrdma/nfsrdma/nfsserver/osfs"
	"github.com/nfsrdma/nfsrdma/test/machine"
	"github.com/nfsrdma/nfsrdma/test/must"
)

// A twins has a tree in memory and a directory on a tmpfs. Each operation is done on both.
type twins struct {
	*testing.T
	trees [2]nfsserver.FS
	refs  [2]nfsserver.Ref
	count int
}

func newTwins(t *testing.T) *twins {
	t.Helper()
	if !osfs.ActsAsCallers() {
		machine.Skip(t, "not root: modes, owners and set-id bits of memfs are not compared with a kernel's")
	}
	dir, err := os.MkdirTemp("/dev/shm", "memfs-test-")
	must.Succeed(t, err)
	t.Cleanup(func() { os.RemoveAll(dir) })
	disk, err := osfs.New(dir, osfs.Options{})
	must.Succeed(t, err)
	t.Cleanup(func() { disk.Close() })
	w := &twins{T: t, trees: [2]nfsserver.FS{memfs.New(memfs.Options{}), disk}}
	for i, tree := range w.trees {
		w.refs[i] = tree.Root()
	}
	return w
}

// on does an operation on both trees, and checks that the results are equal.
func (w *twins) on(what string, do func(fs nfsserver.FS, i int) (nfsserver.Attr, error)) {
	w.Helper()
	var got [2]string
	for i, fs := range w.trees {
		a, err := do(fs, i)
		got[i] = fmt.Sprintf("mode %04o, user %d, group %d, size %d, %v", a.Mode, a.UID, a.GID, a.Size, err)
		if a.Type == nfsserver.TypeDir {
			got[i] = fmt.Sprintf("mode %04o, user %d, group %d, %v", a.Mode, a.UID, a.GID, err)
		}
	}
	if got[0] != got[1] {
		w.Errorf("%s:\n  memfs: %s\n  tmpfs: %s", what, got[0], got[1])
	}
	w.count++
}

var (
	super  = nfsserver.Cred{}
	owner  = nfsserver.Cred{UID: 1000, GID: 1000, GIDs: []uint32{50, 60}}
	member = nfsserver.Cred{UID: 2000, GID: 50}
	other  = nfsserver.Cred{UID: 3000, GID: 3000, GIDs: []uint32{60}}
)

// object makes an object that belongs to user 1000 and group gid, with the given mode. The
// superuser makes it.
func (w *twins) object(fs nfsserver.FS, root nfsserver.Ref, t nfsserver.FileType, mode, gid uint32) (r nfsserver.Ref) {
	w.Helper()
	var err error
	set := &nfsserver.SetAttr{Mask: nfsserver.SetMode | nfsserver.SetUID | nfsserver.SetGID, Mode: mode, UID: 1000, GID: gid}
	switch t {
	case nfsserver.TypeReg:
		r, _, err = fs.Create(super, root, "o", set)
	case nfsserver.TypeDir:
		r, _, err = fs.Mkdir(super, root, "o", set)
	default:
		r, _, err = fs.Mknod(super, root, "o", t, nfsserver.Rdev{}, set)
	}
	if err == nil {
		err = fs.Setattr(super, r, &nfsserver.SetAttr{Mask: nfsserver.SetMode, Mode: mode})
	}
	if err != nil {
		w.Fatalf("make the object: %v", err)
	}
	return r
}

func (w *twins) remove(fs nfsserver.FS, root nfsserver.Ref, t nfsserver.FileType) {
	w.Helper()
	err := fs.Remove(super, root, "o")
	if t == nfsserver.TypeDir {
		err = fs.Rmdir(super, root, "o")
	}
	if err != nil {
		w.Fatalf("remove the object: %v", err)
	}
}

// changes has the changes that callers try on an object.
var changes = map[string]func(fs nfsserver.FS, c nfsserver.Cred, r nfsserver.Ref) error{
	"chown to its owner":     set(nfsserver.SetAttr{Mask: nfsserver.SetUID, UID: 1000}),
	"chown to another":       set(nfsserver.SetAttr{Mask: nfsserver.SetUID, UID: 2000}),
	"chgrp to its group":     set(nfsserver.SetAttr{Mask: nfsserver.SetGID, GID: 50}),
	"chgrp to another":       set(nfsserver.SetAttr{Mask: nfsserver.SetGID, GID: 60}),
	"chgrp to a foreign one": set(nfsserver.SetAttr{Mask: nfsserver.SetGID, GID: 70}),
	"chown of both":          set(nfsserver.SetAttr{Mask: nfsserver.SetUID | nfsserver.SetGID, UID: 1000, GID: 1000}),
	"chmod 6777":             set(nfsserver.SetAttr{Mask: nfsserver.SetMode, Mode: 0o6777}),
	"chmod 2700":             set(nfsserver.SetAttr{Mask: nfsserver.SetMode, Mode: 0o2700}),
	"chmod and chgrp":        set(nfsserver.SetAttr{Mask: nfsserver.SetMode | nfsserver.SetGID, Mode: 0o6755, GID: 60}),
	"truncate":               set(nfsserver.SetAttr{Mask: nfsserver.SetSize, Size: 3}),
	"truncate and chmod":     set(nfsserver.SetAttr{Mask: nfsserver.SetSize | nfsserver.SetMode, Size: 3, Mode: 0o4711}),
	"truncate and chgrp":     set(nfsserver.SetAttr{Mask: nfsserver.SetSize | nfsserver.SetGID, Size: 3, GID: 70}),
	"touch":                  set(nfsserver.SetAttr{Mask: nfsserver.SetAtimeNow | nfsserver.SetMtimeNow}),
	"touch -m":               set(nfsserver.SetAttr{Mask: nfsserver.SetMtimeNow}),
	"touch -d":               set(nfsserver.SetAttr{Mask: nfsserver.SetMtime, Mtime: nfsserver.Time{Sec: 5}}),
	"write": func(fs nfsserver.FS, c nfsserver.Cred, r nfsserver.Ref) error {
		_, err := fs.WriteAt(c, r, []byte("x"), 0)
		return err
	},
	"read": func(fs nfsserver.FS, c nfsserver.Cred, r nfsserver.Ref) error {
		_, err := fs.ReadAt(c, r, make([]byte, 1), 0)
		return err
	},
	"access": func(fs nfsserver.FS, c nfsserver.Cred, r nfsserver.Ref) error {
		have, err := fs.Access(c, r, 7)
		if err == nil {
			err = fmt.Errorf("has %o", have)
		}
		return err
	},
}

func set(s nfsserver.SetAttr) func(nfsserver.FS, nfsserver.Cred, nfsserver.Ref) error {
	return func(fs nfsserver.FS, c nfsserver.Cred, r nfsserver.Ref) error { return fs.Setattr(c, r, &s) }
}

// modes has the modes that matter to set-id bits.
var modes = []uint32{0, 0o644, 0o666, 0o755, 0o4644, 0o4755, 0o4766, 0o2644, 0o2755, 0o2666, 0o2676, 0o6644, 0o6755, 0o6777, 0o6766, 0o1777, 0o7777, 0o070, 0o007}

// TestChangesAreThoseOfLinux: for every caller, change and kind of object, the result is that of
// Linux.
func TestChangesAreThoseOfLinux(t *testing.T) {
	w := newTwins(t)
	for _, typ := range []nfsserver.FileType{nfsserver.TypeReg, nfsserver.TypeDir, nfsserver.TypeFIFO} {
		for _, mode := range modes {
			for name, c := range map[string]nfsserver.Cred{"root": super, "the owner": owner, "a member of the group": member, "another": other} {
				for _, gid := range []uint32{50, 70} {
					for what, change := range changes {
						w.on(fmt.Sprintf("%s by %s of a %v with mode %04o, group %d", what, name, typ, mode, gid), func(fs nfsserver.FS, i int) (nfsserver.Attr, error) {
							r := w.object(fs, w.refs[i], typ, mode, gid)
							defer w.remove(fs, w.refs[i], typ)
							err := change(fs, c, r)
							a, err2 := fs.Getattr(r)
							if err2 != nil {
								w.Fatal(err2)
							}
							return a, err
						})
					}
				}
			}
		}
	}
	t.Logf("%d cases", w.count)
}

// TestNewObjectsAreThoseOfLinux: new objects have the owner, group and mode that Linux gives them,
// in directories of all kinds. The permission to make them is the same too.
func TestNewObjectsAreThoseOfLinux(t *testing.T) {
	w := newTwins(t)
	asked := []nfsserver.SetAttr{{}, {Mask: nfsserver.SetGID, GID: 60}, {Mask: nfsserver.SetGID, GID: 70}, {Mask: nfsserver.SetUID, UID: 1000}, {Mask: nfsserver.SetUID, UID: 4000}}
	for _, dirMode := range []uint32{0o777, 0o2777, 0o1777, 0o3770, 0o2775, 0o555} {
		for name, c := range map[string]nfsserver.Cred{"root": super, "the owner": owner, "a member of the group": member, "another": other} {
			for _, mode := range []uint32{0o644, 0o755, 0o6755, 0o2755, 0o2644, 0o4711, 0o1777} {
				for _, typ := range []nfsserver.FileType{nfsserver.TypeReg, nfsserver.TypeDir, nfsserver.TypeFIFO} {
					for _, s := range asked {
						s.Mask, s.Mode = s.Mask|nfsserver.SetMode, mode
						w.on(fmt.Sprintf("%v with mode %04o, %+v, by %s in a directory of mode %04o", typ, mode, s, name, dirMode), func(fs nfsserver.FS, i int) (a nfsserver.Attr, err error) {
							d := w.object(fs, w.refs[i], nfsserver.TypeDir, dirMode, 50)
							defer w.remove(fs, w.refs[i], nfsserver.TypeDir)
							switch typ {
							case nfsserver.TypeReg:
								_, a, err = fs.Create(c, d, "n", &s)
							case nfsserver.TypeDir:
								_, a, err = fs.Mkdir(c, d, "n", &s)
							default:
								_, a, err = fs.Mknod(c, d, "n", typ, nfsserver.Rdev{}, &s)
							}
							if err == nil && typ == nfsserver.TypeDir {
								err = fs.Rmdir(super, d, "n")
							} else if err == nil {
								err = fs.Remove(super, d, "n")
							}
							return a, err
						})
					}
				}
			}
		}
	}
	t.Logf("%d cases", w.count)
}
