// Opens beside removals of the name, through the kernel: an open file survives, and no open fails
// because the file is gone.

package fusefs_test

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/nfsrdma/nfsrdma/test/must"
)

// A file removed before the server has answered its open survives.
func TestOpenUnderWayHoldsAFile(t *testing.T) {
	m := mount(t, options{AcMin: long, AcMax: long})
	must.Succeed(t, os.WriteFile(m.at("file"), []byte("data"), 0o600))
	asked := func(operation string) uint64 { return m.stats().Operations[operation] }
	m.cached("LOOKUP", func() {
		_, err := os.Stat(m.at("file"))
		must.Succeed(t, err)
	})
	opens, removals := asked("OPEN"), asked("UNLINK")
	m.say("stall")
	var file *os.File
	var openErr, removeErr error
	var wg sync.WaitGroup
	wg.Go(func() { file, openErr = os.Open(m.at("file")) })
	must.Become(t, "the open is in flight", func() bool { return asked("OPEN") > opens })
	wg.Go(func() { removeErr = os.Remove(m.at("file")) })
	must.Become(t, "the removal is in flight", func() bool { return asked("UNLINK") > removals })
	m.say("go")
	wg.Wait()
	must.Succeed(t, openErr)
	must.Succeed(t, removeErr)
	buf := make([]byte, 8)
	if n, err := file.ReadAt(buf, 0); string(buf[:n]) != "data" {
		t.Errorf("read %q (%v), want %q", buf[:n], err, "data")
	}
	must.Succeed(t, file.Close())
}

// A thread fails to open a file that another client has removed. It then removes a closed file, and
// no hidden name stays.
func TestFailedOpenKeepsNoOtherFile(t *testing.T) {
	m := mount(t, options{AcMin: long, AcMax: long})
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	for _, name := range []string{"file", "other"} {
		must.Succeed(t, os.WriteFile(m.there(name), nil, 0o600))
	}
	_, err := os.Lstat(m.at("file"))
	must.Succeed(t, err)
	must.Succeed(t, os.Remove(m.there("file")))
	_, err = os.Open(m.at("file"))
	want(t, err, syscall.ENOENT)
	must.Succeed(t, os.Remove(m.at("other")))
	names, err := os.ReadDir(m.export)
	must.Succeed(t, err)
	if len(names) > 0 {
		t.Errorf("got %v in the directory, want nothing", names)
	}
}

// opener opens and reads the file at path until over is closed, and returns its first error.
func opener(path string, flags int, size int, over <-chan struct{}) error {
	for {
		select {
		case <-over:
			return nil
		default:
		}
		file, err := os.OpenFile(path, flags, 0o600)
		if errors.Is(err, fs.ErrNotExist) && flags&os.O_CREATE == 0 {
			continue
		}
		if err != nil {
			return err
		}
		if err := uses(file, size); err != nil {
			return errors.Join(err, file.Close())
		}
		if err := file.Close(); err != nil {
			return err
		}
	}
}

// uses calls operations that fail if the file is gone. The file must have size bytes, all equal;
// with size 0 any content is right.
func uses(file *os.File, size int) error {
	if _, err := file.Stat(); err != nil {
		return err
	}
	if err := file.Sync(); err != nil {
		return err
	}
	buf := make([]byte, size+1)
	n, err := file.ReadAt(buf, 0)
	if err != nil && n == 0 && size > 0 {
		return err
	}
	alike := strings.Count(string(buf[:n]), string(buf[:1]))
	if want := [2]int{size, size}; size > 0 && [2]int{n, alike} != want {
		return fmt.Errorf("read %d bytes that begin with %.10q, want %d alike", n, buf[:n], size)
	}
	return nil
}

// raceWith runs openers of a file while change runs in rounds.
func raceWith(t *testing.T, path string, flags, size int, change func(i int)) {
	t.Helper()
	over := make(chan struct{})
	var wg sync.WaitGroup
	errs := make([]error, 3)
	for i := range errs {
		wg.Go(func() { errs[i] = opener(path, flags, size, over) })
	}
	for i := range 400 {
		change(i)
	}
	close(over)
	wg.Wait()
	if err := errors.Join(errs...); err != nil {
		t.Errorf("openers: %v", err)
	}
}

// Programs open a file while another program removes and makes it.
func TestOpenBesideRemoval(t *testing.T) {
	for _, flags := range []int{os.O_RDWR, os.O_RDWR | os.O_CREATE} {
		m := mount(t, options{})
		raceWith(t, m.at("file"), flags, 0, func(int) {
			if err := os.Remove(m.at("file")); err != nil && !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("remove: %v", err)
			}
			file, err := os.OpenFile(m.at("file"), os.O_CREATE|os.O_WRONLY, 0o600)
			must.Succeed(t, err)
			must.Succeed(t, file.Close())
		})
		_ = os.Remove(m.at("file"))
		must.Become(t, "no hidden name is left", func() bool {
			list, err := os.ReadDir(m.export)
			return err == nil && len(list) == 0
		})
	}
}

// Programs read a file while another program replaces it by renames. Each reads one whole version.
func TestOpenBesideReplacement(t *testing.T) {
	const size = 200_000
	m := mount(t, options{})
	version := func(i int) []byte { return []byte(strings.Repeat(string(rune('a'+i%26)), size)) }
	must.Succeed(t, os.WriteFile(m.at("file"), version(0), 0o600))
	raceWith(t, m.at("file"), os.O_RDONLY, size, func(i int) {
		must.Succeed(t, os.WriteFile(m.at("new"), version(i), 0o600))
		must.Succeed(t, os.Rename(m.at("new"), m.at("file")))
		if _, err := os.Stat(m.at("file")); err != nil {
			t.Errorf("stat: %v", err)
		}
	})
	must.Become(t, "no hidden name is left", func() bool {
		list, err := os.ReadDir(m.export)
		return err == nil && len(list) == 1
	})
}

// Programs cannot remove the hidden name of an open file.
func TestHiddenNameOfAnOpenFileStays(t *testing.T) {
	m := mount(t, options{})
	must.Succeed(t, os.WriteFile(m.at("file"), []byte("data"), 0o600))
	file, err := os.Open(m.at("file"))
	must.Succeed(t, err)
	must.Succeed(t, os.Remove(m.at("file")))
	list, err := os.ReadDir(m.dir)
	must.Succeed(t, err)
	if len(list) != 1 {
		t.Fatalf("%d names, want 1", len(list))
	}
	want(t, os.Remove(m.at(list[0].Name())), syscall.EBUSY)
	buf := make([]byte, 8)
	if n, err := file.ReadAt(buf, 0); string(buf[:n]) != "data" {
		t.Errorf("read %q (%v), want %q", buf[:n], err, "data")
	}
	must.Succeed(t, file.Close())
}
