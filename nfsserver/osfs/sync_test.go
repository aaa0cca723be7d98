// Sync really calls the kernel.

package osfs

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/nfsrdma/nfsrdma/test/must"
	"golang.org/x/sys/unix"
)

func TestSyncReachesTheKernel(t *testing.T) {
	var heard []string
	listen := func(name string, call *func(int) error) {
		real := *call
		*call = func(fd int) error {
			var st unix.Stat_t
			if err := unix.Fstat(fd, &st); err != nil {
				t.Errorf("fstat of the descriptor for %s: %v", name, err)
			}
			heard = append(heard, fmt.Sprintf("%s of %d", name, st.Ino))
			return real(fd)
		}
		t.Cleanup(func() { *call = real })
	}
	listen("fsync", &fsync)
	listen("fdatasync", &fdatasync)
	listen("syncfs", &syncfs)

	root := t.TempDir()
	for _, err := range []error{
		os.WriteFile(filepath.Join(root, "file"), []byte("x"), 0o600), os.Mkdir(filepath.Join(root, "dir"), 0o700), os.Symlink("file", filepath.Join(root, "link")),
	} {
		must.Succeed(t, err)
	}
	f, err := New(root, Options{})
	must.Succeed(t, err)
	defer f.Close()
	inode := func(name string) uint64 {
		var st unix.Stat_t
		must.Succeed(t, unix.Lstat(filepath.Join(root, name), &st))
		return st.Ino
	}
	for _, c := range []struct {
		name     string
		dataOnly bool
		want     string
	}{
		{"file", true, fmt.Sprintf("fdatasync of %d", inode("file"))},
		{"file", false, fmt.Sprintf("fsync of %d", inode("file"))},
		{"dir", false, fmt.Sprintf("fsync of %d", inode("dir"))},
		{"link", false, fmt.Sprintf("syncfs of %d", inode("."))},
	} {
		r, _, err := f.Lookup(me, f.Root(), c.name)
		must.Succeed(t, err)
		if _, err := f.WriteAt(me, r, []byte("y"), 0); c.name == "file" && err != nil {
			t.Fatalf("write the file: %v", err)
		}
		heard = nil
		must.Succeed(t, f.Sync(r, c.dataOnly))
		if !slices.Equal(heard, []string{c.want}) {
			t.Errorf("Sync of %s, data only: %v: %q, want %q", c.name, c.dataOnly, heard, c.want)
		}
	}
}
