// Changes by one client as another client sees them, and a client's cache of its own changes.

package fusefs_test

import (
	"fmt"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/nfsrdma/nfsrdma/nfsclient/fusefs"
	"github.com/nfsrdma/nfsrdma/nfsserver"
	"github.com/nfsrdma/nfsrdma/posixacl"
	"github.com/nfsrdma/nfsrdma/test/must"
	"golang.org/x/sys/unix"
)

// long is a timeout that never ends in a test.
const long = time.Hour

// Data written and closed by another client is visible at the next open, however long attributes
// are trusted.
func TestCloseToOpen(t *testing.T) {
	m := mount(t, options{AcMin: long, AcMax: long})
	for i := range 20 {
		text := fmt.Sprintf("version %d %s", i, strings.Repeat("x", i*1000))
		must.Succeed(t, os.WriteFile(m.there("file"), []byte(text), 0o600))
		if got, err := os.ReadFile(m.at("file")); err != nil || string(got) != text {
			t.Fatalf("after the other client's close %d: %.20q, %v", i, got, err)
		}
		mine := fmt.Sprintf("mine %d", i)
		must.Succeed(t, os.WriteFile(m.at("file"), []byte(mine), 0o600))
		if got, _ := os.ReadFile(m.there("file")); string(got) != mine {
			t.Fatalf("after our close: %q", got)
		}
	}
}

// cached repeats an operation until the kernel does it from its cache. The first times, notices
// about data from before the mount may interfere.
func (m *mounted) cached(operation string, do func()) {
	m.t.Helper()
	must.Become(m.t, "no more "+operation, func() bool {
		before := m.stats().Operations[operation]
		do()
		return m.stats().Operations[operation] == before
	})
}

// If another client has changed a file, the kernel's old pages are already gone when open returns.
func TestOpenWaitsForOldPagesToGo(t *testing.T) {
	m := mount(t, options{AcMin: long, AcMax: long})
	read := func(want string) {
		t.Helper()
		if got, err := os.ReadFile(m.at("file")); err != nil || string(got) != want {
			t.Errorf("%q, %v, want %q", got, err, want)
		}
	}
	must.Succeed(t, os.WriteFile(m.there("file"), []byte("before"), 0o600))
	m.cached("READ", func() { read("before") })
	m.say("hold notices") // notices would also drop the pages, soon
	must.Succeed(t, os.WriteFile(m.there("file"), []byte("after!"), 0o600))
	read("after!")
}

// Attributes and names trusted for an hour are fetched again after a suspend of two hours, although
// no clock of the process has moved.
func TestCachesGrowOldInSleep(t *testing.T) {
	m := mount(t, options{AcMin: long, AcMax: long})
	must.Succeed(t, os.WriteFile(m.there("file"), []byte("x"), 0o600))
	size := func() int64 {
		st, err := os.Stat(m.at("file"))
		must.Succeed(t, err)
		return st.Size()
	}
	absent := func() bool {
		_, err := os.Stat(m.at("new"))
		return err != nil
	}
	m.cached("LOOKUP", func() {
		if n := size(); n != 1 || !absent() {
			t.Fatalf("%d bytes", n)
		}
	})
	must.Succeed(t, os.WriteFile(m.there("file"), []byte("longer"), 0o600))
	must.Succeed(t, os.WriteFile(m.there("new"), nil, 0o600))
	if n := size(); n != 1 || !absent() {
		t.Errorf("%d bytes: it was asked for again, and this test shows nothing", n)
	}
	m.say("sleep")
	must.Become(t, "the new size and name", func() bool { return size() == 6 && !absent() })
}

// Data written here or read once stays in the kernel's pages, through opens and closes, until a
// foreign change.
func TestOwnWritesKeepPages(t *testing.T) {
	m := mount(t, options{AcMin: long, AcMax: long})
	data := []byte(strings.Repeat("0123456789abcdef", 1<<14))
	must.Succeed(t, os.WriteFile(m.at("file"), data, 0o600))
	read := func() {
		t.Helper()
		if got, err := os.ReadFile(m.at("file")); err != nil || string(got) != string(data) {
			t.Fatalf("%d bytes read, %v", len(got), err)
		}
	}
	read()
	before := m.stats()
	for i := range 5 {
		file, err := os.OpenFile(m.at("file"), os.O_RDWR, 0)
		must.Succeed(t, err)
		data[i] = 'W'
		_, err = file.WriteAt([]byte("W"), int64(i))
		must.Succeed(t, err)
		must.Succeed(t, file.Close())
		read()
	}
	after := m.stats()
	if n := after.Operations["READ"] - before.Operations["READ"]; n != 0 {
		t.Errorf("%d READs of what is in the pages", n)
	}
	if n := after.ForeignChanges; n != 0 {
		t.Errorf("%d of our writes were taken for another client's", n)
	}
	data[7] = 'F'
	must.Succeed(t, os.WriteFile(m.there("file"), data, 0o600))
	read()
	if n := m.stats().ForeignChanges; n == 0 {
		t.Error("another client's write was not noticed")
	}
}

// An open file shows a foreign change after the attributes have timed out, without a new open.
func TestForeignChangeReachesOpenFile(t *testing.T) {
	m := mount(t, options{AcMin: 50 * time.Millisecond, AcMax: 100 * time.Millisecond})
	must.Succeed(t, os.WriteFile(m.there("file"), []byte("before"), 0o600))
	file, err := os.Open(m.at("file"))
	must.Succeed(t, err)
	defer file.Close()
	buf := make([]byte, 6)
	_, err = file.ReadAt(buf, 0)
	must.Succeed(t, err)
	must.Succeed(t, os.WriteFile(m.there("file"), []byte("after!"), 0o600))
	must.Become(t, "the open file shows what another client wrote", func() bool {
		_, err := file.ReadAt(buf, 0)
		return err == nil && string(buf) == "after!"
	})
}

// Names made and removed by another client are visible after the directory's attributes have timed
// out; absent names stay absent until then.
func TestNamesOfOthers(t *testing.T) {
	m := mount(t, options{AcMin: 50 * time.Millisecond, AcMax: 100 * time.Millisecond})
	exists := func(name string) bool {
		_, err := os.Lstat(m.at(name))
		return err == nil
	}
	for i := range 5 {
		name := fmt.Sprint("name", i)
		if exists(name) {
			t.Fatal("it exists already")
		}
		must.Succeed(t, os.WriteFile(m.there(name), nil, 0o600))
		must.Become(t, "the new name is seen", func() bool { return exists(name) })
		must.Succeed(t, os.Remove(m.there(name)))
		must.Become(t, "the removed name is gone", func() bool { return !exists(name) })
	}
}

// An absent name costs one call, until we make it.
func TestAbsentNamesAreCached(t *testing.T) {
	m := mount(t, options{AcMin: long, AcMax: long})
	for range 10 {
		_, err := os.Stat(m.at("absent"))
		want(t, err, syscall.ENOENT)
	}
	if n := m.stats().Calls["LOOKUP"].Count; n > 2 {
		t.Errorf("%d LOOKUPs of one absent name", n)
	}
	must.Succeed(t, os.WriteFile(m.at("absent"), []byte("x"), 0o600))
	if _, err := os.Stat(m.at("absent")); err != nil {
		t.Errorf("stat: %v", err)
	}
}

// A listing provides the attributes of all its names.
func TestListingBringsAttributes(t *testing.T) {
	m := mount(t, options{AcMin: long, AcMax: long})
	for i := range 100 {
		must.Succeed(t, os.WriteFile(m.there(fmt.Sprint(i)), []byte("data"), 0o600))
	}
	for range 3 {
		list, err := os.ReadDir(m.dir)
		must.Succeed(t, err)
		for _, e := range list {
			if st, err := os.Lstat(m.at(e.Name())); err != nil || st.Size() != 4 {
				t.Fatalf("%s: %v", e.Name(), err)
			}
		}
	}
	s := m.stats()
	if n := s.Calls["LOOKUP"].Count + s.Calls["GETATTR"].Count; n > 5 {
		t.Errorf("%d calls for attributes that the listing brought: %v", n, s.Calls)
	}
	if n := s.Calls["READDIRPLUS"].Count; n > 2 {
		t.Errorf("%d READDIRPLUS of a directory that nobody changes", n)
	}
}

// A file below directories replaced by another client is found by its name, even if the server
// shows no change of the topmost directory.
func TestStaleHandleIsFoundByName(t *testing.T) {
	for _, remember := range []bool{false, true} {
		m := mount(t, options{AcMin: long, AcMax: long, Remember: remember})
		must.Succeed(t, os.MkdirAll(m.there("dir/sub"), 0o755))
		for i := range 5 {
			text := fmt.Sprint("life ", i)
			must.Succeed(t, os.WriteFile(m.there("dir/sub/file"), []byte(text), 0o600))
			got, err := os.ReadFile(m.at("dir/sub/file"))
			if err != nil || string(got) != text {
				t.Fatalf("change of the top directory hidden: %v: %q, %v", remember, got, err)
			}
			must.Succeed(t, os.RemoveAll(m.there("dir")))
			must.Succeed(t, os.MkdirAll(m.there("dir/sub"), 0o755))
		}
	}
}

// O_EXCL fails for an existing file, O_APPEND writes at the end, O_TRUNC truncates.
func TestExclusiveAndAppend(t *testing.T) {
	m := mount(t, options{})
	file, err := os.OpenFile(m.at("file"), os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o640)
	must.Succeed(t, err)
	_, err = file.WriteString("one")
	must.Succeed(t, err)
	must.Succeed(t, file.Close())
	st, err := os.Stat(m.at("file"))
	must.Succeed(t, err)
	if st.Mode() != 0o640 || time.Since(st.ModTime()).Abs() > time.Hour {
		t.Errorf("made exclusively: %v, %v", st.Mode(), st.ModTime())
	}
	_, err = os.OpenFile(m.at("file"), os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o640)
	want(t, err, syscall.EEXIST)
	for range 3 {
		file, err = os.OpenFile(m.at("file"), os.O_APPEND|os.O_WRONLY, 0)
		must.Succeed(t, err)
		_, err = file.WriteString("+more")
		must.Succeed(t, err)
		must.Succeed(t, file.Close())
	}
	if got, _ := os.ReadFile(m.there("file")); string(got) != "one+more+more+more" {
		t.Errorf("appended: %q", got)
	}
	file, err = os.OpenFile(m.at("file"), os.O_TRUNC|os.O_RDWR, 0)
	must.Succeed(t, err)
	must.Succeed(t, file.Truncate(5))
	must.Succeed(t, file.Close())
	if got, _ := os.ReadFile(m.there("file")); string(got) != "\x00\x00\x00\x00\x00" {
		t.Errorf("truncated: %q", got)
	}
}

// Times keep their nanoseconds; data written before they are set does not change them later.
func TestTimesToTheNanosecond(t *testing.T) {
	m := mount(t, options{})
	file, err := os.Create(m.at("file"))
	must.Succeed(t, err)
	_, err = file.WriteString("data")
	must.Succeed(t, err)
	at, mt := time.Unix(1e9, 123456789), time.Unix(2e9, 987654321)
	must.Succeed(t, os.Chtimes(m.at("file"), at, mt))
	must.Succeed(t, file.Close())
	for _, path := range []string{m.at("file"), m.there("file")} {
		st, err := os.Stat(path)
		must.Succeed(t, err)
		if !st.ModTime().Equal(mt) {
			t.Errorf("%s: %v", path, st.ModTime())
		}
	}
	must.Succeed(t, os.Chtimes(m.at("file"), at, time.Unix(-100, 0)))
	if st, _ := os.Stat(m.at("file")); !st.ModTime().Equal(time.Unix(0, 0)) {
		t.Errorf("before 1970: %v", st.ModTime())
	}
}

// Data written through a mapping is on the server after msync.
func TestSharedMapping(t *testing.T) {
	m := mount(t, options{})
	must.Succeed(t, os.WriteFile(m.at("file"), make([]byte, 10_000), 0o600))
	file, err := os.OpenFile(m.at("file"), os.O_RDWR, 0)
	must.Succeed(t, err)
	defer file.Close()
	mem, err := unix.Mmap(int(file.Fd()), 0, 10_000, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	must.Succeed(t, err)
	copy(mem[5000:], "mapped")
	must.Succeed(t, unix.Msync(mem, unix.MS_SYNC))
	if got, _ := os.ReadFile(m.there("file")); string(got[5000:5006]) != "mapped" {
		t.Errorf("after msync the server has %q", got[5000:5006])
	}
	must.Succeed(t, unix.Munmap(mem))
}

// Direct I/O bypasses the kernel's pages.
func TestDirectIO(t *testing.T) {
	m := mount(t, options{AcMin: long, AcMax: long})
	fd, err := unix.Open(m.at("file"), unix.O_RDWR|unix.O_CREAT|unix.O_DIRECT, 0o600)
	must.Succeed(t, err)
	defer unix.Close(fd)
	mem, err := unix.Mmap(-1, 0, 1<<20, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE)
	must.Succeed(t, err)
	defer unix.Munmap(mem)
	copy(mem[4096:], "direct")
	if n, err := unix.Pwrite(fd, mem, 0); n != len(mem) || err != nil {
		t.Fatalf("%d, %v", n, err)
	}
	there, err := os.OpenFile(m.there("file"), os.O_RDWR, 0)
	must.Succeed(t, err)
	defer there.Close()
	_, err = there.WriteAt([]byte("theirs"), 8192)
	must.Succeed(t, err)
	if n, err := unix.Pread(fd, mem, 0); n != len(mem) || err != nil {
		t.Fatalf("%d, %v", n, err)
	}
	if string(mem[4096:4102]) != "direct" || string(mem[8192:8198]) != "theirs" {
		t.Errorf("%q %q", mem[4096:4102], mem[8192:8198])
	}
}

// A sharedFS is a tree that several servers share.
type sharedFS struct{ nfsserver.FS }

func (f sharedFS) Info() nfsserver.Info {
	in := f.FS.Info()
	in.Shared = true
	return in
}

// If the server omits the directory's attributes from before our change, a foreign change just
// before it is seen after the attributes have timed out.
func TestNameBesideOwnChange(t *testing.T) {
	m := mount(t, options{AcMin: time.Second, AcMax: time.Second, Shared: true})
	must.Succeed(t, os.Mkdir(m.at("d"), 0o755))
	_, err := os.Lstat(m.at("d/x"))
	want(t, err, syscall.ENOENT)
	must.Succeed(t, os.WriteFile(m.there("d/x"), nil, 0o644))
	must.Succeed(t, os.WriteFile(m.at("d/own"), nil, 0o644))
	must.Become(t, "the other client's name", func() bool {
		_, err := os.Lstat(m.at("d/x"))
		return err == nil
	})
}

// A name read in a listing exists for the program, although the kernel had it as absent and no
// notice has come.
func TestListedNameIsThere(t *testing.T) {
	m := mount(t, options{AcMin: long, AcMax: long})
	// with this right known, only the listing shows the change
	must.Succeed(t, unix.Access(m.dir, unix.R_OK))
	_, err := os.Lstat(m.at("name"))
	want(t, err, syscall.ENOENT)
	m.say("hold notices")
	must.Succeed(t, os.WriteFile(m.there("name"), nil, 0o644))
	_, err = os.Lstat(m.at("name"))
	want(t, err, syscall.ENOENT) // the kernel must still have the name as absent here
	names, err := os.ReadDir(m.dir)
	must.Succeed(t, err)
	if len(names) != 1 {
		t.Fatalf("got %d names in a listing, want 1", len(names))
	}
	_, err = os.Lstat(m.at("name"))
	must.Succeed(t, err)
}

// If the reply to a call that changes no content shows a foreign change, the next open sees the
// change.
func TestOwnCallsHideNoChange(t *testing.T) {
	m := mount(t, options{AcMin: long, AcMax: long})
	acl := posixacl.ACL{{Tag: posixacl.UserObj, Perm: 6, ID: posixacl.NoID}, {Tag: posixacl.User, Perm: 4, ID: 7}, {Tag: posixacl.GroupObj, Perm: 0, ID: posixacl.NoID},
		{Tag: posixacl.Mask, Perm: 4, ID: posixacl.NoID}, {Tag: posixacl.Other, Perm: 0, ID: posixacl.NoID}}
	for name, call := range map[string]func(file string) error{
		"link":  func(file string) error { return os.Link(file, file+"-2") },
		"ACL":   func(file string) error { return unix.Setxattr(file, posixacl.AttrAccess, acl.Append(nil), 0) },
		"chmod": func(file string) error { return os.Chmod(file, 0o640) },
	} {
		must.Succeed(t, os.WriteFile(m.at(name), []byte("before"), 0o644))
		_, err := os.ReadFile(m.at(name))
		must.Succeed(t, err)
		must.Succeed(t, os.WriteFile(m.there(name), []byte("after!"), 0o644))
		must.Succeed(t, call(m.at(name)))
		if b, err := os.ReadFile(m.at(name)); err != nil || string(b) != "after!" {
			t.Errorf("%s: got %q, %v, want after!", name, b, err)
		}
	}
}

// A name that was absent appears once the mount has seen a foreign change of the directory. This
// holds for any number of names. It also holds in a directory made by the mount, where names are
// known to be absent without a LOOKUP.
func TestAbsentNamesAreForgotten(t *testing.T) {
	for _, count := range []int{1, fusefs.MaxAbsent + 10} {
		for _, made := range []bool{false, true} {
			m := mount(t, options{AcMin: long, AcMax: long})
			dir := m.there
			if made {
				dir = m.at
			}
			must.Succeed(t, os.Mkdir(dir("d"), 0o755))
			for i := range count {
				_, err := os.Lstat(m.at(fmt.Sprint("d/", i)))
				want(t, err, syscall.ENOENT)
			}
			must.Succeed(t, os.WriteFile(m.there("d/0"), nil, 0o644))
			must.Succeed(t, os.WriteFile(m.at("d/ours"), nil, 0o644))
			must.Become(t, fmt.Sprintf("the name is there, of %d, made %v", count, made), func() bool {
				_, err := os.Lstat(m.at("d/0"))
				return err == nil
			})
		}
	}
}

// With noac each use of an absent name asks the server. The directory's attributes cannot answer: a
// foreign name made during our change looks like our change.
func TestNoacAsksForAbsentNames(t *testing.T) {
	const walks = 10
	m := mount(t, options{NoAC: true})
	before := m.stats()
	for range walks {
		_, err := os.Lstat(m.at("none"))
		want(t, err, syscall.ENOENT)
	}
	d := m.stats()
	d = d.Since(&before)
	if n := d.Calls["LOOKUP"].Count; n < walks {
		t.Errorf("got %d LOOKUPs for %d walks, want one for each", n, walks)
	}
}
