// Opens files. No open fails for lack of descriptors while idle ones can be closed.

package osfs

import (
	"errors"

	"golang.org/x/sys/unix"
)

// scarce reports whether an error is a temporary lack of descriptors or memory. Such an error does
// not concern the file, so it makes no handle stale.
func scarce(err error) bool {
	return errors.Is(err, unix.EMFILE) || errors.Is(err, unix.ENFILE) || errors.Is(err, unix.ENOMEM)
}

// openat is openat(2) of a name, with O_CLOEXEC. In a tree without a private mount, a mount point
// returns EACCES.
func (t *tree) openat(dirfd int, name string, flags int) (int, error) {
	if !t.noXdev {
		return openHere(dirfd, name, flags)
	}
	how := unix.OpenHow{Flags: uint64(flags | unix.O_CLOEXEC), Resolve: unix.RESOLVE_NO_XDEV}
	fd, err := opened(func() (int, error) { return unix.Openat2(dirfd, name, &how) })
	if err == unix.EXDEV {
		err = unix.EACCES
	}
	return fd, err
}

// openPath opens name in a directory with O_PATH, whatever it is. It does not follow a symbolic
// link.
func (t *tree) openPath(dirfd int, name string) (int, error) {
	return t.openat(dirfd, name, unix.O_PATH|unix.O_NOFOLLOW)
}

// openDir opens a directory for reading.
func (t *tree) openDir(dirfd int, name string) (int, error) {
	return t.openat(dirfd, name, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW)
}

// openHere calls openat(2), with O_CLOEXEC, for a name that leads to no other mount.
func openHere(dirfd int, name string, flags int) (int, error) {
	return opened(func() (int, error) { return unix.Openat(dirfd, name, flags|unix.O_CLOEXEC, 0) })
}

// openHandle calls open_by_handle_at(2), with O_CLOEXEC, on the file system of mount.
func openHandle(mount int, h unix.FileHandle, flags int) (int, error) {
	return opened(func() (int, error) { return unix.OpenByHandleAt(mount, h, flags|unix.O_CLOEXEC) })
}
