// Pages that cannot be dropped, because the server does not answer the READ that fills one.

package fusefs_test

import (
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/nfsrdma/nfsrdma/nfsserver"
	"github.com/nfsrdma/nfsrdma/test/must"
	"golang.org/x/sys/unix"
)

// slowAt is the first offset whose READs a slowFS answers late.
const slowAt = 1 << 29

// reads is locked while a slowFS withholds its answers; readsHeld has an element for each READ that
// waits.
var (
	reads     sync.Mutex
	readsHeld = make(chan struct{}, 1024)
)

// A slowFS reads at once, and answers READs from slowAt on later.
type slowFS struct{ nfsserver.FS }

func (f slowFS) ReadAt(c nfsserver.Cred, r nfsserver.Ref, p []byte, off uint64) (int, error) {
	n, err := f.FS.ReadAt(c, r, p, off)
	if off >= slowAt {
		readsHeld <- struct{}{}
		reads.Lock()
		defer reads.Unlock()
	}
	return n, err
}

// large makes files that end after slowAt, and opens them in the mount.
func (m *mounted) large(names ...string) (files []*os.File) {
	m.t.Helper()
	for _, name := range names {
		must.Succeed(m.t, os.WriteFile(m.there(name), []byte("before"), 0o644))
		must.Succeed(m.t, os.Truncate(m.there(name), 2*slowAt)) // beyond any read-ahead
		f, err := os.Open(m.at(name))
		must.Succeed(m.t, err)
		m.t.Cleanup(func() { f.Close() })
		_, err = f.ReadAt(make([]byte, 1), 0)
		must.Succeed(m.t, err)
		files = append(files, f)
	}
	return files
}

// overwrite writes text, of 6 bytes, as another client.
func (m *mounted) overwrite(name, text string) {
	m.t.Helper()
	f, err := os.OpenFile(m.there(name), os.O_WRONLY, 0)
	must.Succeed(m.t, err)
	_, err = f.WriteAt([]byte(text), 0)
	must.Succeed(m.t, err)
	must.Succeed(m.t, f.Close())
}

// asksFor reads from f at off in the background, and reports whether a READ reaches the mount.
// ended is closed after the read.
func (m *mounted) asksFor(f *os.File, off int64) (ended chan struct{}, asked bool) {
	m.t.Helper()
	before := m.stats().Operations["READ"]
	ended = make(chan struct{})
	go func() {
		defer close(ended)
		_, _ = f.ReadAt(make([]byte, 1), off)
	}()
	must.Become(m.t, "a read asks or ends", func() bool {
		select {
		case <-ended:
			return true
		default:
			asked = m.stats().Operations["READ"] > before
			return asked
		}
	})
	return ended, asked
}

// A page waits for the server, so the pages of a file changed by another client cannot be dropped.
// A program opening the file meanwhile can be killed, and notices for other files are sent.
func TestSilentServerLeavesOthersFree(t *testing.T) {
	m := mount(t, options{AcMin: long, AcMax: long, NoCTO: true})
	names := []string{"stuck", "free"}
	files := m.large(names...)
	m.say("hold notices")
	for _, name := range names {
		m.overwrite(name, "after!")
	}
	_, err := os.ReadDir(m.dir) // fetches the files' new attributes
	must.Succeed(t, err)
	for _, name := range names {
		must.Succeed(t, unix.Access(m.at(name), unix.R_OK)) // the open then makes no call
	}

	m.say("stall")
	stuck, asked := m.asksFor(files[0], 2*slowAt-1)
	var free chan struct{}
	defer func() {
		m.say("go")
		<-stuck
		if free != nil {
			<-free
		}
	}()
	if !asked {
		t.Fatal("the read asks nothing of the server")
	}
	opens := m.stats().Operations["OPEN"]
	cat := exec.Command("cat", m.at("stuck"))
	must.Succeed(t, cat.Start())
	must.Become(t, "the program opens the file", func() bool { return m.stats().Operations["OPEN"] > opens })
	must.Succeed(t, cat.Process.Kill())
	dead := make(chan struct{})
	go func() {
		defer close(dead)
		_ = cat.Wait()
	}()
	must.Become(t, "the program is dead", func() bool {
		select {
		case <-dead:
			return true
		default:
			return false
		}
	})

	m.say("let notices go")
	must.Become(t, "the page of the other file is dropped", func() (asked bool) {
		free, asked = m.asksFor(files[1], 0)
		return asked
	})
}

// A file has a page that the server does not fill, so its pages cannot be dropped. Other open files
// still show another client's writes.
func TestSlowFileLeavesOthersWatched(t *testing.T) {
	m := mount(t, options{AcMin: 10 * time.Millisecond, AcMax: 20 * time.Millisecond, NoCTO: true, Slow: true})
	files := m.large("stuck", "free")
	m.say("hold reads")
	stuck, asked := m.asksFor(files[0], 2*slowAt-1)
	defer func() { m.say("answer reads"); <-stuck }()
	if !asked {
		t.Fatal("the read asks nothing of the server")
	}
	m.overwrite("stuck", "after!")
	for i := range 5 {
		text := fmt.Sprint("round", i)
		m.overwrite("free", text)
		must.Become(t, "the open file has "+text, func() bool {
			b := make([]byte, len(text))
			_, err := files[1].ReadAt(b, 0)
			return err == nil && string(b) == text
		})
	}
}

// A signal ends an open while the kernel has old pages. The program gets no open file, because it
// would read those.
func TestInterruptedOpenFails(t *testing.T) {
	m := mount(t, options{AcMin: long, AcMax: long, NoCTO: true, Slow: true, OwnPIDs: true})
	m.say("unseen")
	files := m.large("stuck")
	m.say("hold notices")
	m.overwrite("stuck", "after!")
	_, err := os.ReadDir(m.dir) // fetches the new attributes
	must.Succeed(t, err)
	must.Succeed(t, unix.Access(m.at("stuck"), unix.R_OK)) // the open then makes no call
	m.say("hold reads")
	stuck, asked := m.asksFor(files[0], 2*slowAt-1)
	defer func() { m.say("answer reads"); <-stuck }()
	if !asked {
		t.Fatal("the read asks nothing of the server")
	}
	opens := m.stats().Operations["OPEN"]
	thread, opened := make(chan int, 1), make(chan error, 1)
	go func() {
		runtime.LockOSThread() // the thread ends with the goroutine
		thread <- unix.Gettid()
		fd, err := unix.Open(m.at("stuck"), unix.O_RDONLY|unix.O_CLOEXEC, 0)
		if err == nil {
			unix.Close(fd)
		}
		opened <- err
	}()
	id := <-thread
	must.Become(t, "the program opens the file", func() bool { return m.stats().Operations["OPEN"] > opens })
	must.Become(t, "a signal ends the open", func() bool {
		select {
		case err = <-opened:
			return true
		default:
			_ = unix.Tgkill(os.Getpid(), id, unix.SIGURG)
			return false
		}
	})
	if err != unix.EINTR {
		t.Errorf("open: %v, want %v", err, unix.EINTR)
	}
}
