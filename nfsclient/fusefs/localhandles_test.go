// Local file handles of nodes that the kernel has forgotten.

package fusefs_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"testing"

	"github.com/nfsrdma/nfsrdma/test/must"
	"golang.org/x/sys/unix"
)

// handleFor returns the kernel's handle of a path.
func handleFor(t *testing.T, path string) unix.FileHandle {
	t.Helper()
	h, _, err := unix.NameToHandleAt(unix.AT_FDCWD, path, 0)
	must.Succeed(t, err)
	return h
}

// openHandle opens the file of a handle in the mount on dir.
func openHandle(dir string, h unix.FileHandle) (*os.File, error) {
	top, err := os.Open(dir)
	if err != nil {
		return nil, err
	}
	defer top.Close()
	fd, err := unix.OpenByHandleAt(int(top.Fd()), h, unix.O_RDONLY)
	if err != nil {
		return nil, err
	}
	return os.NewFile(uintptr(fd), "handle"), nil
}

// forgetAll waits until the kernel has forgotten everything except the root.
func (m *mounted) forgetAll() {
	m.t.Helper()
	must.Become(m.t, "the kernel forgets all nodes", func() bool {
		m.say("forget names")
		return m.stats().Nodes == 1
	})
}

// A handle opens its file or directory after the kernel has forgotten it, and after a rename.
// Handles of removed files and of other mounts open nothing.
func TestHandlesOutliveForgetting(t *testing.T) {
	m := mountTwin(t, options{AcMin: long, AcMax: long}, false, true)
	must.Succeed(t, os.MkdirAll(m.there("a/b/c"), 0o755))
	names := []string{"file", "ours", "theirs", "a/b/c/deep", "moved"}
	handles := make(map[string]unix.FileHandle)
	for _, name := range names {
		must.Succeed(t, os.WriteFile(m.there(name), []byte(name), 0o644))
	}
	for _, name := range append(names, "a/b/c", "a") {
		handles[name] = handleFor(t, m.at(name))
	}
	m.forgetAll()

	content := func(name string) {
		t.Helper()
		f, err := openHandle(m.dir, handles[name])
		if err != nil {
			t.Errorf("%s by its handle: %v", name, err)
			return
		}
		defer f.Close()
		b := make([]byte, 100)
		if n, _ := f.Read(b); string(b[:n]) != name {
			t.Errorf("got %q by the handle of %s", b[:n], name)
		}
	}
	content("file")
	content("a/b/c/deep")
	m.forgetAll()
	content("a/b/c/deep")
	dir, err := openHandle(m.dir, handles["a/b/c"])
	if err != nil {
		t.Errorf("a directory by its handle: %v", err)
	} else {
		defer dir.Close()
		if list, err := dir.Readdirnames(-1); err != nil || !slices.Equal(list, []string{"deep"}) {
			t.Errorf("got %v, %v of the directory, want its one file", list, err)
		}
		path, err := os.Readlink(fmt.Sprintf("/proc/self/fd/%d", dir.Fd()))
		if err != nil || path != m.at("a/b/c") {
			t.Errorf("got the path %s, %v of the directory, want %s", path, err, m.at("a/b/c"))
		}
		dir.Close()
	}

	must.Succeed(t, os.Rename(m.there("moved"), m.there("a/moved")))
	content("moved")
	must.Succeed(t, os.Remove(m.at("ours")))
	must.Succeed(t, os.Remove(m.there("theirs")))
	m.forgetAll()
	for _, name := range []string{"ours", "theirs"} {
		must.Succeed(t, os.WriteFile(m.at(name), []byte("another"), 0o644))
		if _, err := openHandle(m.dir, handles[name]); err != syscall.ESTALE {
			t.Errorf("the handle of the removed %s: got %v, want ESTALE", name, err)
		}
	}
	for name, h := range handles {
		for range 2 {
			if _, err := openHandle(m.other, h); err != syscall.ESTALE {
				t.Errorf("the handle of %s in another mount: got %v, want ESTALE", name, err)
			}
			_, _ = os.Stat(m.twin(name)) // makes a node, which may have the same ID
			_, _ = filepath.Glob(m.twin("*/*/*/*"))
		}
	}
}

// Handles are kept only for the bounded number of nodes.
func TestOldestHandlesAreGivenUp(t *testing.T) {
	m := mount(t, options{AcMin: long, AcMax: long})
	m.say("bound nodes")
	var handles []unix.FileHandle
	for i := range 2 * boundNodes {
		name := fmt.Sprint(i)
		must.Succeed(t, os.WriteFile(m.there(name), []byte(name), 0o644))
		handles = append(handles, handleFor(t, m.at(name)))
		m.forgetAll()
	}
	for i, h := range handles {
		f, err := openHandle(m.dir, h)
		if err == nil {
			f.Close()
		}
		var want error
		if i < boundNodes {
			want = syscall.ESTALE
		}
		if err != want {
			t.Errorf("handle %d: got %v, want %v", i, err, want)
		}
	}
}
