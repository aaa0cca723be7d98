// Locks through the whole stack, between clients and with local programs.

package nlm

import (
	"math"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/nfsrdma/nfsrdma/nfsserver"
	"github.com/nfsrdma/nfsrdma/nfsserver/exports"
	"github.com/nfsrdma/nfsrdma/test/conformance"
	"github.com/nfsrdma/nfsrdma/test/machine"
	"github.com/nfsrdma/nfsrdma/test/must"
	"github.com/nfsrdma/nfsrdma/xdr/nlm4"
	"golang.org/x/sys/unix"
)

// TestClientsExcludeOneAnother: clients exclude each other over TCP and RDMA, on a disk and in
// memory.
func TestClientsExcludeOneAnother(t *testing.T) {
	conformance.Proves(t, "R8267-020")
	r := plainRig(t)
	r.newFile("f", 0o666)
	a, b := r.tcp("a", rootCred), r.rdma("b", rootCred)
	for _, export := range []string{"/disk", "/memory"} {
		fh := a.file(export, "f")
		a.want(export+" exclusive", a.lock(fh, 1, 10, 10, true), nlm4.Granted)
		a.want("again, as after a lost reply", a.lock(fh, 1, 10, 10, true), nlm4.Granted)
		b.want("another client", b.lock(fh, 1, 19, 1, true), nlm4.Denied)
		b.want("shared", b.lock(fh, 1, 0, 0, false), nlm4.Denied)
		a.want("another process", a.lock(fh, 2, 15, 1, false), nlm4.Denied)
		b.want("beside it", b.lock(fh, 1, 20, 5, true), nlm4.Granted)
		st, h := b.test(fh, 1, 0, 0, false)
		b.want("TEST", st, nlm4.Denied)
		must.Equal(t, "the holder's lock is exclusive", h.Exclusive, true)
		must.Equal(t, "the holder's process", h.Svid, 1)
		must.Equal(t, "holder", string(h.Owner), "owner")
		must.Equal(t, "begin of the holder's lock", h.Offset, 10)
		must.Equal(t, "length of the holder's lock", h.Length, 10)
		a.want("to shared", a.lock(fh, 1, 10, 10, false), nlm4.Granted)
		b.want("two may share", b.lock(fh, 1, 10, 2, false), nlm4.Granted)
		a.want("not exclusive any more", a.lock(fh, 1, 10, 10, true), nlm4.Denied)
		b.want("UNLOCK of all", b.unlock(fh, 1, 0, 0), nlm4.Granted)
		b.want("UNLOCK again", b.unlock(fh, 1, 0, 0), nlm4.Granted)
		a.want("alone", a.lock(fh, 1, 0, 0, true), nlm4.Granted)
		st, h = b.test(fh, 1, 5, 1, true)
		if b.want("TEST", st, nlm4.Denied); h.Offset != 0 || h.Length != 0 {
			t.Errorf("holder of all the file: %+v", h)
		}
		a.want("the middle released", a.unlock(fh, 1, 100, 100), nlm4.Granted)
		st, _ = b.test(fh, 1, 100, 100, true)
		b.want("TEST of the middle", st, nlm4.Granted)
		a.want("UNLOCK", a.unlock(fh, 1, 0, math.MaxUint64), nlm4.Granted)
		b.want("from the last byte on", b.lock(fh, 1, math.MaxInt64, math.MaxUint64, true), nlm4.Granted)
		b.want("beyond the last byte", b.lock(fh, 1, math.MaxInt64+1, 1, true), nlm4.FBig)
		b.want("UNLOCK", b.unlock(fh, 1, 0, 0), nlm4.Granted)
	}
	if n := r.lockedFiles(); n != 0 {
		t.Errorf("%d files are left", n)
	}
	if u := r.count(); u != (counts{}) {
		t.Errorf("used although nothing is locked: %+v", u)
	}
}

// program acts as another local program that has the file open. For the kernel, another open file
// description is as distinct as another process. Locks of a process could not be used: they end
// here when any descriptor of the file is closed.
func program(t *testing.T, path string) func(typ int16, s span) error {
	t.Helper()
	f := openOFD(t, path)
	return func(typ int16, s span) error {
		l := flock(typ, s)
		return unix.FcntlFlock(f.f.Fd(), unix.F_OFD_SETLK, &l)
	}
}

// TestProgramsOfThisMachine: programs exclude clients, and clients exclude programs.
func TestProgramsOfThisMachine(t *testing.T) {
	r := plainRig(t)
	path := r.newFile("f", 0o666)
	p := r.tcp("a", rootCred)
	fh := p.file("/disk", "f")
	fcntl := program(t, path)
	if err := fcntl(unix.F_WRLCK, span{4, 7}); err != nil {
		t.Fatalf("fcntl: %v", err)
	}
	p.want("in the way", p.lock(fh, 1, 0, 5, false), nlm4.Denied)
	st, h := p.test(fh, 1, 0, 0, false)
	p.want("TEST", st, nlm4.Denied)
	must.Equal(t, "begin of the holder's lock", h.Offset, 4)
	must.Equal(t, "length of the holder's lock", h.Length, 4)
	must.Equal(t, "the holder's lock is exclusive", h.Exclusive, true)
	p.want("beside it", p.lock(fh, 1, 0, 4, true), nlm4.Granted)
	p.want("and shared", p.lock(fh, 2, 8, 0, false), nlm4.Granted)
	p.want("by two", p.lock(fh, 3, 10, 10, false), nlm4.Granted)
	if err := fcntl(unix.F_RDLCK, span{3, 3}); err != unix.EAGAIN {
		t.Errorf("what a client has locked: %v", err)
	}
	if err := fcntl(unix.F_RDLCK, span{8, lastByte}); err != nil {
		t.Errorf("what clients share: %v", err)
	}
	if err := fcntl(unix.F_UNLCK, span{8, lastByte}); err != nil {
		t.Fatalf("fcntl: %v", err)
	}
	p.want("UNLOCK of one of two", p.unlock(fh, 2, 0, 0), nlm4.Granted)
	if err := fcntl(unix.F_WRLCK, span{15, 15}); err != unix.EAGAIN {
		t.Errorf("what the other of two still has: %v", err)
	}
	if err := fcntl(unix.F_WRLCK, span{9, 9}); err != nil {
		t.Errorf("what it has not: %v", err)
	}
	// a client waits for a local program's lock, and gets the lock once the program has released it
	p.want("LOCK that waits", p.block(fh, 7, 4, 4, true), nlm4.Blocked)
	time.Sleep(10 * r.locks.pause) // time for some polls in vain
	if err := fcntl(unix.F_UNLCK, span{0, lastByte}); err != nil {
		t.Fatalf("fcntl: %v", err)
	}
	a := await(t, "GRANTED", r.daemon.granted)
	must.Equal(t, "process of GRANTED", a.Lock.Svid, 7)
	must.Equal(t, "GRANTED is exclusive", a.Exclusive, true)
	must.Equal(t, "begin of GRANTED", a.Lock.Offset, 4)
	must.Equal(t, "length of GRANTED", a.Lock.Length, 4)
	if err := fcntl(unix.F_RDLCK, span{4, 4}); err != unix.EAGAIN {
		t.Errorf("after GRANTED: %v", err)
	}
}

// TestFilesThatCannotBeLocked: some files cannot be locked, and some users cannot lock.
func TestFilesThatCannotBeLocked(t *testing.T) {
	machine.NeedRoot(t, "needs root: files of several users")
	r := newRig(t, Options{}, nfsserver.Squash{TrustLocal: true}, false, nil)
	r.newFile("open", 0o644)
	r.newFile("secret", 0o600)
	own := r.newFile("own", 0o000)
	if err := os.Chown(own, 1000, 1000); err != nil {
		t.Fatalf("os.Chown: %v", err)
	}
	if err := os.Mkdir(filepath.Join(r.dir, "dir"), 0o755); err != nil {
		t.Fatalf("os.Mkdir: %v", err)
	}
	gone := r.newFile("gone", 0o666)
	root, user := r.tcp("a", rootCred), r.tcp("a", userCred)
	open, secret, owned, dir, lost := user.file("/disk", "open"), user.file("/disk", "secret"), user.file("/disk", "own"), user.file("/disk", "dir"), user.file("/disk", "gone")
	if err := os.Remove(gone); err != nil {
		t.Fatalf("os.Remove: %v", err)
	}
	user.want("who can read", user.lock(open, 1, 0, 0, true), nlm4.Granted)
	user.want("who can not", user.lock(secret, 1, 0, 0, false), nlm4.Failed)
	root.want("root, who is nobody here", root.lock(secret, 1, 0, 0, false), nlm4.Failed)
	user.want("the owner", user.lock(owned, 1, 0, 0, true), nlm4.Granted)
	root.want("not the owner", root.lock(owned, 1, 1, 1, false), nlm4.Failed)
	user.want("a directory", user.lock(dir, 1, 0, 0, false), nlm4.Failed)
	user.want("a file that is gone", user.lock(lost, 1, 0, 0, false), nlm4.StaleFH)
	user.want("no handle", user.lock([]byte("handle"), 1, 0, 0, false), nlm4.StaleFH)
	user.want("a handle with another MAC", user.lock(append(open[:len(open)-1:len(open)-1], 99), 1, 0, 0, false), nlm4.StaleFH)
	st, _ := root.test(secret, 1, 0, 0, false)
	root.want("TEST of what it cannot read", st, nlm4.Failed)
}

// TestReadOnlyExport: exclusive locks are refused in a read-only export.
func TestReadOnlyExport(t *testing.T) {
	dir := t.TempDir()
	r := newRig(t, Options{StateDir: dir}, believeAll, true, nil)
	r.newFile("f", 0o666)
	p := r.tcp("a", rootCred)
	fh := p.file("/disk", "f")
	p.want("exclusive", p.lock(fh, 1, 0, 0, true), nlm4.ROFS)
	p.want("shared", p.lock(fh, 1, 0, 0, false), nlm4.Granted)
}

// TestLockedFileThatIsRemoved: the locks of a removed file can still be released.
func TestLockedFileThatIsRemoved(t *testing.T) {
	r := plainRig(t)
	path := r.newFile("f", 0o666)
	p := r.tcp("a", rootCred)
	fh := p.file("/disk", "f")
	p.want("LOCK", p.lock(fh, 1, 0, 0, true), nlm4.Granted)
	if err := os.Remove(path); err != nil {
		t.Fatalf("os.Remove: %v", err)
	}
	p.want("UNLOCK", p.unlock(fh, 1, 0, 0), nlm4.Granted)
	if n := r.lockedFiles(); n != 0 {
		t.Errorf("%d files with locks", n)
	}
}

// TestExportThatIsNoMore: when an export is removed its locks are released, so its file system can
// be unmounted. Locks in other exports stay.
func TestExportThatIsNoMore(t *testing.T) {
	r := plainRig(t)
	path := r.newFile("f", 0o666)
	p := r.tcp("a", rootCred)
	disk, memory := p.file("/disk", "f"), p.file("/memory", "f")
	p.want("LOCK", p.lock(disk, 1, 0, 0, true), nlm4.Granted)
	p.want("LOCK", p.lock(memory, 1, 0, 0, true), nlm4.Granted)
	if err := r.nfs.Replace([]nfsserver.Export{{Name: "/memory"}}); err != nil {
		t.Fatalf("Replace: %v", err)
	}
	p.want("UNLOCK of a file that is no more", p.unlock(disk, 1, 0, 0), nlm4.StaleFH)
	r.locks.sweep(time.Now())
	if err := program(t, path)(unix.F_WRLCK, span{0, lastByte}); err != nil {
		t.Errorf("a program of this machine: %v", err)
	}
	p.want("another export's", p.lock(memory, 2, 0, 0, true), nlm4.Denied)
}

// TestExportsRules: a client that an export does not admit cannot lock its files, and a client
// without write access cannot lock exclusively.
func TestExportsRules(t *testing.T) {
	r := plainRig(t)
	r.newFile("f", 0o666)
	p := r.tcp("a", rootCred)
	fh := p.file("/disk", "f")
	for _, c := range []struct {
		line               string
		exclusive, sharing nlm4.Status
	}{
		{"/disk 127.0.0.0/8(rw,insecure)", nlm4.Granted, nlm4.Granted},
		{"/disk 127.0.0.0/8(ro,insecure)", nlm4.ROFS, nlm4.Granted},
		{"/disk 192.0.2.0/24(rw,insecure)", nlm4.Failed, nlm4.Failed},
	} {
		rules, err := exports.Parse("rules", []byte(c.line+"\n"))
		if err != nil {
			t.Fatalf("exports.Parse: %v", err)
		}
		if err := r.nfs.Replace([]nfsserver.Export{{Name: "/disk", Rules: rules.Exports[0]}, {Name: "/memory"}}); err != nil {
			t.Fatalf("Replace: %v", err)
		}
		p.want(c.line+" exclusive", p.lock(fh, 1, 0, 0, true), c.exclusive)
		p.want(c.line+" shared", p.lock(fh, 1, 0, 0, false), c.sharing)
	}
}
