// The calls that open: none fails for lack of descriptors while idle ones can be closed.

package osfs

import "golang.org/x/sys/unix"

// openat is openat(2), with O_CLOEXEC.
func openat(dirfd int, name string, flags int) (int, error) {
	return opened(func() (int, error) { return unix.Openat(dirfd, name, flags|unix.O_CLOEXEC, 0) })
}

// openPath opens name in a directory for reference alone, whatever it is; a
// symbolic link is not followed.
func openPath(dirfd int, name string) (int, error) {
	return openat(dirfd, name, unix.O_PATH|unix.O_NOFOLLOW)
}

// openDir opens a directory for reading.
func openDir(dirfd int, name string) (int, error) {
	return openat(dirfd, name, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW)
}

// openHandle is open_by_handle_at(2) of the file system of mount, with O_CLOEXEC.
func openHandle(mount int, h unix.FileHandle, flags int) (int, error) {
	return opened(func() (int, error) { return unix.OpenByHandleAt(mount, h, flags|unix.O_CLOEXEC) })
}
