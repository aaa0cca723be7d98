// A new object loses its name to another object before the new one is complete.

package osfs

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/nfsrdma/nfsrdma/nfsserver"
	"github.com/nfsrdma/nfsrdma/test/machine"
	"github.com/nfsrdma/nfsrdma/test/must"
	"golang.org/x/sys/unix"
)

// TestReplacedObjectKeepsItsAttributes: another user's directory takes a new directory's name
// before the new one is complete. The other user's directory keeps its mode and times.
func TestReplacedObjectKeepsItsAttributes(t *testing.T) {
	machine.NeedRoot(t, "mounts, real file systems and other users: needs root")
	dir := t.TempDir()
	must.Succeed(t, os.Chmod(dir, 0o777))
	old := unix.Umask(0o022) // so osfs has to add the masked bits by a chmod afterwards
	defer unix.Umask(old)
	f, err := New(dir, Options{})
	must.Succeed(t, err)
	defer f.Close()
	for name, s := range map[string]nfsserver.SetAttr{
		"bits":  {Mask: nfsserver.SetMode, Mode: 0o6777},
		"times": {Mask: nfsserver.SetMtime | nfsserver.SetAtime, Mtime: nfsserver.Time{Sec: 1}},
	} {
		victim := filepath.Join(dir, "victim-"+name)
		must.Succeed(t, os.Mkdir(victim, 0o700))
		// with a file in it, the caller cannot remove the directory as an incomplete object
		must.Succeed(t, os.WriteFile(filepath.Join(victim, "content"), nil, 0o600))
		must.Succeed(t, unix.Chown(victim, 2000, 2000))
		must.Succeed(t, unix.Chmod(victim, 0o2700))
		var before, after unix.Stat_t
		must.Succeed(t, unix.Stat(victim, &before))
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
		must.Succeed(t, unix.Stat(filepath.Join(dir, name), &after))
		type seen struct {
			ino  uint64
			mode uint32
			mtim unix.Timespec
		}
		if got, want := (seen{after.Ino, after.Mode, after.Mtim}), (seen{before.Ino, before.Mode, before.Mtim}); got != want {
			t.Errorf("%s: got %+v, want %+v", name, got, want)
		}
	}
}
