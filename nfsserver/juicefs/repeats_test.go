// A call that one server has executed is recognized by another server when the client repeats it
// there. No other call is recognized.

package juicefs

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/juicedata/juicefs/pkg/meta"
	"github.com/nfsrdma/nfsrdma/nfsserver"
)

// calling returns me as the caller of a call that name identifies. moved means: over a new
// connection.
func calling(name string, moved bool) nfsserver.Cred {
	c := me
	c.Call = &nfsserver.CallID{Sum: sha256.Sum256([]byte(name)), Moved: moved}
	return c
}

// restarted ends a server, and starts another server for its volume in a directory.
func restarted(t *testing.T, f *FS, l Local) *FS {
	t.Helper()
	root := f.root
	closeFS(t, f)
	g := reopen(t, l)
	g.root = root
	g.calls.start(g.m)
	return g
}

// openRecording is like openNew, for a server that records calls.
func openRecording(t *testing.T, l Local) (*FS, Local) {
	t.Helper()
	l.Dir, l.UID, l.GID = newDir(t), me.UID, me.GID
	f := reopen(t, l)
	top, _, err := f.Mkdir(me, f.Root(), "top", &nfsserver.SetAttr{Mask: nfsserver.SetMode, Mode: 0o755})
	if err != nil {
		t.Fatalf("Mkdir: %v", err)
	}
	f.root, _, _ = f.parse(&top)
	f.calls.start(f.m)
	return f, l
}

// A change is one client call.
type change struct {
	name  string
	again error // the call's error if the server does not recognize it
	do    func(*FS, nfsserver.Cred) (nfsserver.Ref, error)
}

var mode755 = nfsserver.SetAttr{Mask: nfsserver.SetMode, Mode: 0o755}

// changes makes objects in dir, and returns calls that change their names.
func changes(t *testing.T, f *FS, dir nfsserver.Ref) []change {
	t.Helper()
	for _, name := range []string{"gone", "from", "old"} {
		create(t, f, dir, name)
	}
	two, _ := create(t, f, dir, "two")
	if err := f.Link(me, two, dir, "two-again"); err != nil {
		t.Fatalf("Link: %v", err)
	}
	if _, _, err := f.Mkdir(me, dir, "gone-dir", &mode755); err != nil {
		t.Fatalf("Mkdir: %v", err)
	}
	old, _, err := f.Lookup(me, dir, "old")
	if err != nil {
		t.Fatalf("Lookup: %v", err)
	}
	none := func(err error) (nfsserver.Ref, error) { return nfsserver.Ref{}, err }
	timed := nfsserver.SetAttr{Mask: nfsserver.SetMode | nfsserver.SetMtime, Mode: 0o640, Mtime: nfsserver.Time{Sec: 77}}
	return []change{
		{"create", syscall.EEXIST, func(f *FS, c nfsserver.Cred) (nfsserver.Ref, error) {
			r, _, err := f.Create(c, dir, "made", &mode755)
			return r, err
		}},
		{"create with a time", syscall.EEXIST, func(f *FS, c nfsserver.Cred) (nfsserver.Ref, error) {
			r, a, err := f.Create(c, dir, "timed", &timed)
			if err == nil && a.Mtime != timed.Mtime {
				err = fmt.Errorf("made with time %v", a.Mtime)
			}
			return r, err
		}},
		{"mkdir", syscall.EEXIST, func(f *FS, c nfsserver.Cred) (nfsserver.Ref, error) {
			r, _, err := f.Mkdir(c, dir, "made-dir", &mode755)
			return r, err
		}},
		{"symlink", syscall.EEXIST, func(f *FS, c nfsserver.Cred) (nfsserver.Ref, error) {
			r, _, err := f.Symlink(c, dir, "symlink", "target", &nfsserver.SetAttr{})
			return r, err
		}},
		{"mknod", syscall.EEXIST, func(f *FS, c nfsserver.Cred) (nfsserver.Ref, error) {
			r, _, err := f.Mknod(c, dir, "fifo", nfsserver.TypeFIFO, nfsserver.Rdev{}, &mode755)
			return r, err
		}},
		{"link", syscall.EEXIST, func(f *FS, c nfsserver.Cred) (nfsserver.Ref, error) { return none(f.Link(c, old, dir, "linked")) }},
		{"remove", syscall.ENOENT, func(f *FS, c nfsserver.Cred) (nfsserver.Ref, error) { return none(f.Remove(c, dir, "gone")) }},
		{"remove one of two", syscall.ENOENT, func(f *FS, c nfsserver.Cred) (nfsserver.Ref, error) { return none(f.Remove(c, dir, "two")) }},
		{"rmdir", syscall.ENOENT, func(f *FS, c nfsserver.Cred) (nfsserver.Ref, error) { return none(f.Rmdir(c, dir, "gone-dir")) }},
		{"rename", syscall.ENOENT, func(f *FS, c nfsserver.Cred) (nfsserver.Ref, error) { return none(f.Rename(c, dir, "from", dir, "to")) }},
	}
}

// repeated makes changes at server a, and repeats them at another server of the volume.
func repeated(t *testing.T, a *FS, other func() *FS) {
	dir, _, err := a.Mkdir(me, a.Root(), "repeated", &mode755)
	if err != nil {
		t.Fatalf("Mkdir: %v", err)
	}
	list := changes(t, a, dir)
	refs := make([]nfsserver.Ref, len(list))
	for i, ch := range list {
		if refs[i], err = ch.do(a, calling(ch.name, false)); err != nil {
			t.Fatalf("%s: %v", ch.name, err)
		}
	}
	b := other()
	now := b.now
	for i, ch := range list {
		fails := func(what string, c nfsserver.Cred) {
			t.Helper()
			if _, err := ch.do(b, c); !errors.Is(err, ch.again) {
				t.Errorf("%s, %s: %v, want %v", ch.name, what, err, ch.again)
			}
		}
		fails("by nobody's call", me)
		fails("by another call", calling("other "+ch.name, true))
		fails("by the call over a connection that is not new", calling(ch.name, false))
		b.now = func() time.Time { return now().Add(2 * markPeriod) }
		fails("when it has expired", calling(ch.name, true))
		b.now = now
		if r, err := ch.do(b, calling(ch.name, true)); err != nil || r != refs[i] {
			t.Errorf("%s, repeated: %v, %v, want %v", ch.name, r, err, refs[i])
		}
	}
}

// TestRepeatedAfterRestart: a restarted server recognizes its earlier calls, as another server
// does.
func TestRepeatedAfterRestart(t *testing.T) {
	for _, l := range []Local{{}, {TrashDays: 1}} {
		t.Run(fmt.Sprint("trash-", l.TrashDays), func(t *testing.T) {
			f, l := openRecording(t, l)
			repeated(t, f, func() *FS { f = restarted(t, f, l); return f })
			closeFS(t, f)
		})
	}
}

// TestRepeatedAtAnother: one of two servers of a volume recognizes calls that the other has
// executed.
func TestRepeatedAtAnother(t *testing.T) {
	onServices(t, func(t *testing.T, url string) {
		a := openShared(t, Options{Meta: url, SharedReplies: true})
		defer closeFS(t, a)
		if err := a.Setattr(nfsserver.Cred{}, a.Root(), &nfsserver.SetAttr{Mask: nfsserver.SetMode, Mode: 0o777}); err != nil {
			t.Fatalf("Setattr: %v", err)
		}
		b := openShared(t, Options{Meta: url, SharedReplies: true})
		defer closeFS(t, b)
		if x, y := a.calls.slot.Load(), b.calls.slot.Load(); min(x, y) < 0 || x == y {
			t.Errorf("slots %d and %d, want two", x, y)
		}
		repeated(t, a, func() *FS { return b })
	})
}

// TestRecordedButNotDone: a server has recorded a call, but not executed it. The call does not
// count as executed because others have used the names.
func TestRecordedButNotDone(t *testing.T) {
	f, l := openRecording(t, Local{})
	dir := f.Root()
	for _, name := range []string{"removed", "renamed", "linked"} {
		create(t, f, dir, name)
	}
	n := func(name string) *inode {
		r, _, err := f.Lookup(me, dir, name)
		if err != nil {
			t.Fatalf("Lookup: %v", err)
		}
		n, err := f.load(&r)
		if err != nil {
			t.Fatalf("load: %v", err)
		}
		return n
	}
	f.calls.begin(f, opRemove, calling("remove", false).Call, n("removed"))(syscall.EIO)
	f.calls.begin(f, opRename, calling("rename", false).Call, n("renamed"))(syscall.EIO)
	f.calls.begin(f, opLink, calling("link", false).Call, n("linked"))(syscall.EIO)
	linked := f.ref(n("linked").ino, nfsserver.TypeReg)
	f = restarted(t, f, l)
	defer closeFS(t, f)
	// Another client moves both files, and makes the link's name.
	for _, name := range []string{"removed", "renamed"} {
		if err := f.Rename(me, dir, name, dir, name+"-elsewhere"); err != nil {
			t.Fatalf("Rename: %v", err)
		}
	}
	create(t, f, dir, "link")
	if err := f.Remove(calling("remove", true), dir, "removed"); !errors.Is(err, syscall.ENOENT) {
		t.Errorf("REMOVE of what was renamed: %v", err)
	}
	if err := f.Rename(calling("rename", true), dir, "renamed", dir, "to"); !errors.Is(err, syscall.ENOENT) {
		t.Errorf("RENAME of what is elsewhere: %v", err)
	}
	if err := f.Link(calling("link", true), linked, dir, "link"); !errors.Is(err, syscall.EEXIST) {
		t.Errorf("LINK to a name of another file: %v", err)
	}
}

// TestLinkThatWasThere: a server crashed before it could refuse a LINK to a name that the file
// already has. The call did not make that name, or the name in the trash.
func TestLinkThatWasThere(t *testing.T) {
	for _, days := range []int{0, 1} {
		t.Run(fmt.Sprintf("trash for %d days", days), func(t *testing.T) {
			f, l := openRecording(t, Local{TrashDays: days})
			dir := f.Root()
			r, _ := create(t, f, dir, "file")
			err := errors.Join(f.Link(me, r, dir, "name"), f.Link(me, r, dir, "removed"), f.Remove(me, dir, "removed"))
			n, loaded := f.load(&r)
			if err = errors.Join(err, loaded); err != nil {
				t.Fatalf("load and write: %v", err)
			}
			f.calls.begin(f, opLink, calling("link", false).Call, n)(syscall.EIO)
			f = restarted(t, f, l)
			defer closeFS(t, f)
			if err := f.Link(calling("link", true), r, dir, "name"); !errors.Is(err, syscall.EEXIST) {
				t.Errorf("LINK to a name that was there before: %v", err)
			}
		})
	}
}

// TestFailedCallHasNoRecord: a refused call does not count as executed after others have made the
// same change.
func TestFailedCallHasNoRecord(t *testing.T) {
	f, l := openRecording(t, Local{})
	dir, _, err := f.Mkdir(me, f.Root(), "d", &mode755)
	if err != nil {
		t.Fatalf("Mkdir: %v", err)
	}
	create(t, f, dir, "f")
	if err := f.Rmdir(calling("rmdir", false), f.Root(), "d"); !errors.Is(err, syscall.ENOTEMPTY) {
		t.Fatal(err)
	}
	f = restarted(t, f, l)
	defer closeFS(t, f)
	if err := f.Remove(me, dir, "f"); err != nil {
		t.Fatalf("Remove: %v", err)
	}
	if err := f.Rmdir(me, f.Root(), "d"); err != nil {
		t.Fatalf("Rmdir: %v", err)
	}
	if err := f.Rmdir(calling("rmdir", true), f.Root(), "d"); !errors.Is(err, syscall.ENOENT) {
		t.Errorf("RMDIR that was refused, repeated: %v", err)
	}
}

// TestSearchOfRecords: search finds a record in the bytes that the service has stored. It finds
// none in truncated bytes or under another sum.
func TestSearchOfRecords(t *testing.T) {
	now := time.Unix(1e9, 0)
	r := record{sum: [16]byte{1, 2, 3}, ino: 7, nlink: 3, at: now}
	b := r.append(make([]byte, 1))
	if got, ok := search(b, r.sum, now); !ok || got != r {
		t.Errorf("%+v, %v, want %+v", got, ok, r)
	}
	for n := range b {
		if _, ok := search(b[:n], r.sum, now); ok {
			t.Errorf("found in %d bytes", n)
		}
	}
	if _, ok := search(b, [16]byte{1, 2, 4}, now); ok {
		t.Error("found by another sum")
	}
	if _, ok := search(b, r.sum, now.Add(recordAge)); ok {
		t.Error("found when it had expired")
	}
	if _, ok := search(append([]byte{1}, b[1:]...), r.sum, now); ok {
		t.Error("found in another version")
	}
}

// An attrCounted counts queries for extended attributes.
type attrCounted struct {
	meta.Meta
	gets, sets atomic.Int64
}

func (c *attrCounted) GetXattr(ctx meta.Context, ino meta.Ino, name string, b *[]byte) syscall.Errno {
	c.gets.Add(1)
	return c.Meta.GetXattr(ctx, ino, name, b)
}

func (c *attrCounted) SetXattr(ctx meta.Context, ino meta.Ino, name string, b []byte, flags uint32) syscall.Errno {
	c.sets.Add(1)
	return c.Meta.SetXattr(ctx, ino, name, b, flags)
}

// TestCostOfRecords: new objects need no record. Removing or moving a name costs one write of a
// record. A call over an old connection that fails costs no query.
func TestCostOfRecords(t *testing.T) {
	f, _ := openRecording(t, Local{})
	defer closeFS(t, f)
	m := f.m
	defer func() { f.m = m }()
	c := &attrCounted{Meta: m}
	for _, ch := range changes(t, f, f.Root()) {
		f.m = c
		gets, sets := c.gets.Load(), c.sets.Load()
		if _, err := ch.do(f, calling(ch.name, false)); err != nil {
			t.Fatalf("%s: %v", ch.name, err)
		}
		want := int64(0)
		if ch.again == syscall.ENOENT || ch.name == "link" {
			want = 1
		}
		if n := c.sets.Load() - sets; n != want {
			t.Errorf("%s writes %d times, want %d", ch.name, n, want)
		}
		if ch.name != "link" { // LINK writes its record before it finds the name
			sets = c.sets.Load()
			if _, err := ch.do(f, calling("other", false)); !errors.Is(err, ch.again) {
				t.Errorf("%s: %v", ch.name, err)
			}
			if n := c.sets.Load() - sets; n != 0 {
				t.Errorf("%s that fails writes %d times", ch.name, n)
			}
		}
		if n := c.gets.Load() - gets; n != 0 {
			t.Errorf("%s asks %d times", ch.name, n)
		}
	}
}

// TestRestOfWhatWasMade: a server crashed after making an object, before it set the times. When the
// call is repeated, the object gets its times, unless another client has changed it.
func TestRestOfWhatWasMade(t *testing.T) {
	f := openNew(t, Local{})
	defer closeFS(t, f)
	dir := f.Root()
	call := calling("create", true)
	// as after a crash: only the transaction has run
	r, _, err := f.Create(call, dir, "f", &mode755)
	if err != nil {
		t.Fatalf("Create: %v", err)
	}
	timed := nfsserver.SetAttr{Mask: nfsserver.SetMode | nfsserver.SetSize | nfsserver.SetAtime | nfsserver.SetMtime, Mode: 0o755, Size: 10,
		Atime: nfsserver.Time{Sec: 66}, Mtime: nfsserver.Time{Sec: 77}}
	is := func(what string, size uint64, mtime nfsserver.Time) {
		t.Helper()
		got, at, err := f.Create(call, dir, "f", &timed)
		if err != nil || got != r {
			t.Errorf("%s: %v, %v, want %v", what, got, err, r)
		}
		if at.Size != size || at.Mtime != mtime {
			t.Errorf("%s: size %d, time %v, want size %d, time %v", what, at.Size, at.Mtime, size, mtime)
		}
	}
	is("repeated", 10, timed.Mtime)
	later := nfsserver.SetAttr{Mask: nfsserver.SetSize | nfsserver.SetMtime, Size: 20, Mtime: nfsserver.Time{Sec: 99}}
	if err := f.Setattr(me, r, &later); err != nil {
		t.Fatalf("Setattr: %v", err)
	}
	is("repeated after a change", 20, later.Mtime)
}

// A doneTwice executes a removal or a move, but replies as if another server had just executed it.
type doneTwice struct{ meta.Meta }

func (d doneTwice) Unlink(ctx meta.Context, parent meta.Ino, name string, skip ...bool) syscall.Errno {
	d.Meta.Unlink(ctx, parent, name, skip...)
	return d.Meta.Unlink(ctx, parent, name, skip...)
}

func (d doneTwice) Rmdir(ctx meta.Context, parent meta.Ino, name string, skip ...bool) syscall.Errno {
	d.Meta.Rmdir(ctx, parent, name, skip...)
	return d.Meta.Rmdir(ctx, parent, name, skip...)
}

func (d doneTwice) Rename(ctx meta.Context, from meta.Ino, name string, to meta.Ino, toName string, flags uint32, ino *meta.Ino, a *meta.Attr) syscall.Errno {
	d.Meta.Rename(ctx, from, name, to, toName, flags, ino, a)
	return d.Meta.Rename(ctx, from, name, to, toName, flags, ino, a)
}

// TestDoneMeanwhile: another server has found the name, and then this server, still working on the
// call, executes it.
func TestDoneMeanwhile(t *testing.T) {
	f, l := openRecording(t, Local{})
	dir := f.Root()
	list := changes(t, f, dir)
	for name, op := range map[string]struct {
		of string
		op byte
	}{"remove": {"gone", opRemove}, "rmdir": {"gone-dir", opRmdir}, "rename": {"from", opRename}} {
		d, err := f.loadDir(&dir)
		if err != nil {
			t.Fatalf("loadDir: %v", err)
		}
		n, err := f.find(d, op.of)
		if err != nil {
			t.Fatalf("find: %v", err)
		}
		f.calls.begin(f, op.op, calling(name, false).Call, n)(syscall.EIO)
	}
	f = restarted(t, f, l)
	defer closeFS(t, f)
	m := f.m
	defer func() { f.m = m }()
	tried := 0
	for _, ch := range list {
		if ch.name != "remove" && ch.name != "rmdir" && ch.name != "rename" {
			continue
		}
		tried++
		f.m = doneTwice{m}
		_, err := ch.do(f, calling(ch.name, true))
		f.m = m
		if err != nil {
			t.Errorf("%s: %v", ch.name, err)
		}
	}
	if tried != 3 {
		t.Errorf("%d changes were tried", tried)
	}
}

// TestMarkOfAnotherPeriod: a mark counts across periods, because servers' clocks differ by seconds.
// The next period had begun for the server that made the object, or has begun since.
func TestMarkOfAnotherPeriod(t *testing.T) {
	f := openNew(t, Local{})
	defer closeFS(t, f)
	edge := time.Unix(1e9, 0).Truncate(markPeriod)
	at := func(d time.Duration) { f.now = func() time.Time { return edge.Add(d) } }
	at(time.Second)
	call := calling("mkdir", true)
	if _, _, err := f.Mkdir(call, f.Root(), "d", &mode755); err != nil {
		t.Fatalf("Mkdir: %v", err)
	}
	for _, d := range []time.Duration{-time.Second, markPeriod - time.Second, markPeriod + time.Second} {
		at(d)
		if _, _, err := f.Mkdir(call, f.Root(), "d", &mode755); err != nil {
			t.Errorf("%v after the beginning of the period: %v", d, err)
		}
	}
}
