// A server without privileges: files that it cannot open, and its results for these files.

package osfs

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/nfsrdma/nfsrdma/nfsserver"
	"github.com/nfsrdma/nfsrdma/test/machine"
	"github.com/nfsrdma/nfsrdma/test/must"
	"golang.org/x/sys/unix"
)

// plainUser is the number of the user in tests without privileges.
const plainUser = 1000

// asPlainUser runs the rest of the test in a process without privileges. That process gets a
// directory that belongs to its user; prepare, if not nil, fills the directory before. asPlainUser
// returns the directory in that process, and "" in the process that starts it. If this process is
// not root, it runs the rest itself, and prepare is not called.
func asPlainUser(t *testing.T, prepare func(dir string)) string {
	t.Helper()
	const name = "NFSRDMA_PLAIN_USER_DIR"
	if dir := os.Getenv(name); dir != "" {
		return dir
	}
	dir := tempDir(t, os.TempDir())
	program := os.Args[0]
	cmd := exec.Command(program, "-test.run=^"+t.Name()+"$")
	if os.Geteuid() == 0 {
		must.Succeed(t, os.Chown(dir, plainUser, plainUser), os.Chmod(dir, 0o755))
		if prepare != nil {
			prepare(dir)
		}
		bin := tempDir(t, os.TempDir()) // for a copy, because the user cannot reach the test binary
		must.Succeed(t, os.Chmod(bin, 0o755))
		run(t, "cp", program, bin+"/test")
		cmd.Path, cmd.Args[0] = bin+"/test", bin+"/test"
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: plainUser, Gid: plainUser}}
	}
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), name+"="+dir)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("as a user without privileges: %v: %s", err, out)
	}
	return ""
}

// TestOwnFilesWithoutPrivilege: a file's owner reads and writes it although its mode forbids this
// to the owner, also after its descriptors were closed. The mode does not change.
func TestOwnFilesWithoutPrivilege(t *testing.T) {
	dir := asPlainUser(t, nil)
	if dir == "" {
		return
	}
	f := newFS(t, dir, Options{})
	for _, mode := range []uint32{0o444, 0, 0o4111, 0o555} {
		r, _, err := f.Create(me, f.Root(), "f", &nfsserver.SetAttr{Mask: nfsserver.SetMode, Mode: mode})
		must.Succeed(t, err)
		for range 2 {
			_, err := f.WriteAt(me, r, []byte("content"), 0)
			must.Succeed(t, err)
			if n, err := f.ReadAt(me, r, make([]byte, 7), 0); n != 7 || err != nil {
				t.Errorf("mode %04o: read %d, %v", mode, n, err)
			}
			for f.cache.nodes.Load() > 0 { // waits until the descriptors are closed
				time.Sleep(10 * time.Millisecond)
			}
			if a, err := f.Getattr(r); err != nil || a.Mode != mode&^nfsserver.ModeSetuid {
				t.Errorf("mode %04o after a write to a file with mode %04o, %v", a.Mode, mode, err)
			}
		}
		if _, err := f.ReadAt(nfsserver.Cred{UID: me.UID + 1}, r, make([]byte, 1), 0); !errors.Is(err, syscall.EACCES) {
			t.Errorf("mode %04o: read by another: %v", mode, err)
		}
		must.Succeed(t, f.Remove(me, f.Root(), "f"))
	}
}

// TestSyncOfWhatCannotBeOpened: a change of an object that the server cannot read reaches stable
// storage without an error. The sync changes neither mode nor times.
func TestSyncOfWhatCannotBeOpened(t *testing.T) {
	dir := asPlainUser(t, func(dir string) {
		must.Succeed(t, os.Mkdir(filepath.Join(dir, "dropbox"), 0o700), os.Chmod(filepath.Join(dir, "dropbox"), 0o733))
	})
	if dir == "" {
		return
	}
	f := newFS(t, dir, Options{})
	synced := 0
	defer func(real func(int) error) { syncfs = real }(syncfs)
	syncfs = func(fd int) error { synced++; return unix.Syncfs(fd) }
	settle := func(what string, r nfsserver.Ref) {
		t.Helper()
		f.cache.closeAll() // so r is not open
		before, err := f.Getattr(r)
		must.Succeed(t, err)
		for _, dataOnly := range []bool{false, true} {
			synced = 0
			if err := f.Sync(r, dataOnly); err != nil {
				t.Errorf("Sync of %s: %v", what, err)
			}
			if synced != 1 {
				t.Errorf("Sync of %s: the file system was synced %d times", what, synced)
			}
		}
		if after, err := f.Getattr(r); err != nil || after != before {
			t.Errorf("Sync of %s: attributes %+v, were %+v, %v", what, after, before, err)
		}
	}
	set := func(mode uint32) *nfsserver.SetAttr {
		return &nfsserver.SetAttr{Mask: nfsserver.SetMode, Mode: mode}
	}
	for _, mode := range []uint32{0, 0o2000, 0o111} {
		r := createFile(t, f, f.Root(), "file", "content")
		must.Succeed(t, f.Setattr(me, r, set(mode)))
		settle("a file", r)
		must.Succeed(t, f.Remove(me, f.Root(), "file"))
	}
	boxes := map[string]nfsserver.Ref{}
	if d, _, err := f.Lookup(me, f.Root(), "dropbox"); err == nil { // made by prepare, for root
		boxes["dropbox"] = d
	}
	for name, mode := range map[string]uint32{"0300": 0o300, "0333": 0o333} {
		d, _, err := f.Mkdir(me, f.Root(), name, set(mode))
		must.Succeed(t, err)
		boxes[name] = d
	}
	for name, d := range boxes {
		settle(name, d)
		sub, _, err := f.Mkdir(me, d, "sub", set(0o300))
		must.Succeed(t, err)
		settle(name+" after Mkdir", d)
		r := createFile(t, f, sub, "f", "x")
		must.Succeed(t, f.Link(me, r, d, "link"))
		settle(name+" after Link", d)
		must.Succeed(t, f.Rename(me, sub, "f", d, "link2"), f.Remove(me, d, "link"), f.Remove(me, d, "link2"), f.Rmdir(me, d, "sub"))
		settle(name+" after Rmdir", d)
	}
	closed, _, err := f.Mkdir(me, f.Root(), "closed", set(0))
	must.Succeed(t, err)
	settle("closed", closed)
}

// TestSyncWithoutDescriptors: a change is made while the process cannot open files. It reaches
// stable storage through files that are open.
func TestSyncWithoutDescriptors(t *testing.T) {
	f := newFS(t, t.TempDir(), Options{})
	r := createFile(t, f, f.Root(), "f", "content")
	f.cache.closeAll()
	f.flush.done.Wait()
	n, err := f.acquire(&r) // the only node is in use, so no node can be closed for another
	must.Succeed(t, err)
	defer f.cache.release(n)
	var limit unix.Rlimit
	must.Succeed(t, unix.Getrlimit(unix.RLIMIT_NOFILE, &limit))
	defer unix.Setrlimit(unix.RLIMIT_NOFILE, &limit)
	// no descriptor from 3 on can be opened
	must.Succeed(t, unix.Setrlimit(unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: 3, Max: limit.Max}))
	_, opens := f.reader(n)
	err = f.Sync(r, false)
	if opens != unix.EMFILE || err != nil {
		t.Errorf("Sync: %v, where to open gives %v", err, opens)
	}
}

// TestSetIDOfAnother: another user's file has set-id bits. A WRITE, and a change of its size,
// succeed as its mode allows, and clear the bits.
func TestSetIDOfAnother(t *testing.T) {
	modes := map[string]uint32{"user": 0o4666, "group": 0o2676, "both": 0o6776}
	dir := asPlainUser(t, func(dir string) {
		for name, mode := range modes {
			for _, path := range []string{filepath.Join(dir, name+"-write"), filepath.Join(dir, name+"-cut")} {
				write(t, "before", path)
				must.Succeed(t, os.Chown(path, 2000, 2000), unix.Chmod(path, mode))
			}
		}
	})
	if dir == "" {
		return
	}
	f := newFS(t, dir, Options{})
	for name, mode := range modes {
		for _, how := range []string{"-write", "-cut"} {
			r, a, err := f.Lookup(me, f.Root(), name+how)
			if errors.Is(err, syscall.ENOENT) {
				t.Skip("this process is not root's, and cannot have files of others")
			}
			must.Succeed(t, err)
			if a.Mode != mode || a.UID == me.UID {
				t.Fatalf("%s: mode %o of user %d", name, a.Mode, a.UID)
			}
			want := "BEFORE"
			if how == "-write" {
				_, err = f.WriteAt(me, r, []byte(want), 0)
			} else {
				want = "bef"
				err = f.Setattr(me, r, &nfsserver.SetAttr{Mask: nfsserver.SetSize | nfsserver.SetMtimeNow, Size: 3})
			}
			if err != nil {
				t.Errorf("%s: %v", name+how, err)
			}
			if err := f.Sync(r, false); err != nil {
				t.Errorf("%s: Sync: %v", name+how, err)
			}
			b, err := os.ReadFile(filepath.Join(dir, name+how))
			if a, _ := f.Getattr(r); string(b) != want || a.Mode&setIDBits != 0 {
				t.Errorf("%s: %q, mode %o, %v", name+how, b, a.Mode, err)
			}
		}
	}
}

// TestUserNamespace: the server is root of a user namespace without other users. Objects are made
// whatever owner the request has. Set-id bits in the request are meant for that owner, and are not
// set.
func TestUserNamespace(t *testing.T) {
	const name = "NFSRDMA_USER_NAMESPACE_DIR"
	dir := os.Getenv(name)
	if dir == "" {
		machine.NeedRoot(t, "mounts, real file systems and other users: needs root")
		dir = tempDir(t, os.TempDir())
		cmd := exec.Command(os.Args[0], "-test.run=^"+t.Name()+"$")
		cmd.Env = append(os.Environ(), name+"="+dir)
		cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWUSER,
			UidMappings: []syscall.SysProcIDMap{{Size: 1}}, GidMappings: []syscall.SysProcIDMap{{Size: 1}}}
		if out, err := cmd.CombinedOutput(); err != nil || !strings.Contains(string(out), "PASS") {
			t.Errorf("%v: %s", err, out)
		}
		return
	}
	f := newFS(t, dir, Options{})
	give := nfsserver.SetAttr{Mask: nfsserver.SetMode | nfsserver.SetUID | nfsserver.SetGID, Mode: 0o6751, UID: 1000, GID: 1000}
	for what, mk := range map[string]func() (nfsserver.Ref, nfsserver.Attr, error){
		"Create":  func() (nfsserver.Ref, nfsserver.Attr, error) { return f.Create(me, f.Root(), "file", &give) },
		"Mkdir":   func() (nfsserver.Ref, nfsserver.Attr, error) { return f.Mkdir(me, f.Root(), "dir", &give) },
		"Symlink": func() (nfsserver.Ref, nfsserver.Attr, error) { return f.Symlink(me, f.Root(), "link", "x", &give) },
		"Mknod": func() (nfsserver.Ref, nfsserver.Attr, error) {
			return f.Mknod(me, f.Root(), "fifo", nfsserver.TypeFIFO, nfsserver.Rdev{}, &give)
		},
	} {
		_, a, err := mk()
		want := uint32(0o751)
		if what == "Symlink" {
			want = 0o777
		}
		must.Succeed(t, err)
		if got, want := [3]uint32{a.UID, a.GID, a.Mode}, [3]uint32{0, 0, want}; got != want {
			t.Errorf("%s for an unknown user: got user, group, mode %o, want %o", what, got, want)
		}
	}
}
