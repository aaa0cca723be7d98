// Locks on exports from other projects' servers: the conditions between two mounts.

package mount

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// A lockedFile is one file, open through two mounts.
type lockedFile struct {
	*testing.T
	a, b *os.File
}

// set takes or releases bytes without waiting for other owners, and reports whether it could.
func (l lockedFile) set(f *os.File, kind int16, start, n int64) bool {
	l.Helper()
	err := unix.FcntlFlock(f.Fd(), unix.F_OFD_SETLK, &unix.Flock_t{Type: kind, Start: start, Len: n})
	if err != nil && !errors.Is(err, unix.EAGAIN) {
		l.Fatalf("locking %d bytes from %d: %v", n, start, err)
	}
	return err == nil
}

// free reports whether the second mount finds no lock of others.
func (l lockedFile) free() bool {
	l.Helper()
	lock := unix.Flock_t{Type: unix.F_WRLCK}
	if err := unix.FcntlFlock(l.b.Fd(), unix.F_OFD_GETLK, &lock); err != nil {
		l.Fatal(err)
	}
	return lock.Type == unix.F_UNLCK
}

// locks makes two mounts of the peer lock one file: each kind beside each, overlapping and separate
// bytes, programs that wait, are interrupted, and are killed.
func (p peer) locks(t *testing.T) {
	need(t, "flock")
	dirs := [2]string{p.mount(t), p.mount(t)}
	name := "locks-" + filepath.Base(dirs[0])
	script(t, dirs[0], "echo 0123456789 > "+name)
	script(t, dirs[1], "until test -s "+name+"; do sleep 0.1; done")
	l := lockedFile{T: t}
	for i, f := range []**os.File{&l.a, &l.b} {
		var err error
		if *f, err = os.OpenFile(filepath.Join(dirs[i], name), os.O_RDWR, 0); err != nil {
			t.Fatalf("os.OpenFile: %v", err)
		}
		defer (*f).Close()
	}
	began := time.Now()
	l.kinds()
	t.Logf("the first locks were there after %v", time.Since(began).Round(time.Millisecond))
	l.parts()
	l.waiters(dirs[0], dirs[1], name)
}

// kinds tries each kind of lock beside each, in either order of the mounts.
func (l lockedFile) kinds() {
	l.Helper()
	for _, pair := range [][2]*os.File{{l.a, l.b}, {l.b, l.a}} {
		for _, first := range []int16{unix.F_RDLCK, unix.F_WRLCK} {
			for _, second := range []int16{unix.F_RDLCK, unix.F_WRLCK} {
				for _, start := range []int64{5, 15, 20} {
					what := fmt.Sprintf("kind %d of bytes 10 to 19, then kind %d from %d", first, second, start)
					if !l.set(pair[0], first, 10, 10) {
						l.Errorf("%s: the first is refused", what)
					}
					want := start == 20 || first == unix.F_RDLCK && second == unix.F_RDLCK
					if got := l.set(pair[1], second, start, 10); got != want {
						l.Errorf("%s: the second is granted: %v, want %v", what, got, want)
					}
					for _, f := range pair {
						l.set(f, unix.F_UNLCK, 0, 0)
					}
				}
			}
		}
	}
	if !l.free() {
		l.Error("a lock is left")
	}
}

// parts releases, weakens and requests a part of a lock.
func (l lockedFile) parts() {
	l.Helper()
	l.set(l.a, unix.F_WRLCK, 10, 10)
	l.set(l.a, unix.F_UNLCK, 14, 2)
	l.set(l.a, unix.F_RDLCK, 16, 4)
	for _, c := range []struct {
		kind     int16
		start, n int64
		want     bool
	}{{unix.F_RDLCK, 13, 1, false}, {unix.F_WRLCK, 14, 2, true}, {unix.F_RDLCK, 16, 4, true}, {unix.F_WRLCK, 19, 1, false}, {unix.F_WRLCK, 20, 0, true}} {
		if got := l.set(l.b, c.kind, c.start, c.n); got != c.want {
			l.Errorf("kind %d of %d bytes from %d is granted: %v", c.kind, c.n, c.start, got)
		}
		l.set(l.b, unix.F_UNLCK, 0, 0)
	}
	lock := unix.Flock_t{Type: unix.F_RDLCK}
	if err := unix.FcntlFlock(l.b.Fd(), unix.F_OFD_GETLK, &lock); err != nil || lock.Type != unix.F_WRLCK || lock.Start != 10 || lock.Len != 4 {
		l.Errorf("who has a lock: %+v, %v", lock, err)
	}
	l.set(l.a, unix.F_UNLCK, 0, 0)
}

// waiters runs a program that waits for another one's lock. It gets the lock once the other is
// killed; after an interrupted wait the lock is free.
func (l lockedFile) waiters(a, b, name string) {
	l.Helper()
	start := func(dir string, then ...string) *exec.Cmd {
		l.Helper()
		p := exec.Command("flock", append([]string{"--no-fork", filepath.Join(dir, name)}, then...)...)
		p.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
		if err := p.Start(); err != nil {
			l.Fatal(err)
		}
		l.Cleanup(func() { _ = p.Process.Kill() })
		return p
	}
	for _, interrupted := range []bool{false, true} {
		holder := start(a, "sleep", "1000")
		waitFor(l.T, "the first lock", func() bool { return !l.free() })
		waiter := start(b, "true")
		ended := make(chan error, 1)
		go func() { ended <- waiter.Wait() }()
		select {
		case err := <-ended:
			l.Fatalf("who should wait ended: %v", err)
		case <-time.After(2 * time.Second):
		}
		if interrupted {
			_ = waiter.Process.Signal(syscall.SIGTERM)
			<-ended
		}
		_ = holder.Process.Kill()
		_ = holder.Wait()
		began := time.Now()
		if !interrupted {
			select {
			case err := <-ended:
				l.Logf("who waited had the lock %v after the holder was killed: %v", time.Since(began).Round(time.Millisecond), err)
			case <-time.After(2 * time.Minute):
				l.Fatal("who waits never has the lock")
			}
		}
		waitFor(l.T, "the lock to be free", l.free)
	}
}
