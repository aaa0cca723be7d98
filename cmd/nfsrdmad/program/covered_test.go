// Exports beside a mount table that cannot be read.

package program

import (
	"errors"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

// TestMountTableUnread: without descriptors the server does not see whether the mounts have changed.
// Exports go on until it does.
func TestMountTableUnread(t *testing.T) {
	file := filepath.Join(t.TempDir(), "exports")
	put(t, file, t.TempDir()+" *(rw,insecure)\n")
	set, v := startFile(t, file)
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
		t.Fatal(err)
	}
	few := unix.Rlimit{Cur: 3, Max: limit.Max} // no number from 3 on is given
	if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &few); err != nil {
		t.Fatal(err)
	}
	unread := set.follow(v)
	if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
		t.Fatal(err)
	}
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
