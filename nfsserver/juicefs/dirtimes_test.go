// Times of directories, which show clients that names have changed.

package juicefs

import (
	"syscall"
	"testing"
	"time"

	"github.com/juicedata/juicefs/pkg/meta"
	"github.com/nfsrdma/nfsrdma/nfsserver"
)

// changesOfNames returns changes in a directory with the file f; some also change another
// directory.
func changesOfNames(t *testing.T, f *FS, dir, other nfsserver.Ref) []nameChange {
	r, _ := create(t, f, dir, "f")
	return []nameChange{
		{"create", func() error { create(t, f, dir, "g"); return nil }, nil},
		{"link", func() error { return f.Link(me, r, dir, "h") }, nil},
		{"rename", func() error { return f.Rename(me, dir, "h", dir, "i") }, nil},
		{"rename to another directory", func() error { return f.Rename(me, dir, "i", other, "i") }, &other},
		{"rename from there", func() error { return f.Rename(me, other, "i", dir, "i") }, &other},
		{"remove", func() error { return f.Remove(me, dir, "i") }, nil},
	}
}

// A nameChange changes names in one directory, and in another directory if other is given.
type nameChange struct {
	what  string
	do    func() error
	other *nfsserver.Ref
}

// TestFutureTimeOfDirectory: a change of names changes a directory's times, even if the times are
// in the future.
func TestFutureTimeOfDirectory(t *testing.T) {
	f := openNew(t, Local{})
	defer closeFS(t, f)
	dir := f.Root()
	other, _, err := f.Mkdir(me, dir, "other", &nfsserver.SetAttr{Mask: nfsserver.SetMode, Mode: 0o755})
	if err != nil {
		t.Fatalf("Mkdir: %v", err)
	}
	for _, by := range []int64{1, 1000, int64(clockAhead / time.Second), 3 * int64(clockAhead/time.Second), 50 * 365 * 86400} {
		for _, c := range changesOfNames(t, f, dir, other) {
			future := nfsserver.Now()
			future.Sec += by
			dirs := []nfsserver.Ref{dir}
			if c.other != nil {
				dirs = append(dirs, *c.other)
			}
			was := make([]nfsserver.Attr, len(dirs))
			for i, d := range dirs {
				if err := f.Setattr(me, d, &nfsserver.SetAttr{Mask: nfsserver.SetMtime, Mtime: future}); err != nil {
					t.Fatalf("Setattr: %v", err)
				}
				was[i] = attrOf(t, f, d)
			}
			if err := c.do(); err != nil {
				t.Fatalf("%s: %v", c.what, err)
			}
			for i, d := range dirs {
				if a := attrOf(t, f, d); a.Mtime == was[i].Mtime || a.Ctime == was[i].Ctime {
					t.Errorf("%s, by %d s: the times stay %v and %v", c.what, by, a.Mtime, a.Ctime)
				}
			}
		}
		for _, name := range []string{"f", "g"} {
			if err := f.Remove(me, dir, name); err != nil {
				t.Fatalf("Remove: %v", err)
			}
		}
	}
}

// A clockBehind is the metadata client of a server whose clock is two seconds behind the clock of
// another server. Just before each change by this server, the other one changes the same
// directories.
type clockBehind struct {
	meta.Meta
	t    *testing.T
	told map[meta.Ino]meta.Attr // the attributes that the other server's clients have
}

func (c *clockBehind) otherChanges(dirs ...meta.Ino) {
	for _, dir := range dirs {
		at := time.Now().Add(2 * time.Second)
		a := meta.Attr{Mtime: at.Unix(), Mtimensec: uint32(at.Nanosecond())}
		if no := c.SetAttr(system, dir, meta.SetAttrMtime, 0, &a); no != 0 {
			c.t.Error(no)
		}
		if no := c.GetAttr(system, dir, &a); no != 0 {
			c.t.Error(no)
		}
		c.told[dir] = a
	}
}

func (c *clockBehind) Mknod(ctx meta.Context, dir meta.Ino, name string, kind uint8, mode, mask uint16, dev uint32, target string, ino *meta.Ino, a *meta.Attr) syscall.Errno {
	c.otherChanges(dir)
	return c.Meta.Mknod(ctx, dir, name, kind, mode, mask, dev, target, ino, a)
}

func (c *clockBehind) Link(ctx meta.Context, ino, dir meta.Ino, name string, a *meta.Attr) syscall.Errno {
	c.otherChanges(dir)
	return c.Meta.Link(ctx, ino, dir, name, a)
}

func (c *clockBehind) Unlink(ctx meta.Context, dir meta.Ino, name string, skipTrash ...bool) syscall.Errno {
	c.otherChanges(dir)
	return c.Meta.Unlink(ctx, dir, name, skipTrash...)
}

func (c *clockBehind) Rename(ctx meta.Context, src meta.Ino, from string, dst meta.Ino, to string, flags uint32, ino *meta.Ino, a *meta.Attr) syscall.Errno {
	c.otherChanges(src, dst)
	return c.Meta.Rename(ctx, src, from, dst, to, flags, ino, a)
}

// TestClocksDiffer: a change of names changes a directory's times, even if a server with a faster
// clock has just changed it. Otherwise that server's clients would never see the name.
func TestClocksDiffer(t *testing.T) {
	onServices(t, func(t *testing.T, url string) {
		f := openShared(t, Options{Meta: url})
		defer closeFS(t, f)
		clocksDiffer(t, f)
	})
}

// TestClockIsSetBack: in a volume in a directory, a change of names changes the times even after
// the server's own clock was set back.
func TestClockIsSetBack(t *testing.T) {
	f := openNew(t, Local{})
	defer closeFS(t, f)
	clocksDiffer(t, f)
}

func clocksDiffer(t *testing.T, f *FS) {
	top, other := mkdir(t, f, f.Root(), "clocks"), mkdir(t, f, f.Root(), "other")
	c := &clockBehind{Meta: f.m, t: t, told: map[meta.Ino]meta.Attr{}}
	changes := changesOfNames(t, f, top, other)
	f.m = c
	defer func() { f.m = c.Meta }()
	for _, change := range changes {
		clear(c.told)
		if err := change.do(); err != nil {
			t.Fatalf("%s: %v", change.what, err)
		}
		if len(c.told) == 0 {
			t.Fatalf("%s: nothing was changed", change.what)
		}
		for dir, told := range c.told {
			var a meta.Attr
			if no := c.GetAttr(system, dir, &a); no != 0 {
				t.Fatalf("%s: GetAttr: %v", change.what, no)
			}
			if is, was := stampOf(&a), stampOf(&told); is.mtime == was.mtime || is.ctime == was.ctime {
				t.Errorf("%s: the times are %+v, want others than %+v", change.what, is, was)
			}
		}
	}
}

// mkdir makes a directory writable by all, as root.
func mkdir(t *testing.T, f *FS, dir nfsserver.Ref, name string) nfsserver.Ref {
	t.Helper()
	r, _, err := f.Mkdir(superuser, dir, name, &nfsserver.SetAttr{Mask: nfsserver.SetMode, Mode: 0o777})
	if err != nil {
		t.Fatalf("Mkdir: %v", err)
	}
	return r
}
