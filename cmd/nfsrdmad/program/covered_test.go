// Exports while the mount table cannot be read.

package program

import (
	"errors"
	"path/filepath"
	"testing"

	"github.com/nfsrdma/nfsrdma/nfsserver/osfs"
	"github.com/nfsrdma/nfsrdma/test/must"
	"golang.org/x/sys/unix"
)

// openNothing prevents this process from opening files until restore.
func openNothing(t *testing.T) (restore func()) {
	t.Helper()
	var limit unix.Rlimit
	must.Succeed(t, unix.Getrlimit(unix.RLIMIT_NOFILE, &limit))
	set := func(l unix.Rlimit) {
		if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &l); err != nil {
			t.Errorf("unix.Setrlimit: %v", err)
		}
	}
	set(unix.Rlimit{Cur: 3, Max: limit.Max}) // no descriptor from 3 on can be opened
	return func() { set(limit) }
}

// TestLastDescriptor: opening a directory takes the last descriptor, so the mount table cannot be
// read. The error is errDescriptors, so a reload retries after it has released other descriptors.
func TestLastDescriptor(t *testing.T) {
	defer func() { newFS = osfs.New }()
	restore := func() {}
	newFS = func(dir string, how osfs.Options) (*osfs.FS, error) {
		tree, err := osfs.New(dir, how)
		restore = openNothing(t)
		return tree, err
	}
	_, err := dirSource(t.TempDir(), "/x", osfs.Options{}).open()
	restore()
	if !errors.Is(err, errDescriptors) {
		t.Errorf("got %v, want %v", err, errDescriptors)
	}
}

// TestMountTableUnread: without descriptors the server does not see changes of the mounts. Exports
// stay in place until the mount table can be read again.
func TestMountTableUnread(t *testing.T) {
	file := filepath.Join(t.TempDir(), "exports")
	put(t, file, t.TempDir()+" *(rw,insecure)\n")
	set, v := startFile(t, file)
	restore := openNothing(t)
	unread := set.follow(v)
	restore()
	if !errors.Is(unread, unix.EMFILE) {
		t.Errorf("without descriptors: %v, want %v", unread, unix.EMFILE)
	}
	for _, e := range v.Exports(exportsWait) {
		if !e.Open || e.Err != nil {
			t.Errorf("%s: open %t, %v, want an open one", e.Name, e.Open, e.Err)
		}
	}
	if err := set.follow(v); err != nil {
		t.Errorf("with descriptors: %v", err)
	}
}
