// O_EXCL costs one call. The mount distinguishes a file from its own repeated CREATE from another
// client's file.

package fusefs_test

import (
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/nfsrdma/nfsrdma/nfsserver"
	"github.com/nfsrdma/nfsrdma/test/must"
)

// A repeatingFS makes each file twice. The second attempt stands for a retransmission after a lost
// reply, to a server without memory of the first.
type repeatingFS struct{ nfsserver.FS }

func (r repeatingFS) Create(c nfsserver.Cred, dir nfsserver.Ref, name string, s *nfsserver.SetAttr) (nfsserver.Ref, nfsserver.Attr, error) {
	if ref, attr, err := r.FS.Create(c, dir, name, s); err != nil {
		return ref, attr, err
	}
	return r.FS.Create(c, dir, name, s)
}

// makeNew makes a file that must not exist, and closes it.
func makeNew(name string, mode os.FileMode) error {
	f, err := os.OpenFile(name, os.O_CREATE|os.O_EXCL|os.O_WRONLY, mode)
	if err != nil {
		return err
	}
	return f.Close()
}

// Only the first new file needs a SETATTR, which shows whether the server keeps exact times.
func TestExclusiveCreateBringsTheMode(t *testing.T) {
	m := mount(t, options{})
	const files = 10
	for i := range files {
		start, name := time.Now(), fmt.Sprint(i)
		must.Succeed(t, makeNew(m.at(name), 0o640))
		for _, path := range []string{m.at(name), m.there(name)} {
			var st syscall.Stat_t
			must.Succeed(t, syscall.Stat(path, &st))
			if mode := st.Mode & 0o7777; mode != 0o640 {
				t.Errorf("%s: mode %o, want 640", path, mode)
			}
			if at := time.Unix(st.Atim.Unix()); at.Before(start.Add(-2*time.Second)) || at.After(time.Now()) {
				t.Errorf("%s: atime %v, want 2 s before %v at most, and not in the future", path, at, start)
			}
		}
	}
	if c := m.stats().Calls; c["CREATE"].Count != files || c["SETATTR"].Count != 1 {
		t.Errorf("%d CREATEs and %d SETATTRs for %d files", c["CREATE"].Count, c["SETATTR"].Count, files)
	}
}

// A file that an earlier transmission of the mount's CREATE has made counts as the mount's own
// file. Another client's file does not.
func TestExclusiveCreateThatWasRepeatedIsOurs(t *testing.T) {
	m := mount(t, options{AcMin: long, AcMax: long, Twice: true})
	for i := range 5 {
		name := fmt.Sprint(i)
		must.Succeed(t, makeNew(m.at(name), 0o640))
		fi, err := os.Stat(m.there(name))
		must.Succeed(t, err)
		if fi.Mode().Perm() != 0o640 {
			t.Errorf("%s: mode %o", name, fi.Mode().Perm())
		}
		_, err = os.Lstat(m.at("lock" + name)) // the kernel caches the absent name for long
		want(t, err, syscall.ENOENT)
		must.Succeed(t, makeNew(m.there("lock"+name), 0o640))
		want(t, makeNew(m.at("lock"+name), 0o640), syscall.EEXIST)
	}
	// four repeated CREATEs failed, and at least the first for another client's name
	if c := m.stats().Calls; c["CREATE"].Errors < 5 {
		t.Errorf("%d CREATEs were refused: another client's files were not met", c["CREATE"].Errors)
	}
}

// A name cached by the kernel is free again after another client has removed it, for each kind of
// new object. Meanwhile stat costs no call.
func TestMakingAsksForKnownNames(t *testing.T) {
	m := mount(t, options{AcMin: long, AcMax: long})
	for kind, make := range map[string]func(name string) error{
		"file":      func(name string) error { return makeNew(name, 0o640) },
		"directory": func(name string) error { return os.Mkdir(name, 0o750) },
		"link":      func(name string) error { return os.Symlink("target", name) },
		"FIFO":      func(name string) error { return syscall.Mkfifo(name, 0o640) },
		"hard link": func(name string) error { return os.Link(m.at("first"), name) },
		"moved": func(name string) error {
			must.Succeed(t, makeNew(m.at("from"), 0o640))
			must.Succeed(t, os.Rename(m.at("from"), name+"-moved"))
			_, err := os.Lstat(name + "-moved")
			must.Succeed(t, err)
			must.Succeed(t, os.Remove(m.there("moved-moved")))
			return makeNew(name+"-moved", 0o640)
		},
	} {
		must.Succeed(t, os.WriteFile(m.at("first"), nil, 0o640))
		must.Succeed(t, makeNew(m.at(kind), 0o640))
		before := m.stats().Calls["LOOKUP"].Count
		for range 10 {
			_, err := os.Lstat(m.at(kind))
			must.Succeed(t, err)
		}
		// the kernel may notice the last removal only now
		if n := m.stats().Calls["LOOKUP"].Count - before; n > 5 {
			t.Errorf("%s: got %d LOOKUPs of a name that is known, want none", kind, n)
		}
		must.Succeed(t, os.Remove(m.there(kind)))
		if err := make(m.at(kind)); err != nil {
			t.Errorf("%s: got %v, want it made", kind, err)
		}
	}
}

// A name cached from a listing is also free again after another client has removed it.
func TestMakingAsksForListedNames(t *testing.T) {
	m := mount(t, options{AcMin: long, AcMax: long})
	for i := range 9 {
		must.Succeed(t, os.WriteFile(m.there(fmt.Sprint(i)), nil, 0o640))
	}
	must.Succeed(t, syscall.Access(m.dir, 1)) // the right to search is known from here on
	for i := 0; m.stats().Calls["READDIRPLUS"].Count == 0; i++ {
		if i == 9 {
			t.Fatal("the directory was not listed")
		}
		_, err := os.Lstat(m.at(fmt.Sprint(i)))
		must.Succeed(t, err)
		if m.stats().Calls["READDIRPLUS"].Count > 0 {
			must.Succeed(t, os.Remove(m.there(fmt.Sprint(i))))
			must.Succeed(t, makeNew(m.at(fmt.Sprint(i)), 0o640))
		}
	}
}

// As in TestMakingAsksForListedNames, on a mount for several users in directories without ACLs. The
// server is asked for an ACL only for the first directory.
func TestMakingAsksWithoutACLs(t *testing.T) {
	m := mount(t, options{AcMin: long, AcMax: long, AllowOther: true, Plain: true})
	for _, dir := range []string{"first", "second"} {
		must.Succeed(t, os.Mkdir(m.there(dir), 0o755))
		name := filepath.Join(dir, "name")
		must.Succeed(t, makeNew(m.at(name), 0o640))
		before := m.stats().Operations["LOOKUP"]
		for range 10 {
			_, err := os.Lstat(m.at(name))
			must.Succeed(t, err)
		}
		if n := m.stats().Operations["LOOKUP"] - before; n > 2 {
			t.Errorf("%s: got %d LOOKUPs of the kernel, want at most 2 of a name that is known", dir, n)
		}
		must.Succeed(t, os.Remove(m.there(name)))
		if err := makeNew(m.at(name), 0o640); err != nil {
			t.Errorf("%s: got %v, want it made", dir, err)
		}
	}
}

// As in TestMakingAsksForListedNames, in a directory that another client changes before the LOOKUP,
// so its cached ACL is void.
func TestMakingAsksInAChangedDirectory(t *testing.T) {
	m := mount(t, options{AcMin: long, AcMax: long, AllowOther: true})
	must.Succeed(t, os.Mkdir(m.at("dir"), 0o755))
	names := []string{"dir/name", "dir/last"}
	for _, name := range names {
		must.Succeed(t, makeNew(m.there(name), 0o640))
	}
	for _, name := range names {
		_, err := os.Lstat(m.at(name))
		must.Succeed(t, err)
	}
	must.Succeed(t, os.Remove(m.there("dir/name")))
	if err := makeNew(m.at("dir/name"), 0o640); err != nil {
		t.Errorf("got %v, want it made", err)
	}
}

// lookAt makes files as another client and calls stat, so that the mount has no pages of them. It
// then opens the first.
func (m *mounted) lookAt(names ...string) {
	m.t.Helper()
	for _, name := range names {
		must.Succeed(m.t, os.WriteFile(m.there(name), []byte(name), 0o644))
		_, err := os.Lstat(m.at(name))
		must.Succeed(m.t, err)
	}
	f, err := os.Open(m.at(names[0]))
	must.Succeed(m.t, err)
	m.t.Cleanup(func() { f.Close() })
	must.Succeed(m.t, syscall.Access(m.dir, 1)) // the right to search is known from here on
}

// A program has a file open that another client has renamed to the name to be replaced. The file
// gets a hidden name.
func TestReplacingAsksForTheKnownName(t *testing.T) {
	m := mount(t, options{AcMin: long, AcMax: long})
	m.lookAt("open", "replaced", "new")
	must.Succeed(t, os.Rename(m.there("open"), m.there("replaced")))
	must.Succeed(t, os.Rename(m.at("new"), m.at("replaced")))
	names, err := filepath.Glob(m.there(".nfs*"))
	must.Succeed(t, err)
	if len(names) != 1 {
		t.Errorf("got hidden names %v, want one", names)
	}
	if b, err := os.ReadFile(m.there("replaced")); err != nil || string(b) != "new" {
		t.Errorf("got %q, %v, want new", b, err)
	}
}

// A program has a file open that another client has removed. A rename to its name works, even if
// known names answer each walk.
func TestRenameOverANameThatIsGone(t *testing.T) {
	m := mount(t, options{AcMin: long, AcMax: long, AllowOther: true})
	must.Succeed(t, os.Chmod(m.export, 0o700)) // excludes users, so the kernel caches no names
	m.lookAt("open", "new")
	must.Succeed(t, os.Remove(m.there("open")))
	must.Succeed(t, os.Rename(m.at("new"), m.at("open")))
	if b, err := os.ReadFile(m.there("open")); err != nil || string(b) != "new" {
		t.Errorf("got %q, %v, want new", b, err)
	}
}
