// What stands under the name of a new object may be another one by the time it is completed.

package osfs

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/nfsrdma/nfsrdma/nfsserver"
	"github.com/nfsrdma/nfsrdma/test/machine"
	"golang.org/x/sys/unix"
)

// TestReplacedObjectKeepsItsAttributes: a directory of somebody else that takes the name
// of a new one before that is complete gets neither its bits nor its times.
func TestReplacedObjectKeepsItsAttributes(t *testing.T) {
	machine.NeedRoot(t, "mounts, real file systems and other users: needs root")
	dir := t.TempDir()
	if err := os.Chmod(dir, 0o777); err != nil {
		t.Fatal(err)
	}
	old := unix.Umask(0o022) // bits in it are given by a chmod afterwards
	defer unix.Umask(old)
	f, err := New(dir, Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for name, s := range map[string]nfsserver.SetAttr{
		"bits":  {Mask: nfsserver.SetMode, Mode: 0o6777},
		"times": {Mask: nfsserver.SetMtime | nfsserver.SetAtime, Mtime: nfsserver.Time{Sec: 1}},
	} {
		victim := filepath.Join(dir, "victim-"+name)
		if err := os.Mkdir(victim, 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(victim, "content"), nil, 0o600); err != nil {
			t.Fatal(err) // or the caller may remove it, as the object that could not be completed
		}
		if err := unix.Chown(victim, 2000, 2000); err != nil {
			t.Fatal(err)
		}
		if err := unix.Chmod(victim, 0o2700); err != nil {
			t.Fatal(err)
		}
		var before, after unix.Stat_t
		if err := unix.Stat(victim, &before); err != nil {
			t.Fatal(err)
		}
		c := nfsserver.Cred{UID: 1000, GID: 1000}
		_, _, err := f.make(&c, f.Root(), name, &s, unix.AT_REMOVEDIR, func(dirfd int) error {
			if err := unix.Mkdirat(dirfd, name, 0o700); err != nil {
				return err
			}
			return unix.Renameat(dirfd, "victim-"+name, dirfd, name)
		})
		if err == nil {
			t.Errorf("%s: set on an object of another", name)
		}
		if err := unix.Stat(filepath.Join(dir, name), &after); err != nil {
			t.Fatal(err)
		}
		if after.Ino != before.Ino || after.Mode != before.Mode || after.Mtim != before.Mtim {
			t.Errorf("%s: mode %o, modified %d", name, after.Mode, after.Mtim.Sec)
		}
	}
}
