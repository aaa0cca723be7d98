// Features of a volume beyond a plain FS: quotas, ACLs, locks, trash, and other servers.

package juicefs

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"reflect"
	"syscall"
	"testing"
	"time"

	"github.com/juicedata/juicefs/pkg/chunk"
	"github.com/juicedata/juicefs/pkg/meta"
	"github.com/juicedata/juicefs/pkg/vfs"
	"github.com/nfsrdma/nfsrdma/nfsserver"
	"github.com/nfsrdma/nfsrdma/posixacl"
)

// put writes all of b at off.
func put(t *testing.T, f *FS, r nfsserver.Ref, b []byte, off uint64) {
	t.Helper()
	if n, err := f.WriteAt(me, r, b, off); n != len(b) || err != nil {
		t.Fatalf("WriteAt: %d, %v", n, err)
	}
}

// get reads up to n bytes from the start.
func get(t *testing.T, f *FS, r nfsserver.Ref, n int) string {
	t.Helper()
	b := make([]byte, n)
	n, err := f.ReadAt(me, r, b, 0)
	if err != nil {
		t.Fatalf("ReadAt: %v", err)
	}
	return string(b[:n])
}

func attrOf(t *testing.T, f *FS, r nfsserver.Ref) nfsserver.Attr {
	t.Helper()
	a, err := f.Getattr(r)
	if err != nil {
		t.Fatalf("Getattr: %v", err)
	}
	return a
}

func commit(t *testing.T, f *FS, r nfsserver.Ref) {
	t.Helper()
	if err := f.Sync(r, false); err != nil {
		t.Fatalf("Sync: %v", err)
	}
}

// TestWrittenIsSeen: size and times show a write before anything is stored, and the reported
// modification time does not change later.
func TestWrittenIsSeen(t *testing.T) {
	l := Local{Dir: newDir(t), UID: me.UID, GID: me.GID}
	f := reopen(t, l)
	r, was := create(t, f, f.Root(), "f")
	put(t, f, r, []byte("hello"), 3)
	told := attrOf(t, f, r)
	if told.Size != 8 {
		t.Errorf("after a write: size %d, want 8", told.Size)
	}
	if told.Mtime == was.Mtime || told.Ctime != told.Mtime {
		t.Errorf("after a write: mtime %v, ctime %v, want both equal, and not %v", told.Mtime, told.Ctime, was.Mtime)
	}
	if got := get(t, f, r, 10); got != "\x00\x00\x00hello" {
		t.Errorf("read %q", got)
	}
	if a := attrOf(t, f, r); a != told {
		t.Errorf("a read made %+v of %+v", a, told)
	}
	// acts as if JuiceFS had committed the write with another time
	ino, _, _ := f.parse(&r)
	if err := f.set(ino, meta.SetAttrMtime, &meta.Attr{Mtime: told.Mtime.Sec - 1}); err != nil {
		t.Fatalf("set ino: %v", err)
	}
	if a := attrOf(t, f, r); a.Mtime != told.Mtime {
		t.Errorf("the time is %v, and %v was told", a.Mtime, told.Mtime)
	}
	put(t, f, r, []byte("H"), 3)
	told = attrOf(t, f, r)
	f.files.writer.Flush(system, ino)
	if err := f.set(ino, meta.SetAttrMtime, &meta.Attr{Mtime: told.Mtime.Sec - 1}); err != nil {
		t.Fatalf("set ino: %v", err)
	}
	commit(t, f, r)
	stored := attrOf(t, f, r)
	if stored.Mtime != told.Mtime || stored.Size != 8 {
		t.Errorf("a sync made %+v of %+v", stored, told)
	}
	closeFS(t, f)
	f = reopen(t, l)
	defer closeFS(t, f)
	if a := attrOf(t, f, r); a != stored {
		t.Errorf("a restart made %+v of %+v", a, stored)
	}
}

// TestChangeShows: a change of attributes between write and sync moves the change time, and times
// that were set stay.
func TestChangeShows(t *testing.T) {
	f := openNew(t, Local{})
	defer closeFS(t, f)
	r, _ := create(t, f, f.Root(), "f")
	put(t, f, r, []byte("x"), 0)
	told := attrOf(t, f, r)
	if err := f.Setattr(me, r, &nfsserver.SetAttr{Mask: nfsserver.SetMode, Mode: 0o600}); err != nil {
		t.Fatalf("Setattr me: %v", err)
	}
	a := attrOf(t, f, r)
	if a.Mode != 0o600 || a.Mtime != told.Mtime {
		t.Errorf("after a change of the mode: mode %o, mtime %v, want 600 and %v", a.Mode, a.Mtime, told.Mtime)
	}
	if later(a.Ctime, told.Ctime) == told.Ctime {
		t.Errorf("after a change of the mode: ctime %v, want a later one than %v", a.Ctime, told.Ctime)
	}
	old := nfsserver.Time{Sec: 1000, Nsec: 7}
	if err := f.Setattr(me, r, &nfsserver.SetAttr{Mask: nfsserver.SetMtime, Mtime: old}); err != nil {
		t.Fatalf("Setattr me: %v", err)
	}
	commit(t, f, r)
	if a := attrOf(t, f, r); a.Mtime != old {
		t.Errorf("a time that was set after a write is %v, want %v", a.Mtime, old)
	}
}

// TestQuota: a file's Sync reports once that data did not fit. Statfs reports the quota before.
func TestQuota(t *testing.T) {
	l := Local{Dir: newDir(t), UID: me.UID, GID: me.GID}
	f := reopen(t, l)
	dir, _, err := f.Mkdir(me, f.Root(), "d", &nfsserver.SetAttr{})
	if err != nil {
		t.Fatalf("Mkdir: %v", err)
	}
	quota := map[string]*meta.Quota{"/d": {MaxSpace: 1 << 20, MaxInodes: 3}}
	if err := f.m.HandleQuota(system, meta.QuotaSet, "/d", meta.DirQuotaType, quota, false, false, false); err != nil {
		t.Fatalf("HandleQuota: %v", err)
	}
	closeFS(t, f) // clients see a new quota at their next heartbeat, or when they start
	f = reopen(t, l)
	defer closeFS(t, f)
	st, err := f.Statfs(dir)
	if err != nil {
		t.Errorf("Statfs: %v", err)
	}
	if st.AvailBytes != 1<<20 || st.AvailFiles != 3 {
		t.Errorf("Statfs: %d bytes and %d files, want %d and 3", st.AvailBytes, st.AvailFiles, 1<<20)
	}
	r, _ := create(t, f, dir, "f")
	put(t, f, r, make([]byte, 512<<10), 0)
	commit(t, f, r)
	put(t, f, r, make([]byte, 1<<20), 512<<10)
	if err := f.Sync(r, true); !errors.Is(err, syscall.EDQUOT) {
		t.Errorf("Sync of more than the quota: %v", err)
	}
	if err := f.Sync(r, true); err != nil {
		t.Errorf("the next Sync: %v", err)
	}
	if a := attrOf(t, f, r); a.Size != 512<<10 {
		t.Errorf("the file has %d bytes", a.Size)
	}
	put(t, f, r, []byte("fits"), 0)
	commit(t, f, r)
	for _, name := range []string{"g", "h"} {
		create(t, f, dir, name)
	}
	if _, _, err := f.Create(me, dir, "i", &nfsserver.SetAttr{}); !errors.Is(err, syscall.EDQUOT) {
		t.Errorf("one object too much: %v", err)
	}
}

// TestCapacity: a full volume reports that it is full.
func TestCapacity(t *testing.T) {
	f := openNew(t, Local{Capacity: 1 << 20})
	defer closeFS(t, f)
	r, _ := create(t, f, f.Root(), "f")
	put(t, f, r, make([]byte, 2<<20), 0)
	if err := f.Sync(r, true); !errors.Is(err, syscall.ENOSPC) {
		t.Errorf("Sync: %v", err)
	}
	if err := f.Setattr(me, r, &nfsserver.SetAttr{Mask: nfsserver.SetSize, Size: 4 << 20}); !errors.Is(err, syscall.ENOSPC) {
		t.Errorf("a larger size: %v", err)
	}
}

// TestWriteAfterLoss: an error that Sync has reported is reported neither by the next write nor by
// its Sync.
func TestWriteAfterLoss(t *testing.T) {
	f := openNew(t, Local{Capacity: 1 << 20})
	defer closeFS(t, f)
	for i := range 300 {
		name := fmt.Sprint("f", i)
		r, _ := create(t, f, f.Root(), name)
		put(t, f, r, []byte("x"), 2<<20)
		if err := f.Sync(r, true); !errors.Is(err, syscall.ENOSPC) {
			t.Fatalf("Sync: %v", err)
		}
		put(t, f, r, []byte("x"), 0)
		commit(t, f, r)
		if err := f.Remove(me, f.Root(), name); err != nil {
			t.Fatalf("Remove: %v", err)
		}
	}
}

// TestLossOfRemoved: a file stays open while an error waits for a call that reports it. A removed
// file is closed, because no call can ask for the error.
func TestLossOfRemoved(t *testing.T) {
	f := openNew(t, Local{Capacity: 1 << 20})
	defer closeFS(t, f)
	kept, _ := create(t, f, f.Root(), "kept")
	gone, _ := create(t, f, f.Root(), "gone")
	for _, r := range []nfsserver.Ref{kept, gone} {
		put(t, f, r, []byte("x"), 2<<20)
		get(t, f, r, 1) // tries to store the data, which does not fit
	}
	if err := f.Remove(me, f.Root(), "gone"); err != nil {
		t.Fatalf("Remove: %v", err)
	}
	for _, o := range f.files.idleFiles(time.Now().Add(2 * idleTime)) {
		f.files.closeIdle(o)
	}
	for _, c := range []struct {
		r    nfsserver.Ref
		open bool
	}{{kept, true}, {gone, false}} {
		ino, _, _ := f.parse(&c.r)
		o := f.files.useOpen(ino)
		if (o != nil) != c.open {
			t.Errorf("inode %d is open: %v, want %v", ino, o != nil, c.open)
		}
		if o != nil {
			f.files.release(o)
		}
	}
	if err := f.Sync(kept, true); !errors.Is(err, syscall.ENOSPC) {
		t.Errorf("Sync: %v", err)
	}
}

// TestACL: an ACL that was set is returned, enforced, and inherited.
func TestACL(t *testing.T) {
	f := openNew(t, Local{ACL: true})
	defer closeFS(t, f)

	dir, _, err := f.Mkdir(superuser, f.Root(), "d", &nfsserver.SetAttr{Mask: nfsserver.SetMode, Mode: 0o755})
	if err != nil {
		t.Fatalf("Mkdir: %v", err)
	}
	list := posixacl.ACL{
		{Tag: posixacl.UserObj, Perm: 7, ID: posixacl.NoID}, {Tag: posixacl.User, Perm: 7, ID: ann.UID},
		{Tag: posixacl.GroupObj, Perm: 5, ID: posixacl.NoID}, {Tag: posixacl.Group, Perm: 5, ID: 50},
		{Tag: posixacl.Mask, Perm: 7, ID: posixacl.NoID}, {Tag: posixacl.Other, Perm: 0, ID: posixacl.NoID},
	}
	for _, which := range []nfsserver.ACLType{nfsserver.AccessACL, nfsserver.DefaultACL} {
		if err := f.SetACL(ann, dir, which, list); !errors.Is(err, syscall.EPERM) {
			t.Errorf("SetACL by another: %v", err)
		}
		if err := f.SetACL(superuser, dir, which, list); err != nil {
			t.Fatalf("SetACL superuser: %v", err)
		}
		if got, err := f.ACL(dir, which); err != nil || !reflect.DeepEqual(got, list) {
			t.Errorf("ACL %d is %v, %v", which, got, err)
		}
	}
	if a := attrOf(t, f, dir); a.Mode != 0o770 {
		t.Errorf("the mode is %o", a.Mode)
	}
	r, a, err := f.Create(ann, dir, "f", &nfsserver.SetAttr{Mask: nfsserver.SetMode, Mode: 0o666})
	if err != nil {
		t.Fatalf("Create: %v", err)
	}
	if a.Mode != 0o660 || a.UID != ann.UID {
		t.Fatalf("a new file: mode %o, uid %d, want 660 and %d", a.Mode, a.UID, ann.UID)
	}
	if _, _, err := f.Create(bob, dir, "g", &nfsserver.SetAttr{}); !errors.Is(err, syscall.EACCES) {
		t.Errorf("one who may only read made a file: %v", err)
	}
	for _, c := range []struct {
		who  nfsserver.Cred
		have uint32
	}{{ann, 6}, {bob, 4}, {nfsserver.Cred{UID: 7, GID: 7}, 0}} {
		if have, err := f.Access(c.who, r, 7); have != c.have || err != nil {
			t.Errorf("user %d may %d, %v, want %d", c.who.UID, have, err, c.have)
		}
	}
	if err := f.SetACL(ann, r, nfsserver.AccessACL, nil); err != nil {
		t.Fatalf("SetACL ann: %v", err)
	}
	if got, err := f.ACL(r, nfsserver.AccessACL); err != nil || len(got) != 0 {
		t.Errorf("an ACL that was taken away is %v, %v", got, err)
	}
	if have, _ := f.Access(bob, r, 7); have != 0 {
		t.Errorf("without the ACL bob may %d", have)
	}
}

// TestDirectory: a directory in the volume can be the FS's root.
func TestDirectory(t *testing.T) {
	l := Local{Dir: newDir(t), UID: me.UID, GID: me.GID}
	f := reopen(t, l)
	a, _, err := f.Mkdir(me, f.Root(), "a", &nfsserver.SetAttr{})
	if err != nil {
		t.Fatalf("Mkdir a: %v", err)
	}
	b, _, err := f.Mkdir(me, a, "b", &nfsserver.SetAttr{})
	if err != nil {
		t.Fatalf("Mkdir b: %v", err)
	}
	create(t, f, b, "f")
	closeFS(t, f)
	url, err := l.Make()
	if err != nil {
		t.Fatalf("Make: %v", err)
	}
	for _, dir := range []string{"/a/x", "/a/b/f", ".trash"} {
		if _, err := Open(Options{Meta: url, Dir: dir}); err == nil {
			t.Errorf("%s could be opened", dir)
		}
	}
	f, err = Open(Options{Meta: url, Dir: "/a/b/"})
	if err != nil {
		t.Fatalf("Open: %v", err)
	}
	defer closeFS(t, f)
	up, _, err := f.Lookup(me, b, "..")
	if err != nil {
		t.Errorf("Lookup ..: %v", err)
	}
	if f.Root() != b || up != b {
		t.Errorf("the root is %v, and .. of it %v, want %v", f.Root(), up, b)
	}
	if _, _, err := f.Lookup(me, f.Root(), "f"); err != nil {
		t.Errorf("Lookup: %v", err)
	}
}

// TestNoACL: a volume without ACLs refuses them without a query to the metadata service.
func TestNoACL(t *testing.T) {
	f := openNew(t, Local{})
	defer closeFS(t, f)
	if err := f.SetACL(me, f.Root(), nfsserver.AccessACL, posixacl.FromMode(0o700)); !errors.Is(err, syscall.EOPNOTSUPP) {
		t.Error(err)
	}
	c := &counted{Meta: f.m}
	f.m, f.files.m = c, c
	for _, which := range []nfsserver.ACLType{nfsserver.AccessACL, nfsserver.DefaultACL} {
		if got, err := f.ACL(f.Root(), which); !errors.Is(err, syscall.EOPNOTSUPP) {
			t.Errorf("ACL %d is %v, %v", which, got, err)
		}
	}
	if n := c.gets.Load() + c.sets.Load(); n > 0 {
		t.Errorf("the metadata service is asked %d times", n)
	}
}

// TestLocks: locks of the server and of another client of the volume exclude each other.
func TestLocks(t *testing.T) {
	f := openNew(t, Local{})
	defer closeFS(t, f)
	r, _ := create(t, f, f.Root(), "f")
	if _, err := f.OpenLocks(f.Root()); !errors.Is(err, syscall.EISDIR) {
		t.Errorf("locks on a directory: %v", err)
	}
	mine, err := f.OpenLocks(r)
	if err != nil {
		t.Fatalf("OpenLocks: %v", err)
	}
	ino, _, _ := f.parse(&r)
	other := func(typ uint32, start, end uint64) error {
		return failed(f.m.Setlk(system, ino, lockOwner+1, false, typ, start, end, 1))
	}
	if err := other(syscall.F_WRLCK, 10, 19); err != nil {
		t.Fatalf("other: %v", err)
	}
	if err := mine.Set(0, math.MaxInt64, nfsserver.Shared); !errors.Is(err, syscall.EAGAIN) {
		t.Errorf("over another's lock: %v", err)
	}
	at, last, typ, err := mine.Test(5, 15, nfsserver.Shared)
	if err != nil || typ != nfsserver.Exclusive {
		t.Errorf("Test: %v, %v, want an exclusive lock", typ, err)
	}
	if at != 10 || last != 19 {
		t.Errorf("Test: %d to %d, want 10 to 19", at, last)
	}
	if _, _, typ, err := mine.Test(20, math.MaxInt64, nfsserver.Exclusive); typ != nfsserver.Unlocked || err != nil {
		t.Errorf("Test beside it: %v, %v", typ, err)
	}
	if err := mine.Set(20, math.MaxInt64, nfsserver.Exclusive); err != nil {
		t.Errorf("Set: %v", err)
	}
	if err := other(syscall.F_RDLCK, 1<<40, 1<<41); !errors.Is(err, syscall.EAGAIN) {
		t.Errorf("the other over ours: %v", err)
	}
	if err := mine.Close(); err != nil {
		t.Errorf("Close: %v", err)
	}
	if err := other(syscall.F_RDLCK, 1<<40, 1<<41); err != nil {
		t.Errorf("after ours was closed: %v", err)
	}
}

// TestLocksLeft: the locks of a killed server do not block its next process.
func TestLocksLeft(t *testing.T) {
	l := Local{Dir: newDir(t), UID: me.UID, GID: me.GID}
	f := reopen(t, l)
	r, _ := create(t, f, f.Root(), "f")
	mine, err := f.OpenLocks(r)
	if err == nil {
		err = mine.Set(0, math.MaxInt64, nfsserver.Exclusive)
	}
	if err != nil {
		t.Fatal(err)
	}
	closeFS(t, f) // the locks stay in the volume
	f = reopen(t, l)
	defer closeFS(t, f)
	mine, err = f.OpenLocks(r)
	if err != nil {
		t.Fatalf("OpenLocks: %v", err)
	}
	if at, _, typ, err := mine.Test(0, math.MaxInt64, nfsserver.Exclusive); typ != nfsserver.Unlocked || err != nil {
		t.Errorf("a lock at %d is left: %v, %v", at, typ, err)
	}
	if err := mine.Set(5, 6, nfsserver.Exclusive); err != nil {
		t.Errorf("Set: %v", err)
	}
}

// another returns a second server of the volume, with its own buffers and the same services. The
// caller closes its files.
func another(t *testing.T, f *FS) *FS {
	t.Helper()
	format := f.m.GetFormat()
	cc := blocks(&Options{}, &format)
	o := &FS{m: f.m, blob: f.blob, local: f.local, volume: f.volume, hashKey: f.hashKey, now: f.now}
	conf := meta.DefaultConf()
	o.files.start(f.m, chunk.NewCachedStore(f.blob, *cc, nil), &vfs.Config{Meta: conf, Format: format, Chunk: cc})
	return o
}

// TestCloseToOpen: a server reads data that the other server has stored, whatever is in its
// buffers.
func TestCloseToOpen(t *testing.T) {
	f := openNew(t, Local{})
	g := another(t, f)
	r, _ := create(t, f, f.Root(), "f")
	for i := range 30 {
		want := bytes.Repeat([]byte{byte('a' + i)}, 200000-i*1000)
		put(t, f, r, want, 0)
		if err := f.Setattr(me, r, &nfsserver.SetAttr{Mask: nfsserver.SetSize, Size: uint64(len(want))}); err != nil {
			t.Fatalf("Setattr me: %v", err)
		}
		commit(t, f, r)
		if got := get(t, g, r, 300000); got != string(want) {
			t.Fatalf("round %d: the other reads %d bytes that begin with %.3q", i, len(got), got)
		}
		get(t, f, r, 300000) // now both servers have buffered the data
		put(t, g, r, []byte("other"), 5)
		commit(t, g, r)
		get(t, g, r, 300000)
		if got := get(t, f, r, 10); got != string(want[:5])+"other" {
			t.Fatalf("round %d: read %q back", i, got)
		}
	}
	was := attrOf(t, f, r)
	put(t, g, r, []byte("again"), 5)
	commit(t, g, r)
	if err := g.Setattr(me, r, &nfsserver.SetAttr{Mask: nfsserver.SetMtime, Mtime: was.Mtime}); err != nil {
		t.Fatalf("Setattr me: %v", err)
	}
	if got := get(t, f, r, 10); got[5:] != "again" {
		t.Errorf("with the modification time set back: read %q", got)
	}
	create(t, g, f.Root(), "g")
	seen := map[string]bool{}
	if _, err := f.ReadDir(me, f.Root(), 0, false, func(de *nfsserver.Dirent) bool { seen[string(de.Name)] = true; return true }); err != nil || !seen["g"] {
		t.Errorf("the other's name is not listed: %v, %v", seen, err)
	}
	if err := g.files.close(); err != nil {
		t.Errorf("close: %v", err)
	}
	closeFS(t, f)
}
