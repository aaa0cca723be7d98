// Reading one cache: the checks on the open file.

package ccache

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"golang.org/x/sys/unix"
)

// Bounds of one search: the bytes of a cache, the names read from one directory, the caches, and
// the errors of rejected caches. A user's many or large files must not fill this process's memory.
const (
	maxSize    = 1 << 20
	maxNames   = 1 << 16
	maxCaches  = 16
	maxReasons = 16
)

// openFlags open without following a link in the last component. Without O_NONBLOCK, a user's FIFO
// would block the process.
const openFlags = unix.O_RDONLY | unix.O_NOFOLLOW | unix.O_NONBLOCK | unix.O_CLOEXEC | unix.O_NOCTTY

// read reads a user's cache.
func read(name string, uid uint32) (Cache, error) {
	return readFrom(unix.AT_FDCWD, name, name, uid)
}

// readAt reads a file of an open directory.
func readAt(d *os.File, base string, uid uint32) (Cache, error) {
	return readFrom(int(d.Fd()), base, filepath.Join(d.Name(), base), uid)
}

// readFrom opens a path below dirfd, checks the file, and reads it.
func readFrom(dirfd int, at, name string, uid uint32) (Cache, error) {
	if err := foreignAt(dirfd, at, name, uid); err != nil {
		return Cache{}, err
	}
	fd, err := unix.Openat(dirfd, at, openFlags, 0)
	if errors.Is(err, unix.ELOOP) {
		return Cache{}, fmt.Errorf("%s: not read: it is a symbolic link", name)
	}
	if err != nil {
		return Cache{}, &fs.PathError{Op: "open", Path: name, Err: err}
	}
	f := os.NewFile(uintptr(fd), name)
	defer f.Close()
	if err := mountedSafely(f, uid); err != nil {
		return Cache{}, err
	}
	st, err := f.Stat()
	if err == nil {
		err = check(name, st, uid, st.Mode().IsRegular(), "a regular file")
	}
	if err != nil {
		return Cache{}, err
	}
	data, err := io.ReadAll(io.LimitReader(f, maxSize+1))
	if err != nil {
		return Cache{}, err
	}
	if len(data) > maxSize {
		return Cache{}, fmt.Errorf("%s: not read: it is larger than %d bytes", name, maxSize)
	}
	return Cache{Name: "FILE:" + name, Data: data, Modified: st.ModTime()}, nil
}

// openDir opens a user's directory of caches.
func openDir(name string, uid uint32) (*os.File, error) {
	if err := foreignAt(unix.AT_FDCWD, name, name, uid); err != nil {
		return nil, err
	}
	fd, err := unix.Open(name, openFlags|unix.O_DIRECTORY, 0)
	if errors.Is(err, unix.ENOTDIR) || errors.Is(err, unix.ELOOP) {
		return nil, fmt.Errorf("%s: not read: it is no directory", name)
	}
	if err != nil {
		return nil, &fs.PathError{Op: "open", Path: name, Err: err}
	}
	d := os.NewFile(uintptr(fd), name)
	st, err := d.Stat()
	if safe := mountedSafely(d, uid); safe != nil {
		err = safe
	}
	if err == nil {
		err = check(name, st, uid, st.IsDir(), "a directory")
	}
	if err != nil {
		d.Close()
		return nil, err
	}
	return d, nil
}

// check returns an error unless the file has the right type (right), belongs to the user, and no
// other user can write to it.
func check(name string, st fs.FileInfo, uid uint32, right bool, kind string) error {
	owner := st.Sys().(*syscall.Stat_t).Uid
	switch {
	case !right:
		return fmt.Errorf("%s: not read: it is not %s", name, kind)
	case owner != uid:
		return fmt.Errorf("%s: not read: it belongs to uid %d, not to %d", name, owner, uid)
	case st.Mode().Perm()&0o022 != 0:
		return fmt.Errorf("%s: not read: others may write it (mode %04o): chmod 600", name, st.Mode().Perm())
	}
	return nil
}
