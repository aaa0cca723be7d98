// Several users of one mount, and signals.

package fusefs_test

import (
	"errors"
	"net"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"syscall"
	"testing"

	"github.com/nfsrdma/nfsrdma/test/must"
	"golang.org/x/sys/unix"
)

// as runs a command as another user.
func as(t testing.TB, uid, gid uint32, groups []uint32, script string) (string, bool) {
	t.Helper()
	cmd := exec.Command("sh", "-c", script)
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uid, Gid: gid, Groups: groups}}
	out, err := cmd.CombinedOutput()
	return strings.TrimSpace(string(out)), err == nil
}

// Calls carry the caller's user and groups, and lookups by one user open nothing to another.
func TestEachUserHasHisOwnRights(t *testing.T) {
	m := mount(t, options{AllowOther: true, AcMin: long, AcMax: long})
	if out, ok := as(t, 1001, 1001, nil, "cd "+m.dir+" && umask 077 && mkdir private && echo secret >private/file && echo open >mine && chgrp 1001 mine && chmod 640 mine"); !ok {
		t.Fatal(out)
	}
	st, err := os.Stat(m.there("private/file"))
	must.Succeed(t, err)
	if owner := st.Sys().(*syscall.Stat_t); owner.Uid != 1001 || owner.Gid != 1001 {
		t.Errorf("the file is of %d:%d", owner.Uid, owner.Gid)
	}
	for _, c := range []struct {
		what   string
		uid    uint32
		groups []uint32
		script string
		ok     bool
	}{
		{"the owner reads", 1001, nil, "cat private/file", true},
		{"another does not walk through a private directory", 1002, nil, "stat private/file", false},
		{"nor read in it", 1002, nil, "cat private/file", false},
		{"nor list it", 1002, nil, "ls private", false},
		{"nor enter it", 1002, nil, "cd private", false},
		{"nor read by the group", 1002, nil, "cat mine", false},
		{"a member of the group reads", 1002, []uint32{7, 1001}, "cat mine", true},
		{"and does not write", 1002, []uint32{7, 1001}, "echo x >>mine", false},
		{"nor is told that it can", 1002, []uint32{7, 1001}, "test -w mine", false},
		{"but that it can read", 1002, []uint32{7, 1001}, "test -r mine", true},
		{"nobody but the owner changes the mode", 1002, []uint32{1001}, "chmod 666 mine", false},
		{"the owner writes", 1001, nil, "echo x >>mine", true},
		{"who has lost the right to search", 1001, nil, "chmod 0 private; for i in $(seq 600); do stat private/file || exit 1; sleep 0.1; done", false},
	} {
		if out, ok := as(t, c.uid, 1000+c.uid%1000, c.groups, "cd "+m.dir+" && "+c.script); ok != c.ok {
			t.Errorf("%s: %v, %s", c.what, ok, out)
		}
	}
}

// An open right after chmod is refused, although the kernel still has the name and no notice has
// come.
func TestRightToSearchEndsWithChmod(t *testing.T) {
	m := mount(t, options{AllowOther: true, AcMin: long, AcMax: long})
	out, ok := as(t, 1001, 1001, nil, "cd "+m.dir+` && mkdir d && echo x >d/f && for i in $(seq 100); do
		chmod 777 d; (: <d/f) || echo $i: refused
		chmod 666 d; (: <d/f) 2>/dev/null && echo $i: opened
	done; :`)
	if !ok || out != "" {
		t.Error(out)
	}
}

// A refused rename leaves its target under its name, open or not, with one name or two.
func TestFailedRenameKeepsItsTarget(t *testing.T) {
	m := mount(t, options{AllowOther: true, AcMin: long, AcMax: long})
	if out, ok := as(t, 1001, 1001, nil, "cd "+m.dir+" && mkdir -m 755 theirs && echo new >theirs/source && mkdir -m 777 ours"); !ok {
		t.Fatal(out)
	}
	out, _ := as(t, 1002, 1002, nil, "cd "+m.dir+`/ours && echo kept >one && echo kept >two && ln two other && exec 3<one 4<two
		mv -f ../theirs/source one 2>/dev/null && echo moved; mv -f ../theirs/source two 2>/dev/null && echo moved
		cat one two; exec 3<&- 4<&-; sleep 0.3; cat one two; ls -A`)
	if want := "kept\nkept\nkept\nkept\none\nother\ntwo"; out != want {
		t.Errorf("%q, want %q", out, want)
	}
}

// The server clears set-id bits when a user other than root writes, and the mount shows it.
func TestSetIDBitsAreTakenOff(t *testing.T) {
	m := mount(t, options{AllowOther: true, AcMin: long, AcMax: long})
	if out, ok := as(t, 1001, 1001, nil, "cd "+m.dir+" && echo x >file && chmod 6777 file"); !ok {
		t.Fatal(out)
	}
	if out, _ := as(t, 1002, 1002, nil, "cd "+m.dir+" && stat -c %a file && echo y >>file && stat -c %a file; stat -c %a ../export/file"); out != "6777\n777\n777" {
		t.Errorf("%q", out)
	}
}

// asUser runs do on a thread that has the file rights of another user and group.
func asUser(uid, gid int, do func()) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread() // never unlocked: the thread ends with the goroutine
		_ = unix.Setfsgid(gid)
		_ = unix.Setfsuid(uid)
		do()
	}()
	<-done
}

// The owner of a file of mode 0444 cannot open it for reading with O_TRUNC.
func TestTruncatingOpenNeedsTheRightToWrite(t *testing.T) {
	m := mount(t, options{AllowOther: true})
	must.Succeed(t, os.WriteFile(m.there("file"), []byte("data"), 0o444))
	must.Succeed(t, os.Chown(m.there("file"), 1001, 1001))
	asUser(1001, 1001, func() {
		for _, flags := range []int{os.O_RDONLY | os.O_TRUNC, os.O_RDONLY | os.O_TRUNC | os.O_CREATE} {
			_, err := os.OpenFile(m.at("file"), flags, 0o444)
			want(t, err, syscall.EACCES)
		}
		_, err := os.ReadFile(m.at("file"))
		must.Succeed(t, err)
	})
	if data, _ := os.ReadFile(m.there("file")); string(data) != "data" {
		t.Errorf("got %q, want %q", data, "data")
	}
}

// The kernel opens devices, FIFOs and sockets itself, and their permission bits apply.
func TestSpecialFilesAreForThoseWithRights(t *testing.T) {
	m := mount(t, options{AllowOther: true, AcMin: long, AcMax: long})
	for name, made := range map[string]struct{ mode, dev uint32 }{
		"fifo": {unix.S_IFIFO | 0o600, 0}, "sink": {unix.S_IFIFO | 0o622, 0}, "null": {unix.S_IFCHR, 0x103}, "block": {unix.S_IFBLK | 0o600, 0x700},
	} {
		must.Succeed(t, unix.Mknod(m.there(name), made.mode, int(made.dev)))
		must.Succeed(t, os.Chmod(m.there(name), os.FileMode(made.mode&0o777)))
	}
	socket, err := net.Listen("unix", m.at("socket"))
	must.Succeed(t, err)
	defer socket.Close()
	must.Succeed(t, os.Chmod(m.at("socket"), 0o600))
	open := func(name string, flags int) error {
		fd, err := unix.Open(m.at(name), flags|unix.O_NONBLOCK, 0)
		if err == nil {
			unix.Close(fd)
		}
		return err
	}
	use := func(refused error) {
		t.Helper()
		const fmodeExec = 0x20 // a flag that only the kernel sets; ignored here
		for _, flags := range []int{unix.O_RDONLY, unix.O_RDWR, unix.O_RDWR | fmodeExec, unix.O_PATH} {
			if err := open("fifo", flags); !errors.Is(err, refused) {
				t.Errorf("fifo with %#x: got %v, want %v", flags, err, refused)
			}
		}
		if conn, err := net.Dial("unix", m.at("socket")); !errors.Is(err, refused) {
			t.Errorf("socket: got %v, want %v", err, refused)
		} else if err == nil {
			conn.Close()
		}
		for _, name := range []string{"fifo", "sink", "null", "block", "socket"} {
			_, err := os.Lstat(m.at(name))
			must.Succeed(t, err)
		}
	}
	use(nil) // root
	asUser(1001, 1001, func() {
		use(unix.EACCES)
		want(t, open("sink", unix.O_RDONLY), unix.EACCES)
		want(t, open("sink", unix.O_WRONLY), unix.ENXIO) // the FIFO has no reader
		want(t, open("null", unix.O_RDWR), unix.EACCES)
		want(t, open("block", unix.O_WRONLY), unix.EACCES)
		want(t, os.Chmod(m.at("fifo"), 0o666), unix.EPERM)
		must.Succeed(t, os.Rename(m.at("fifo"), m.at("moved")))
		must.Succeed(t, os.Remove(m.at("moved")))
	})
	err = open("null", unix.O_RDWR)
	want(t, err, unix.EACCES) // opening a device needs default_permissions
}

// When a user has written to a set-id file, the server has cleared the bits, and the mount shows
// the new mode.
func TestWriteTakesSetIDBits(t *testing.T) {
	m := mount(t, options{AllowOther: true, AcMin: long, AcMax: long})
	must.Succeed(t, os.WriteFile(m.there("file"), []byte("program"), 0o777))
	must.Succeed(t, os.Chown(m.there("file"), 1001, 1001))
	must.Succeed(t, os.Chmod(m.there("file"), 0o777|os.ModeSetuid))
	asUser(1002, 1002, func() {
		f, err := os.OpenFile(m.at("file"), os.O_RDWR, 0)
		must.Succeed(t, err)
		defer f.Close()
		_, err = f.WriteString("x")
		must.Succeed(t, err)
		for _, path := range []string{m.there("file"), m.at("file")} {
			st, err := os.Stat(path)
			must.Succeed(t, err)
			if st.Mode() != 0o777 {
				t.Errorf("got the mode %v of %s, want %v", st.Mode(), path, os.FileMode(0o777))
			}
		}
	})
}
