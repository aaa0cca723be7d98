// How many metadata queries a call takes: each query is a round trip, and each change waits until
// the service's disk has synced.

package juicefs

import (
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/juicedata/juicefs/pkg/meta"
	"github.com/nfsrdma/nfsrdma/nfsserver"
)

// A counted is a metadata client that counts its queries.
type counted struct {
	meta.Meta
	gets, sets atomic.Int64
}

func (c *counted) GetAttr(ctx meta.Context, ino meta.Ino, a *meta.Attr) syscall.Errno {
	c.gets.Add(1)
	return c.Meta.GetAttr(ctx, ino, a)
}

func (c *counted) SetAttr(ctx meta.Context, ino meta.Ino, set uint16, mode uint8, a *meta.Attr) syscall.Errno {
	c.sets.Add(1)
	return c.Meta.SetAttr(ctx, ino, set, mode, a)
}

// TestCommitIsOneTransaction: writes are committed with the reported time, so no second transaction
// sets it.
func TestCommitIsOneTransaction(t *testing.T) {
	f := openNew(t, Local{})
	defer closeFS(t, f)
	c := &counted{Meta: f.m}
	f.files.m = c
	// JuiceFS commits by itself after a second. If put could not record its time until then, a
	// second transaction would have to set it.
	var writing sync.Mutex
	timeOf := f.files.commits.timeOf
	f.files.commits.timeOf = func(ino meta.Ino, at nfsserver.Time) nfsserver.Time {
		writing.Lock()
		defer writing.Unlock()
		return timeOf(ino, at)
	}
	r, _ := create(t, f, f.Root(), "f")
	for i := range uint64(20) {
		writing.Lock()
		put(t, f, r, []byte("hello"), i)
		told := attrOf(t, f, r)
		writing.Unlock()
		commit(t, f, r)
		if a := attrOf(t, f, r); a.Mtime != told.Mtime {
			t.Errorf("committed at %v, and %v was told", a.Mtime, told.Mtime)
		}
	}
	if n := c.sets.Load(); n > 0 {
		t.Errorf("attributes are set %d times", n)
	}
}

// TestSyncOfNamesAsksNothing: Sync needs no query for names, because the methods that change names
// have committed the changes.
func TestSyncOfNamesAsksNothing(t *testing.T) {
	f := openNew(t, Local{})
	defer closeFS(t, f)
	dir, _, err := f.Mkdir(me, f.Root(), "d", &nfsserver.SetAttr{Mask: nfsserver.SetMode, Mode: 0o755})
	if err != nil {
		t.Fatalf("Mkdir: %v", err)
	}
	r, _ := create(t, f, dir, "f")
	c := &counted{Meta: f.m}
	f.m, f.files.m = c, c
	commit(t, f, dir)
	commit(t, f, r)
	if n := c.gets.Load() + c.sets.Load(); n > 0 {
		t.Errorf("the metadata service is asked %d times", n)
	}
}

// TestLookupAsksOnce: a name comes with its object's attributes, so no second query is needed
// unless data is uncommitted.
func TestLookupAsksOnce(t *testing.T) {
	f := openNew(t, Local{})
	defer closeFS(t, f)
	r, made := create(t, f, f.Root(), "f")
	c := &counted{Meta: f.m}
	f.m, f.files.m = c, c
	look := func(size uint64, most int64) nfsserver.Attr {
		t.Helper()
		before := c.gets.Load()
		_, a, err := f.Lookup(me, f.Root(), "f")
		if err != nil || a.Size != size {
			t.Errorf("%+v, %v, want %d bytes", a, err, size)
		}
		if n := c.gets.Load() - before; n > most {
			t.Errorf("asked %d times beside the name, want %d", n, most)
		}
		return a
	}
	if a := look(0, 1); a != made { // the one query checks the permissions of the directory
		t.Errorf("%+v, made as %+v", a, made)
	}
	put(t, f, r, []byte("hello"), 0)
	told := look(5, 2)
	commit(t, f, r)
	if a := look(5, 2); a.Mtime != told.Mtime {
		t.Errorf("%+v, told %+v", a, told)
	}
}

// TestRenameAsksOnce: each directory in which a rename changes a name is queried once.
func TestRenameAsksOnce(t *testing.T) {
	f := openNew(t, Local{})
	defer closeFS(t, f)
	dir, _, err := f.Mkdir(me, f.Root(), "d", &nfsserver.SetAttr{Mask: nfsserver.SetMode, Mode: 0o755})
	if err != nil {
		t.Fatalf("Mkdir: %v", err)
	}
	create(t, f, dir, "f")
	c := &counted{Meta: f.m}
	f.m, f.files.m = c, c
	for _, s := range []struct {
		from, to nfsserver.Ref
		want     int64
	}{{dir, dir, 1}, {dir, f.Root(), 2}} {
		before := c.gets.Load()
		if err := f.Rename(me, s.from, "f", s.to, "g"); err != nil {
			t.Fatalf("Rename f: %v", err)
		}
		if n := c.gets.Load() - before; n != s.want {
			t.Errorf("asked %d times beside the names, want %d", n, s.want)
		}
		if err := f.Rename(me, s.to, "g", dir, "f"); err != nil {
			t.Fatalf("Rename g: %v", err)
		}
	}
}

// TestClosedMeanwhile: attributes that were read before a file was closed may be older than its
// last commit, so they are not used.
func TestClosedMeanwhile(t *testing.T) {
	f := openNew(t, Local{})
	defer closeFS(t, f)
	r, _ := create(t, f, f.Root(), "f")
	ino, _, _ := f.parse(&r)
	closed := f.files.closes()
	old, _, err := f.files.getattr(ino)
	if err != nil {
		t.Fatalf("getattr: %v", err)
	}
	o := f.files.use(ino) // keeps the sweeper from closing the file before the test does
	put(t, f, r, []byte("hello"), 0)
	commit(t, f, r)
	f.files.closeIdle(o)
	if f.files.useOpen(ino) != nil {
		t.Fatal("the file is still open")
	}
	if a, _, err := f.files.found(ino, old, closed); err != nil || a.Length != 5 {
		t.Errorf("%+v, %v, want 5 bytes", a, err)
	}
	if a, _, err := f.files.found(ino, old, f.files.closes()); err != nil || a.Length != 0 {
		t.Errorf("%+v, %v, want what was given", a, err)
	}
}
