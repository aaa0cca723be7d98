// Callers' rights: as in a kernel, also where JuiceFS differs.

package juicefs

import (
	"errors"
	"syscall"
	"testing"

	"github.com/juicedata/juicefs/pkg/meta"
	"github.com/nfsrdma/nfsrdma/nfsserver"
)

var (
	superuser = nfsserver.Cred{}
	ann       = nfsserver.Cred{UID: 1001, GID: 1001}
	bob       = nfsserver.Cred{UID: 1002, GID: 1002, GIDs: []uint32{50}}
)

// shared makes a tree with files that belong to other users, in a directory writable by all.
func shared(t *testing.T, mode uint32) (*FS, nfsserver.Ref) {
	t.Helper()
	f := openNew(t, Local{})
	t.Cleanup(func() { closeFS(t, f) })
	dir, _, err := f.Mkdir(superuser, f.Root(), "shared", &nfsserver.SetAttr{Mask: nfsserver.SetMode, Mode: mode})
	if err != nil {
		t.Fatalf("Mkdir: %v", err)
	}
	return f, dir
}

func (f *FS) touch(c nfsserver.Cred, dir nfsserver.Ref, name string, mode uint32) nfsserver.Ref {
	r, _, _ := f.Create(c, dir, name, &nfsserver.SetAttr{Mask: nfsserver.SetMode, Mode: mode})
	return r
}

func want(t *testing.T, what string, got, want error) {
	t.Helper()
	if !errors.Is(got, want) {
		t.Errorf("%s: %v, want %v", what, got, want)
	}
}

func TestNewObjectsBelongToTheirMaker(t *testing.T) {
	f, dir := shared(t, 0o2777)
	if err := f.Setattr(superuser, dir, &nfsserver.SetAttr{Mask: nfsserver.SetGID | nfsserver.SetMode, GID: 50, Mode: 0o2777}); err != nil {
		t.Fatalf("Setattr: %v", err)
	}
	_, a, err := f.Create(ann, dir, "f", &nfsserver.SetAttr{Mask: nfsserver.SetMode, Mode: 0o2775})
	if err != nil {
		t.Errorf("Create: %v", err)
	}
	if got, want := [3]uint32{a.UID, a.GID, a.Mode}, [3]uint32{ann.UID, 50, 0o775}; got != want {
		t.Errorf("in a directory that gives its group: uid, gid and mode %v, want %v", got, want)
	}
	_, a, err = f.Mkdir(bob, dir, "d", &nfsserver.SetAttr{})
	if err != nil {
		t.Errorf("Mkdir: %v", err)
	}
	if got, want := [3]uint32{a.UID, a.GID, a.Mode}, [3]uint32{bob.UID, 50, 0o2700}; got != want {
		t.Errorf("a directory: uid, gid and mode %v, want %v", got, want)
	}
	_, a, err = f.Create(bob, dir, "g", &nfsserver.SetAttr{Mask: nfsserver.SetGID, GID: bob.GID})
	if err != nil || a.GID != bob.GID {
		t.Errorf("with a group of one's own: %+v, %v", a, err)
	}
	_, _, err = f.Create(ann, dir, "h", &nfsserver.SetAttr{Mask: nfsserver.SetUID, UID: bob.UID})
	want(t, "a file for another", err, syscall.EPERM)
	_, _, err = f.Mknod(ann, dir, "dev", nfsserver.TypeChar, nfsserver.Rdev{}, &nfsserver.SetAttr{})
	want(t, "a device", err, syscall.EPERM)
}

func TestOthersFiles(t *testing.T) {
	f, dir := shared(t, 0o777)
	r := f.touch(ann, dir, "f", 0o640)
	_, err := f.ReadAt(bob, r, make([]byte, 1), 0)
	want(t, "read", err, syscall.EACCES)
	_, err = f.WriteAt(bob, r, []byte("x"), 0)
	want(t, "write", err, syscall.EACCES)
	want(t, "chmod", f.Setattr(bob, r, &nfsserver.SetAttr{Mask: nfsserver.SetMode, Mode: 0o777}), syscall.EPERM)
	want(t, "chown", f.Setattr(ann, r, &nfsserver.SetAttr{Mask: nfsserver.SetUID, UID: bob.UID}), syscall.EPERM)
	want(t, "cut", f.Setattr(bob, r, &nfsserver.SetAttr{Mask: nfsserver.SetSize}), syscall.EACCES)
	// JuiceFS itself lets a user with write permission set any time.
	w := f.touch(ann, dir, "w", 0o666)
	want(t, "a time", f.Setattr(bob, w, &nfsserver.SetAttr{Mask: nfsserver.SetMtime}), syscall.EPERM)
	want(t, "the present time", f.Setattr(bob, w, &nfsserver.SetAttr{Mask: nfsserver.SetMtimeNow}), nil)
	closed, _, err := f.Mkdir(ann, dir, "closed", &nfsserver.SetAttr{})
	want(t, "mkdir", err, nil)
	_, _, err = f.Lookup(bob, closed, "x")
	want(t, "lookup", err, syscall.EACCES)
	_, err = f.ReadDir(bob, closed, 0, false, func(*nfsserver.Dirent) bool { return true })
	want(t, "list", err, syscall.EACCES)
	_, _, err = f.Create(bob, closed, "x", &nfsserver.SetAttr{})
	want(t, "create", err, syscall.EACCES)
	want(t, "link", f.Link(bob, r, closed, "x"), syscall.EACCES)
}

func TestSetIDBits(t *testing.T) {
	f, dir := shared(t, 0o777)
	r := f.touch(ann, dir, "f", 0o6777)
	if _, err := f.WriteAt(bob, r, []byte("x"), 0); err != nil {
		t.Fatalf("WriteAt: %v", err)
	}
	if a := attrOf(t, f, r); a.Mode != 0o777 {
		t.Errorf("after another's write the mode is %o", a.Mode)
	}
	r = f.touch(ann, dir, "g", 0o4755)
	if err := f.Setattr(superuser, r, &nfsserver.SetAttr{Mask: nfsserver.SetUID, UID: bob.UID}); err != nil {
		t.Fatalf("Setattr superuser: %v", err)
	}
	if a := attrOf(t, f, r); a.Mode != 0o755 || a.UID != bob.UID {
		t.Errorf("after a change of the owner: %+v", a)
	}
	if err := f.Setattr(superuser, r, &nfsserver.SetAttr{Mask: nfsserver.SetUID | nfsserver.SetMode, UID: ann.UID, Mode: 0o4711}); err != nil {
		t.Fatalf("Setattr superuser: %v", err)
	}
	if a := attrOf(t, f, r); a.Mode != 0o4711 || a.UID != ann.UID {
		t.Errorf("after a change of owner and mode: %+v", a)
	}
}

// A meddler makes a change just before the next SetAttr of a metadata client, like another client
// of the volume.
type meddler struct {
	meta.Meta
	before func()
}

func (m *meddler) SetAttr(ctx meta.Context, ino meta.Ino, set uint16, clear uint8, a *meta.Attr) syscall.Errno {
	if m.before != nil {
		m.before()
		m.before = nil
	}
	return m.Meta.SetAttr(ctx, ino, set, clear, a)
}

// TestModeOfOthers: permission for setting a time is checked with the mode. If another client then
// changes the mode, setting the time does not restore the old mode.
func TestModeOfOthers(t *testing.T) {
	f := openNew(t, Local{})
	defer closeFS(t, f)
	r, _ := create(t, f, f.Root(), "f")
	ino, _, _ := f.parse(&r)
	other := f.m
	f.m = &meddler{Meta: other, before: func() {
		other.SetAttr(system, ino, meta.SetAttrMode, 0, &meta.Attr{Mode: 0o600})
	}}
	err := f.Setattr(me, r, &nfsserver.SetAttr{Mask: nfsserver.SetMtimeNow})
	f.m = other
	want(t, "touch", err, nil)
	if a := attrOf(t, f, r); a.Mode != 0o600 {
		t.Errorf("the mode is %o", a.Mode)
	}
}

// TestChattr: no user can write to an immutable or append-only file.
func TestChattr(t *testing.T) {
	f, dir := shared(t, 0o777)
	r := f.touch(ann, dir, "f", 0o666)
	ino, _, _ := f.parse(&r)
	for _, flag := range []uint8{meta.FlagImmutable, meta.FlagAppend} {
		want(t, "chattr", f.set(ino, meta.SetAttrFlag, &meta.Attr{Flags: flag}), nil)
		for _, who := range []nfsserver.Cred{superuser, ann, bob} {
			_, err := f.WriteAt(who, r, []byte("x"), 0)
			want(t, "write", err, syscall.EPERM)
			want(t, "cut", f.Setattr(who, r, &nfsserver.SetAttr{Mask: nfsserver.SetSize, Size: 7}), syscall.EPERM)
			want(t, "remove", f.Remove(who, dir, "f"), syscall.EPERM)
		}
	}
	want(t, "chattr", f.set(ino, meta.SetAttrFlag, &meta.Attr{}), nil)
	_, err := f.WriteAt(bob, r, []byte("x"), 0)
	want(t, "write", err, nil)
}

func TestStickyDirectory(t *testing.T) {
	f, dir := shared(t, 0o1777)
	f.touch(ann, dir, "f", 0o666)
	f.touch(bob, dir, "g", 0o666)
	want(t, "remove another's", f.Remove(bob, dir, "f"), syscall.EPERM)
	want(t, "rename another's", f.Rename(bob, dir, "f", dir, "h"), syscall.EPERM)
	want(t, "rename over another's", f.Rename(bob, dir, "g", dir, "f"), syscall.EPERM)
	want(t, "rename one's own", f.Rename(bob, dir, "g", dir, "h"), nil)
	want(t, "remove by the owner", f.Remove(ann, dir, "f"), nil)
}

// TestLoops: a directory cannot be moved below itself. JuiceFS itself permits it two levels down.
func TestLoops(t *testing.T) {
	f, dir := shared(t, 0o777)
	d := dir
	for _, name := range []string{"a", "b", "c", "d"} {
		next, _, err := f.Mkdir(superuser, d, name, &nfsserver.SetAttr{})
		if err != nil {
			t.Fatalf("Mkdir: %v", err)
		}
		want(t, "into "+name, f.Rename(superuser, f.Root(), "shared", next, "x"), syscall.EINVAL)
		d = next
	}
	want(t, "up again", f.Rename(superuser, dir, "a", f.Root(), "a"), nil)
}

// TestTrashIsHidden: clients cannot use the trash as a directory, even if the volume got its trash
// after it was opened.
func TestTrashIsHidden(t *testing.T) {
	f := reopen(t, Local{Dir: newDir(t), UID: me.UID, GID: me.GID})
	defer closeFS(t, f)
	format := f.m.GetFormat()
	format.TrashDays = 1
	if err := f.m.Init(&format, false); err != nil {
		t.Fatalf("Init: %v", err)
	}
	r, _ := create(t, f, f.Root(), "f")
	if err := f.Link(me, r, f.Root(), "g"); err != nil {
		t.Fatalf("Link: %v", err)
	}
	for i, name := range []string{"f", "g"} {
		if a := attrOf(t, f, r); a.Nlink != uint32(2-i) {
			t.Errorf("%d names, want %d", a.Nlink, 2-i)
		}
		if err := f.Remove(me, f.Root(), name); err != nil {
			t.Fatalf("Remove: %v", err)
		}
	}
	_, err := f.Getattr(r)
	want(t, "a file whose names are in the trash", err, nfsserver.ErrStale)
	_, _, err = f.Lookup(me, f.Root(), ".trash")
	want(t, "the trash", err, syscall.ENOENT)
	_, _, err = f.Mkdir(me, f.Root(), ".trash", &nfsserver.SetAttr{})
	want(t, "a directory of its name", err, syscall.EPERM)
	want(t, "the trash's number", func() error { _, err := f.Getattr(f.ref(0x7FFFFFFF10000000, nfsserver.TypeDir)); return err }(), nfsserver.ErrStale)
}
