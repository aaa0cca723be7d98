// Locks by two mounts and by a program on the server's machine: fcntl and flock.

package fusefs_test

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nfsrdma/nfsrdma/test/machine"
	"github.com/nfsrdma/nfsrdma/test/must"
	"golang.org/x/sys/unix"
)

// A lockable is one file that is open in a mount, in another mount, and on the server's machine.
type lockable struct {
	m                   *mounted
	here, there, across *os.File
}

func openLockable(t *testing.T, opt options, rdma bool) *lockable {
	m := mountTwin(t, opt, rdma, true)
	must.Succeed(t, os.WriteFile(m.there("file"), []byte("0123456789"), 0o666))
	open := func(path string) *os.File {
		file, err := os.OpenFile(path, os.O_RDWR, 0)
		must.Succeed(t, err)
		t.Cleanup(func() { file.Close() })
		return file
	}
	return &lockable{m, open(m.at("file")), open(m.there("file")), open(m.twin("file"))}
}

// setlk calls fcntl(2) with cmd: F_SETLK or F_OFD_SETLK.
func setlk(file *os.File, cmd int, kind int16, start, length int64) error {
	return unix.FcntlFlock(file.Fd(), cmd, &unix.Flock_t{Type: kind, Start: start, Len: length})
}

// free checks that bytes can be locked exclusively, and unlocks them again; taken checks that they
// cannot.
func free(t *testing.T, what string, file *os.File, start, length int64) {
	t.Helper()
	if err := setlk(file, unix.F_OFD_SETLK, unix.F_WRLCK, start, length); err != nil {
		t.Errorf("%s: bytes from %d are locked: %v", what, start, err)
		return
	}
	must.Succeed(t, setlk(file, unix.F_OFD_SETLK, unix.F_UNLCK, start, length))
}

func taken(t *testing.T, what string, file *os.File, start, length int64) {
	t.Helper()
	if err := setlk(file, unix.F_OFD_SETLK, unix.F_WRLCK, start, length); err != unix.EAGAIN {
		t.Errorf("%s: bytes from %d: %v, want %v", what, start, err, unix.EAGAIN)
		_ = setlk(file, unix.F_OFD_SETLK, unix.F_UNLCK, start, length)
	}
}

// Ranges locked by fcntl conflict between mounts and with the server's machine, over both
// transports.
func TestLocksHoldAmongMountsAndTheServersMachine(t *testing.T) {
	for name, rdma := range map[string]bool{"tcp": false, "rdma": true} {
		t.Run(name, func(t *testing.T) {
			l := openLockable(t, options{}, rdma)
			must.Succeed(t, setlk(l.here, unix.F_SETLK, unix.F_WRLCK, 10, 10))
			for who, file := range map[string]*os.File{"the other mount": l.across, "the server's machine": l.there, "another open file of the mount": reopen(t, l.here)} {
				taken(t, who, file, 19, 1)
				free(t, who, file, 0, 10)
				free(t, who, file, 20, 0)
			}
			// the lock is released in part, downgraded in part, and upgraded again
			must.Succeed(t, setlk(l.here, unix.F_SETLK, unix.F_UNLCK, 14, 2))
			free(t, "a gap", l.across, 14, 2)
			must.Succeed(t, setlk(l.here, unix.F_SETLK, unix.F_RDLCK, 16, 4))
			must.Succeed(t, setlk(l.across, unix.F_SETLK, unix.F_RDLCK, 16, 4))
			want(t, setlk(l.here, unix.F_SETLK, unix.F_WRLCK, 16, 4), unix.EAGAIN)
			must.Succeed(t, setlk(l.across, unix.F_SETLK, unix.F_UNLCK, 16, 4))
			must.Succeed(t, setlk(l.here, unix.F_SETLK, unix.F_WRLCK, 16, 4))

			got := unix.Flock_t{Type: unix.F_RDLCK, Start: 0, Len: 0}
			must.Succeed(t, unix.FcntlFlock(l.across.Fd(), unix.F_GETLK, &got))
			type lock struct {
				kind       int16
				start, len int64
			}
			if got, want := (lock{got.Type, got.Start, got.Len}), (lock{unix.F_WRLCK, 10, 4}); got != want {
				t.Errorf("F_GETLK of the other mount: got %+v, want %+v", got, want)
			}
			must.Succeed(t, setlk(l.there, unix.F_OFD_SETLK, unix.F_WRLCK, 100, 0))
			taken(t, "what the server's machine has", l.here, 1<<40, 1)
		})
	}
}

// reopen opens a mount's file again.
func reopen(t *testing.T, file *os.File) *os.File {
	t.Helper()
	again, err := os.OpenFile(file.Name(), os.O_RDWR, 0)
	must.Succeed(t, err)
	t.Cleanup(func() { again.Close() })
	return again
}

// Any close by a process releases its fcntl locks; an open file's locks end with it.
func TestCloseReleases(t *testing.T) {
	l := openLockable(t, options{}, false)
	must.Succeed(t, setlk(l.here, unix.F_SETLK, unix.F_WRLCK, 0, 0))
	reopen(t, l.here).Close()
	free(t, "after a close by another open file", l.across, 0, 0)

	ofd := reopen(t, l.here)
	must.Succeed(t, setlk(ofd, unix.F_OFD_SETLK, unix.F_WRLCK, 0, 5))
	reopen(t, l.here).Close()
	taken(t, "a lock of an open file, after a close of another", l.across, 0, 5)
	must.Succeed(t, ofd.Close())
	must.Become(t, "closed", func() bool {
		return setlk(l.across, unix.F_SETLK, unix.F_WRLCK, 0, 5) == nil
	})
	must.Succeed(t, setlk(l.across, unix.F_SETLK, unix.F_UNLCK, 0, 0))

	flocked := reopen(t, l.here)
	must.Succeed(t, unix.Flock(int(flocked.Fd()), unix.LOCK_EX))
	want(t, unix.Flock(int(l.across.Fd()), unix.LOCK_SH|unix.LOCK_NB), unix.EWOULDBLOCK)
	must.Succeed(t, unix.Flock(int(flocked.Fd()), unix.LOCK_SH))
	must.Succeed(t, unix.Flock(int(l.across.Fd()), unix.LOCK_SH|unix.LOCK_NB))
	must.Succeed(t, unix.Flock(int(l.across.Fd()), unix.LOCK_UN))
	must.Succeed(t, unix.Flock(int(flocked.Fd()), unix.LOCK_EX|unix.LOCK_NB))
	must.Succeed(t, flocked.Close())
	within(t, "a close releases the lock that another mount waits for", func() error {
		return unix.Flock(int(l.across.Fd()), unix.LOCK_EX)
	})
}

// within fails the test if call does not end in time; call then continues in its goroutine.
func within(t *testing.T, what string, call func() error) {
	t.Helper()
	ended := make(chan error, 1)
	go func() { ended <- call() }()
	select {
	case err := <-ended:
		must.Succeed(t, err)
	case <-time.After(waitMost):
		t.Fatalf("it does not come to be that %s", what)
	}
}

// waitMost is much longer than any machine needs to get a free lock.
const waitMost = 2 * time.Minute

// start runs a program and waits until it prints line. The program is killed when the test ends.
func start(t *testing.T, line, name string, args ...string) *exec.Cmd {
	t.Helper()
	cmd := exec.Command(name, args...)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	must.Succeed(t, err)
	must.Succeed(t, cmd.Start())
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	b := make([]byte, len(line))
	if n, err := out.Read(b); string(b[:n]) != line {
		t.Fatalf("%s: %q, %v", name, b[:n], err)
	}
	return cmd
}

// When a program is killed, a waiter gets its locks, while other programs read and write the file.
func TestKilledProgramReleases(t *testing.T) {
	l := openLockable(t, options{}, false)
	holder := start(t, "locked", "flock", "--no-fork", l.here.Name(), "sh", "-c", "printf locked; exec sleep 1000")
	got := make(chan error, 1)
	go func() { got <- unix.Flock(int(l.across.Fd()), unix.LOCK_EX) }()
	for range 20 {
		_, err := l.across.WriteAt([]byte("while one waits"), 0)
		must.Succeed(t, err)
		must.Succeed(t, l.across.Sync())
	}
	select {
	case err := <-got:
		t.Fatalf("a lock that another has: %v", err)
	case <-time.After(50 * time.Millisecond):
	}
	must.Succeed(t, holder.Process.Kill())
	within(t, "who waits for the lock of a killed program has it", func() error { return <-got })
}

// A signal ends the wait for a lock, and the lock stays free afterwards.
func TestSignalEndsTheWait(t *testing.T) {
	l := openLockable(t, options{}, false)
	must.Succeed(t, unix.Flock(int(l.here.Fd()), unix.LOCK_EX))
	ctx, cancel := context.WithTimeout(context.Background(), waitMost)
	defer cancel()
	waiter := exec.CommandContext(ctx, "perl", "-e", `use Fcntl ":flock"; open F, "+<", $ARGV[0] or die; $SIG{ALRM} = sub { alarm 1 };
alarm 1; print flock(F, LOCK_EX) ? "locked" : $!{EINTR} ? "interrupted" : $!; sleep 1000 unless $ARGV[1];`, l.m.twin("file"), "end")
	out, err := waiter.CombinedOutput()
	if ctx.Err() != nil {
		t.Fatalf("a signal does not end the wait for a lock: the program is still there after %v", waitMost)
	}
	if err != nil || string(out) != "interrupted" {
		t.Errorf("%q, %v", out, err)
	}
	must.Succeed(t, unix.Flock(int(l.here.Fd()), unix.LOCK_UN))
	// on the server's machine, flock(2) and fcntl(2) do not conflict
	must.Succeed(t, unix.Flock(int(l.there.Fd()), unix.LOCK_EX|unix.LOCK_NB))
	// a LOCK in flight is undone later
	must.Become(t, "free", func() bool {
		return setlk(l.there, unix.F_OFD_SETLK, unix.F_WRLCK, 0, 0) == nil
	})
}

// After a lock is taken, another client's data is visible although no attributes have timed out.
func TestLockBringsTheOthersData(t *testing.T) {
	l := openLockable(t, options{AcMin: long, AcMax: long}, false)
	b := make([]byte, 2)
	for i := range 50 {
		first, second := l.here, l.across
		if i%2 == 1 {
			first, second = l.across, l.here
		}
		text := []byte{byte('0' + i/10), byte('0' + i%10)}
		must.Succeed(t, setlk(first, unix.F_SETLKW, unix.F_WRLCK, 0, 0))
		_, err := first.WriteAt(text, 3)
		must.Succeed(t, err)
		must.Succeed(t, setlk(first, unix.F_SETLK, unix.F_UNLCK, 0, 0))
		must.Succeed(t, setlk(second, unix.F_SETLKW, unix.F_RDLCK, 0, 0))
		_, err = second.ReadAt(b, 3)
		must.Succeed(t, err)
		must.Succeed(t, setlk(second, unix.F_SETLK, unix.F_UNLCK, 0, 0))
		if string(b) != string(text) {
			t.Fatalf("round %d: %q is read", i, b)
		}
	}
}

// After the server restarts, locks are reclaimed, and conflict again with programs on its machine.
func TestLocksOutliveTheServer(t *testing.T) {
	l := openLockable(t, options{AcMin: time.Millisecond, AcMax: time.Millisecond}, false)
	must.Succeed(t, setlk(l.here, unix.F_SETLK, unix.F_WRLCK, 0, 5))
	must.Succeed(t, setlk(l.across, unix.F_SETLK, unix.F_RDLCK, 7, 2))
	l.m.say("restart")
	must.Become(t, "reclaimed", func() bool {
		for _, at := range []string{l.m.at("file"), l.m.twin("file")} {
			if _, err := os.Stat(at); err != nil { // makes the mount connect again
				t.Errorf("stat: %v", err)
			}
		}
		one, two := unix.Flock_t{Type: unix.F_RDLCK, Len: 5}, unix.Flock_t{Type: unix.F_WRLCK, Start: 7, Len: 1}
		must.Succeed(t, unix.FcntlFlock(l.there.Fd(), unix.F_OFD_GETLK, &one))
		must.Succeed(t, unix.FcntlFlock(l.there.Fd(), unix.F_OFD_GETLK, &two))
		return one.Type == unix.F_WRLCK && two.Type == unix.F_RDLCK
	})
	must.Succeed(t, setlk(l.here, unix.F_SETLK, unix.F_UNLCK, 0, 5))
	must.Succeed(t, setlk(l.there, unix.F_OFD_SETLK, unix.F_WRLCK, 0, 5))
}

// Without a lock manager locks fail; with nolock they work within the mount.
func TestLocksWithoutALockManager(t *testing.T) {
	l := openLockable(t, options{NoLocks: true}, false)
	want(t, setlk(l.here, unix.F_SETLK, unix.F_WRLCK, 0, 0), unix.ENOLCK)
	want(t, unix.Flock(int(l.here.Fd()), unix.LOCK_EX), unix.ENOLCK)

	l = openLockable(t, options{NoLocks: true, LocalLocks: true}, false)
	must.Succeed(t, setlk(l.here, unix.F_SETLK, unix.F_WRLCK, 0, 0))
	taken(t, "another open file", reopen(t, l.here), 0, 0)
	must.Succeed(t, unix.Flock(int(l.here.Fd()), unix.LOCK_EX))
	free(t, "the other mount", l.across, 0, 0)
}

// Two mounts increment a number in one SQLite database, which relies on locks.
func TestDatabase(t *testing.T) {
	if _, err := exec.LookPath("sqlite3"); err != nil {
		machine.Skip(t, "needs sqlite3")
	}
	const each = 15
	m := mountTwin(t, options{}, false, true)
	run := func(path, script string) (string, error) {
		cmd := exec.Command("sqlite3", "-bail", "-cmd", ".timeout 600000", path)
		cmd.Stdin = strings.NewReader(script)
		out, err := cmd.CombinedOutput()
		return strings.TrimSpace(string(out)), err
	}
	if out, err := run(m.at("db"), "create table t(n integer, text text); insert into t values(0, hex(randomblob(9000)));"); err != nil {
		t.Fatalf("%s, %v", out, err)
	}
	ended := make(chan error, 2)
	for _, path := range []string{m.at("db"), m.twin("db")} {
		go func() {
			out, err := run(path, strings.Repeat("begin immediate; update t set n = n + 1; insert into t select null, hex(randomblob(500)); commit;\n", each))
			if err != nil {
				t.Errorf("%s: %s", filepath.Dir(path), out)
			}
			ended <- err
		}()
	}
	for range 2 {
		<-ended
	}
	for _, path := range []string{m.at("db"), m.twin("db"), m.there("db")} {
		out, err := run(path, "pragma integrity_check; select max(n), count(*) from t;")
		if err != nil || out != "ok\n30|31" {
			t.Errorf("%s: %q, %v", path, out, err)
		}
	}
}
