// The exported tree: the export's own file system, without the mounts inside it.

package osfs

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"
)

// A tree holds the export root's descriptors.
//
// Clients MUST NOT see file systems mounted inside the export (exports(5), nocrossmnt). With
// CAP_SYS_ADMIN the server makes a private copy of the export's mount, without the mounts below. In
// the copy the directory under a mount point is an ordinary directory, and no lookup enters a
// mounted file system, whenever it was mounted. Without the capability the kernel is asked to
// refuse each step over a mount point (RESOLVE_NO_XDEV), and a mount point itself returns EACCES.
type tree struct {
	// Set once.
	root   int  // the directory; O_RDONLY, because open_by_handle_at(2) does not take O_PATH
	copied int  // the private mount, or -1
	named  int  // the directory by its name; keeps the export from being unmounted unnoticed
	noXdev bool // lookups need RESOLVE_NO_XDEV
}

// openTree opens directory dir. With cross the mounts below belong to it.
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

// forbidden reports whether a system call is missing, or forbidden by a filter. A missing
// permission is EACCES.
func forbidden(err error) bool { return errors.Is(err, unix.ENOSYS) || errors.Is(err, unix.EPERM) }

// copyMount is privateMount; tests replace it to imitate a server without the capability.
var copyMount = privateMount

// privateMount returns a detached mount of the directory fd, which never has mounts below.
func privateMount(fd int) (int, error) {
	m, err := unix.OpenTree(fd, "", unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC|unix.AT_EMPTY_PATH)
	if err != nil {
		return -1, err
	}
	// Without MS_PRIVATE, later mounts inside a shared mount would appear in the copy too.
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
