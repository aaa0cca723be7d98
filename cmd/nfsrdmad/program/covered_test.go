// Exports while the mount table is unreadable.

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
	set(unix.Rlimit{Cur: 3, Max: limit.Max}) // no number from 3 on is given
	return func() { set(limit) }
}

// TestLastDescriptor: a directory opened with the last descriptor leaves none for the mount table.
// The error names the reason, and a reload that releases other descriptors continues with it.
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
// stay in place until it does.
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
