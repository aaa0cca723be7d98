// Making objects: each is private to the server until its owner and mode stand.

package osfs

import (
	"errors"

	"github.com/nfsrdma/nfsrdma/nfsserver"
	"golang.org/x/sys/unix"
)

// Create makes a file, and keeps it open for the writes that follow.
func (f *FS) Create(_ nfsserver.Cred, dir nfsserver.Ref, name string, s *nfsserver.SetAttr) (nfsserver.Ref, nfsserver.Attr, error) {
	d, err := f.acquireDir(&dir)
	if err != nil {
		return nfsserver.Ref{}, nfsserver.Attr{}, err
	}
	defer f.cache.release(d)
	fd, err := opened(func() (int, error) {
		return unix.Openat(d.fd(), name, unix.O_CREAT|unix.O_EXCL|unix.O_RDWR|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0o600)
	})
	if err != nil {
		return nfsserver.Ref{}, nfsserver.Attr{}, err
	}
	if s.Has(nfsserver.SetSize) && s.Size > 0 {
		err = unix.Ftruncate(fd, int64(min(s.Size, f.info.MaxFileSize)))
	}
	var x file
	if err == nil {
		err = f.finish(fd, s, true, &x)
	}
	if err != nil {
		unix.Close(fd)
		unix.Unlinkat(d.fd(), name, 0)
		return nfsserver.Ref{}, nfsserver.Attr{}, err
	}
	f.note(&x, d, name)
	n := newNode(&x)
	n.read.Store(int32(fd))
	n.write.Store(int32(fd))
	f.cache.release(f.cache.put(n))
	return x.ref, x.attr(), nil
}

// finish sets the attributes of a new object and describes it.
func (f *FS) finish(fd int, s *nfsserver.SetAttr, hasMode bool, x *file) error {
	err := chownNew(fd, s)
	if err == nil && hasMode && s.Has(nfsserver.SetMode) {
		err = chmod(fd, s.Mode)
	}
	if err == nil {
		err = setTimes(fd, s)
	}
	if err != nil {
		return err
	}
	return f.describe(fd, x)
}

// chownNew gives a new object to whom s names, if this process may.
func chownNew(fd int, s *nfsserver.SetAttr) error {
	if !s.Has(nfsserver.SetUID | nfsserver.SetGID) {
		return nil
	}
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return err
	}
	if (!s.Has(nfsserver.SetUID) || st.Uid == s.UID) && (!s.Has(nfsserver.SetGID) || st.Gid == s.GID) {
		return nil
	}
	if err := chown(fd, s); err != nil && !errors.Is(err, unix.EPERM) {
		return err
	}
	return nil
}

// make runs mk in directory dir, then completes the new object name there;
// undo is the flag of unlinkat that takes it away again.
func (f *FS) make(dir nfsserver.Ref, name string, s *nfsserver.SetAttr, undo int, hasMode bool, mk func(dirfd int) error) (nfsserver.Ref, nfsserver.Attr, error) {
	d, err := f.acquireDir(&dir)
	if err != nil {
		return nfsserver.Ref{}, nfsserver.Attr{}, err
	}
	defer f.cache.release(d)
	if err := mk(d.fd()); err != nil {
		return nfsserver.Ref{}, nfsserver.Attr{}, err
	}
	fd, err := f.tree.openPath(d.fd(), name)
	if err != nil {
		return nfsserver.Ref{}, nfsserver.Attr{}, err
	}
	var x file
	if err := f.finish(fd, s, hasMode, &x); err != nil {
		unix.Close(fd)
		unix.Unlinkat(d.fd(), name, undo)
		return nfsserver.Ref{}, nfsserver.Attr{}, err
	}
	f.note(&x, d, name)
	n := newNode(&x)
	n.path.Store(int32(fd))
	f.cache.release(f.cache.put(n))
	return x.ref, x.attr(), nil
}

// Mkdir makes a directory.
func (f *FS) Mkdir(_ nfsserver.Cred, dir nfsserver.Ref, name string, s *nfsserver.SetAttr) (nfsserver.Ref, nfsserver.Attr, error) {
	return f.make(dir, name, s, unix.AT_REMOVEDIR, true, func(dirfd int) error {
		return unix.Mkdirat(dirfd, name, 0o700)
	})
}

// Symlink makes a symbolic link.
func (f *FS) Symlink(_ nfsserver.Cred, dir nfsserver.Ref, name, target string, s *nfsserver.SetAttr) (nfsserver.Ref, nfsserver.Attr, error) {
	return f.make(dir, name, s, 0, false, func(dirfd int) error {
		return unix.Symlinkat(target, dirfd, name)
	})
}

// Mknod makes a socket, FIFO or device.
func (f *FS) Mknod(_ nfsserver.Cred, dir nfsserver.Ref, name string, t nfsserver.FileType, rdev nfsserver.Rdev, s *nfsserver.SetAttr) (nfsserver.Ref, nfsserver.Attr, error) {
	var mode uint32
	dev := 0
	switch t {
	case nfsserver.TypeFIFO:
		mode = unix.S_IFIFO
	case nfsserver.TypeSocket:
		mode = unix.S_IFSOCK
	case nfsserver.TypeChar:
		mode, dev = unix.S_IFCHR, int(unix.Mkdev(rdev.Major, rdev.Minor))
	case nfsserver.TypeBlock:
		mode, dev = unix.S_IFBLK, int(unix.Mkdev(rdev.Major, rdev.Minor))
	default:
		return nfsserver.Ref{}, nfsserver.Attr{}, nfsserver.ErrBadType
	}
	return f.make(dir, name, s, 0, true, func(dirfd int) error {
		return unix.Mknodat(dirfd, name, mode|0o600, dev)
	})
}
