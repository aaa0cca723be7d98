// The tree that is served: the export's own file system, without what is mounted in it.

package osfs

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"
)

// A tree is the descriptors through which the export is reached.
//
// What others mount inside the export must not be seen by clients (exports(5),
// nocrossmnt). With CAP_SYS_ADMIN the server has a mount of its own for that: a
// private copy of the export's mount, without those below it, in which the
// directory under a mount point is a directory like any other. No lookup can
// stray into a mounted file system, whenever it was mounted. Without the
// privilege the kernel is asked to refuse each step over a mount point
// (RESOLVE_NO_XDEV), and the mount point itself cannot be shown: EACCES.
type tree struct {
	// Set once.
	root   int  // the directory; O_RDONLY, as open_by_handle_at wants no O_PATH
	copied int  // the private mount, or -1
	named  int  // the directory by its name: keeps the export itself from being unmounted unnoticed
	noXdev bool // lookups must be told to stay on the mount
}

// openTree opens directory dir; with cross what is mounted below belongs to it.
func openTree(dir string, cross bool) (t tree, err error) {
	t = tree{root: -1, copied: -1}
	if t.named, err = openHere(unix.AT_FDCWD, dir, unix.O_RDONLY|unix.O_DIRECTORY); err != nil {
		return t, err
	}
	if !cross {
		t.copied, err = copyMount(t.named)
		t.noXdev = err != nil
	}
	from := t.named
	if t.copied >= 0 {
		from = t.copied
	}
	how := unix.OpenHow{Flags: unix.O_RDONLY | unix.O_DIRECTORY | unix.O_CLOEXEC}
	if t.noXdev {
		how.Resolve = unix.RESOLVE_NO_XDEV
	}
	if t.root, err = opened(func() (int, error) { return unix.Openat2(from, ".", &how) }); err != nil {
		t.close()
		if forbidden(err) {
			err = fmt.Errorf("openat2 is not available (%v): it takes a kernel from 5.6 on, and a container whose filter allows it", err)
		}
		return t, err
	}
	return t, nil
}

// forbidden reports whether a system call is not there, or kept from this process by a filter: a
// right that is missing is EACCES.
func forbidden(err error) bool { return errors.Is(err, unix.ENOSYS) || errors.Is(err, unix.EPERM) }

// copyMount is privateMount, but for tests of a server that is not allowed to do that.
var copyMount = privateMount

// privateMount returns a mount of the directory fd that is nowhere attached and
// has none below it, now or later.
func privateMount(fd int) (int, error) {
	m, err := unix.OpenTree(fd, "", unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC|unix.AT_EMPTY_PATH)
	if err != nil {
		return -1, err
	}
	// Or what is mounted in a shared mount from now on would be mounted here too.
	if err := unix.MountSetattr(m, "", unix.AT_EMPTY_PATH, &unix.MountAttr{Propagation: unix.MS_PRIVATE}); err != nil {
		unix.Close(m)
		return -1, err
	}
	return m, nil
}

func (t *tree) close() {
	for _, fd := range [...]int{t.root, t.copied, t.named} {
		if fd >= 0 {
			unix.Close(fd)
		}
	}
}
