// Exports beside a mount table that cannot be read.

package program

import (
	"errors"
	"path/filepath"
	"testing"

	"github.com/nfsrdma/nfsrdma/nfsserver"
	"golang.org/x/sys/unix"
)

// TestMountTableUnread: without descriptors the server does not see whether the mounts have changed.
// Exports go on until it does.
func TestMountTableUnread(t *testing.T) {
	file := filepath.Join(t.TempDir(), "exports")
	put(t, file, t.TempDir()+" *(rw,insecure)\n")
	srv, set, err := newServer(&options{ephemeral: true, exports: file, acl: "on"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer srv.Close()
	v, err := srv.Start(nfsserver.Listen{TCP: "127.0.0.1:0"})
	if err != nil {
		t.Fatal(err)
	}
	defer v.Shutdown(t.Context())
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
