// Deferred SETATTR: few calls, the operations that send the deferred changes, and no lost errors.

package fusefs_test

import (
	"fmt"
	"os"
	"syscall"
	"testing"
	"time"

	"github.com/nfsrdma/nfsrdma/nfsserver"
	"github.com/nfsrdma/nfsrdma/test/must"
)

// old is a time that no file gets unless a test sets it.
var old = time.Unix(1_000_000_000, 5000)

// A fullFS has no space for times.
type fullFS struct{ nfsserver.FS }

func (f fullFS) Setattr(c nfsserver.Cred, r nfsserver.Ref, s *nfsserver.SetAttr) error {
	if s.Has(nfsserver.SetMtime) && s.Mtime.Sec == old.Unix() {
		return syscall.ENOSPC
	}
	return f.FS.Setattr(c, r, s)
}

// newFile makes a file with content, like programs that unpack archives.
func newFile(t *testing.T, name string) *os.File {
	t.Helper()
	f, err := os.OpenFile(name, os.O_CREATE|os.O_EXCL|os.O_RDWR, 0o600)
	must.Succeed(t, err)
	t.Cleanup(func() { f.Close() })
	_, err = f.WriteString("content")
	must.Succeed(t, err)
	return f
}

// setOld sets the times of an open file.
func setOld(t *testing.T, f *os.File) {
	t.Helper()
	tv := syscall.NsecToTimeval(old.UnixNano())
	must.Succeed(t, syscall.Futimes(int(f.Fd()), []syscall.Timeval{tv, tv}))
}

// stat returns a name's attributes on the server.
func (m *mounted) stat(name string) os.FileInfo {
	m.t.Helper()
	fi, err := os.Lstat(m.there(name))
	must.Succeed(m.t, err)
	return fi
}

// Times, owner and mode of an unpacked file are one call.
func TestAttributesOfANewFileAreOneCall(t *testing.T) {
	m := mount(t, options{AcMin: long, AcMax: long})
	m.say("hold long")                // otherwise the timer may send changes if the machine stalls
	newFile(t, m.at("first")).Close() // shows whether the server keeps times
	const files = 40
	before := m.stats()
	for i := range files {
		name := fmt.Sprint(i)
		f := newFile(t, m.at(name))
		setOld(t, f)
		must.Succeed(t, f.Chown(0, 0))
		must.Succeed(t, f.Chmod(0o640))
		is := func(when string, fi os.FileInfo) {
			if fi.Mode() != 0o640 || fi.Size() != 7 {
				t.Errorf("%s %s: mode %v, %d bytes, want 0640, 7", name, when, fi.Mode(), fi.Size())
			}
			if !fi.ModTime().Equal(old) {
				t.Errorf("%s %s: mtime %v, want %v", name, when, fi.ModTime(), old)
			}
		}
		is("after chmod", m.stat(name))
		must.Succeed(t, f.Close())
		fi, err := os.Lstat(m.at(name))
		must.Succeed(t, err)
		is("in the mount", fi)
	}
	s := m.stats().Since(&before)
	if n := s.Calls["SETATTR"].Count; n < files || n >= 2*files {
		t.Errorf("%d SETATTRs for %d files", n, files)
	}
	if n := s.Calls["WRITE"].Count + s.Calls["COMMIT"].Count; n < files || n >= 2*files {
		t.Errorf("%d WRITEs and COMMITs for %d files", n, files)
	}
}

// Operations that show deferred times, or would change them, send them first.
func TestDeferredTimesAreSent(t *testing.T) {
	m := mount(t, options{AcMin: long, AcMax: long, AllowOther: true})
	for what, then := range map[string]func(f *os.File){
		"close": func(f *os.File) { must.Succeed(t, f.Close()) },
		"fsync": func(f *os.File) { must.Succeed(t, f.Sync()) },
		"fstat": func(f *os.File) {
			fi, err := f.Stat()
			must.Succeed(t, err)
			if !fi.ModTime().Equal(old) {
				t.Errorf("fstat: %v", fi.ModTime())
			}
		},
		"read": func(f *os.File) {
			if _, err := f.ReadAt(make([]byte, 1), 0); err != nil {
				t.Errorf("read at: %v", err)
			}
		},
		"chown": func(f *os.File) { must.Succeed(t, f.Chown(1001, -1)) },
		"time": func(f *os.File) {
			must.Become(t, "they are sent by time", func() bool { return m.stat("time").ModTime().Equal(old) })
		},
		"chmod by name": func(*os.File) { must.Succeed(t, os.Chmod(m.at("chmod by name"), 0o644)) },
	} {
		f := newFile(t, m.at(what))
		setOld(t, f)
		then(f)
		if fi := m.stat(what); !fi.ModTime().Equal(old) || fi.Size() != 7 {
			t.Errorf("after %s: %v, %d bytes", what, fi.ModTime(), fi.Size())
		}
	}
	// Sending the deferred times does not undo changes made after they were set.
	for what, then := range map[string]func(f *os.File) error{
		"write":    func(f *os.File) error { _, err := f.WriteString("more"); return err },
		"truncate": func(f *os.File) error { return f.Truncate(3) },
	} {
		f := newFile(t, m.at(what))
		setOld(t, f)
		must.Succeed(t, then(f))
		must.Succeed(t, f.Close())
		if fi := m.stat(what); fi.ModTime().Equal(old) || time.Since(fi.ModTime()) > time.Hour {
			t.Errorf("after %s: %v", what, fi.ModTime())
		}
	}
	// setting the same owner again still changes the ctime
	f := newFile(t, m.at("owner"))
	must.Succeed(t, f.Sync())
	was := m.stat("owner").Sys().(*syscall.Stat_t).Ctim
	time.Sleep(20 * time.Millisecond)
	must.Succeed(t, f.Chown(0, 0))
	must.Succeed(t, f.Close())
	if is := m.stat("owner").Sys().(*syscall.Stat_t).Ctim; is == was {
		t.Errorf("chown to the same owner leaves the ctime at %v", is)
	}
}

// Changes that others may see, or that may be refused, are not deferred: they are done when the
// system call returns.
func TestOnlyNewFilesDeferSetattr(t *testing.T) {
	for what, prepare := range map[string]func(m *mounted) *os.File{
		"opened": func(m *mounted) *os.File {
			must.Succeed(t, newFile(t, m.at("file")).Close())
			f, err := os.OpenFile(m.at("file"), os.O_RDWR, 0)
			must.Succeed(t, err)
			t.Cleanup(func() { f.Close() })
			return f
		},
		"closed by another descriptor": func(m *mounted) *os.File {
			f := newFile(t, m.at("file"))
			fd, err := syscall.Dup(int(f.Fd()))
			must.Succeed(t, err)
			must.Succeed(t, syscall.Close(fd))
			return f
		},
		"given away": func(m *mounted) *os.File {
			f := newFile(t, m.at("file"))
			must.Succeed(t, f.Chown(1001, 1001))
			return f
		},
	} {
		m := mount(t, options{AcMin: long, AcMax: long, AllowOther: true})
		f := prepare(m)
		setOld(t, f)
		if fi := m.stat("file"); !fi.ModTime().Equal(old) {
			t.Errorf("%s: %v", what, fi.ModTime())
		}
	}
	m := mount(t, options{Sync: true})
	setOld(t, newFile(t, m.at("sync")))
	if fi := m.stat("sync"); !fi.ModTime().Equal(old) {
		t.Errorf("on a mount with sync: %v", fi.ModTime())
	}
	m = mount(t, options{AcMin: long, AcMax: long})
	f := newFile(t, m.at("set-id"))
	must.Succeed(t, syscall.Fchmod(int(f.Fd()), 0o4755))
	must.Succeed(t, f.Chown(0, 0))
	if fi := m.stat("set-id"); fi.Mode()&os.ModeSetuid != 0 {
		t.Error("a file keeps its set-user-id bit when it is given to its owner")
	}
	setOld(t, f)
	must.Succeed(t, f.Chown(0, 0))
	must.Succeed(t, syscall.Fchmod(int(f.Fd()), 0o4755))
	if fi := m.stat("set-id"); fi.Mode()&os.ModeSetuid == 0 || !fi.ModTime().Equal(old) {
		t.Errorf("times, owner and set-user-id bit: %v, %v", fi.Mode(), fi.ModTime())
	}
}

// An error of deferred times is reported once, by the operation that sends them or the next one
// that can.
func TestErrorOfDeferredTimesIsReported(t *testing.T) {
	told := func(m *mounted, what string, then func(f *os.File) error) {
		t.Helper()
		f := newFile(t, m.at(what))
		setOld(t, f)
		err := then(f)
		if pe, ok := err.(*os.PathError); !ok || pe.Err != syscall.ENOSPC {
			t.Errorf("%s: %v, want %v", what, err, syscall.ENOSPC)
		}
		if f.Fd() != ^uintptr(0) {
			if err := f.Sync(); err != nil {
				t.Errorf("%s: the error is told again: %v", what, err)
			}
		}
	}
	m := mount(t, options{AcMin: long, AcMax: long, Full: true})
	m.say("hold long")
	for what, then := range map[string]func(f *os.File) error{
		"close": func(f *os.File) error { return f.Close() },
		"fsync": func(f *os.File) error { return f.Sync() },
		"chmod": func(f *os.File) error { return f.Chmod(0o640) },
		"write": func(f *os.File) error { _, err := f.WriteString("more"); return err },
		"close, after fstat": func(f *os.File) error {
			_, err := f.Stat()
			must.Succeed(t, err)
			return f.Close()
		},
	} {
		told(m, what, then)
	}
	m = mount(t, options{AcMin: long, AcMax: long, Full: true})
	told(m, "close, after some time", func(f *os.File) error {
		must.Become(t, "they are sent by time", func() bool { return m.stats().Calls["SETATTR"].Errors > 0 })
		return f.Close()
	})
}
