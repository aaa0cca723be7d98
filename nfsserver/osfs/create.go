// Makes objects as the caller, which owns them from the start.

package osfs

import (
	"os"
	"strconv"
	"strings"

	"github.com/nfsrdma/nfsrdma/nfsserver"
	"github.com/nfsrdma/nfsrdma/nfsserver/osfs/internal/eintr"
	"golang.org/x/sys/unix"
)

// Create makes a file, and keeps it open for the following WRITEs.
func (f *FS) Create(c nfsserver.Cred, dir nfsserver.Ref, name string, s *nfsserver.SetAttr) (nfsserver.Ref, nfsserver.Attr, error) {
	d, err := f.acquireDir(&dir)
	if err != nil {
		return nfsserver.Ref{}, nfsserver.Attr{}, err
	}
	defer f.cache.release(d)
	const flags = unix.O_CREAT | unix.O_EXCL | unix.O_RDWR | unix.O_NOFOLLOW | unix.O_CLOEXEC
	mode, x := newMode(s, 0o600), file{after: newGeneration()}
	fd, err := opened(func() (fd int, err error) {
		err = f.as(&c, func() error { fd, err = unix.Openat(d.fd(), name, flags, mode); return err })
		return fd, err
	})
	if err != nil {
		return nfsserver.Ref{}, nfsserver.Attr{}, f.inDir(d, err)
	}
	if err := f.complete(d, &c, name, s, 0, fd, &x); err != nil {
		return nfsserver.Ref{}, nfsserver.Attr{}, err
	}
	f.note(&x, d, name)
	n := newNode(&x)
	f.pin(n)
	n.read.Store(int32(fd))
	n.write.Store(int32(fd))
	f.cache.release(f.cache.put(n))
	return x.ref, x.attr(), nil
}

// inDir returns the error from a call to make a name in d. An ENOENT there concerns the
// directory, not the name.
func (f *FS) inDir(d *node, err error) error {
	if err == unix.ENOENT && f.dropIfGone(d) {
		return nfsserver.ErrStale
	}
	return err
}

// newMode returns a new object's mode from s, or usual if s has no mode.
func newMode(s *nfsserver.SetAttr, usual uint32) uint32 {
	if s.Has(nfsserver.SetMode) {
		return s.Mode & nfsserver.ModeAll
	}
	return usual
}

// make runs mk as the caller in directory dir, then completes the new object name there. After an
// error it removes the object by unlinkat(2) with the flag undo.
func (f *FS) make(c *nfsserver.Cred, dir nfsserver.Ref, name string, s *nfsserver.SetAttr, undo int, mk func(dirfd int) error) (nfsserver.Ref, nfsserver.Attr, error) {
	d, err := f.acquireDir(&dir)
	if err != nil {
		return nfsserver.Ref{}, nfsserver.Attr{}, err
	}
	defer f.cache.release(d)
	x := file{after: newGeneration()}
	if err := f.as(c, func() error { return mk(d.fd()) }); err != nil {
		return nfsserver.Ref{}, nfsserver.Attr{}, f.inDir(d, err)
	}
	fd, err := f.tree.openPath(d.fd(), name)
	if err != nil { // such as too few descriptors: after an error the name is removed
		f.as(c, func() error { return unix.Unlinkat(d.fd(), name, undo) })
		return nfsserver.Ref{}, nfsserver.Attr{}, err
	}
	if err := f.complete(d, c, name, s, undo, fd, &x); err != nil {
		return nfsserver.Ref{}, nfsserver.Attr{}, err
	}
	f.note(&x, d, name)
	n := newNode(&x)
	n.path.Store(int32(fd))
	f.cache.release(f.cache.put(n))
	return x.ref, x.attr(), nil
}

// complete sets the attributes left unset by the creating call, and describes the new object in x.
// After an error it removes the name and closes fd.
func (f *FS) complete(d *node, c *nfsserver.Cred, name string, s *nfsserver.SetAttr, undo, fd int, x *file) error {
	err := f.finish(d, c, s, fd)
	if err == nil {
		err = f.describe(fd, x)
	}
	if err != nil {
		unix.Close(fd)
		f.as(c, func() error { return unix.Unlinkat(d.fd(), name, undo) })
	}
	return err
}

// finish sets those attributes in s that the new object fd lacks.
func (f *FS) finish(d *node, c *nfsserver.Cred, s *nfsserver.SetAttr, fd int) error {
	var st unix.Stat_t
	if err := fstat(fd, &st); err != nil {
		return err
	}
	size := s.Has(nfsserver.SetSize) && s.Size > 0 && fileType(st.Mode) == nfsserver.TypeReg
	foreign := s.Has(nfsserver.SetUID) && st.Uid != s.UID || s.Has(nfsserver.SetGID) && st.Gid != s.GID
	if size {
		err := f.as(c, func() error { return unix.Ftruncate(fd, int64(min(s.Size, f.info.MaxFileSize))) })
		if err != nil {
			return err
		}
	}
	mode := st.Mode | f.moreMode(d, s, &st)
	if foreign {
		given, err := f.give(c, s, fd, &st)
		if err != nil {
			return err
		}
		if !given { // set-id bits in s were meant for another owner
			mode = mode&^setIDBits | inherited(&st)
		}
	}
	if err := f.finishMode(c, fd, &st, mode, size || foreign); err != nil {
		return err
	}
	if fileType(st.Mode) != nfsserver.TypeReg {
		// As the caller, because another process may have put a different object under the name.
		return f.as(c, func() error { return setTimes(fd, s) })
	}
	// As the server, because a mount option can determine the owner of files (vfat). The creating
	// caller could then not set the times by which an exclusive CREATE is recognized. The
	// descriptor comes from the creating call, so it is the new file.
	return setTimes(fd, s)
}

// give gives the new object fd, with attributes st, the user and group in s, and reports whether
// both are set now. It skips a user or group unknown in the server's user namespace, as Linux's
// server does: clients send owners in CREATE unasked, and the new object belongs to the caller
// anyway.
func (f *FS) give(c *nfsserver.Cred, s *nfsserver.SetAttr, fd int, st *unix.Stat_t) (given bool, err error) {
	given = true
	err = f.as(c, func() error {
		// The group first: a caller that has given the object away cannot set its group.
		for _, id := range [...]nfsserver.SetMask{nfsserver.SetGID, nfsserver.SetUID} {
			one := *s
			if one.Mask &= id; one.Mask == 0 || id == nfsserver.SetUID && st.Uid == s.UID || id == nfsserver.SetGID && st.Gid == s.GID {
				continue
			}
			switch err := chown(fd, &one); err {
			case nil:
			case unix.EINVAL:
				given = false
			default:
				return err
			}
		}
		return nil
	})
	return given, err
}

// inherited returns the set-group-id bit that a new directory has from its parent.
func inherited(st *unix.Stat_t) uint32 {
	if fileType(st.Mode) == nfsserver.TypeDir {
		return st.Mode & unix.S_ISGID
	}
	return 0
}

// finishMode sets the new object fd's mode; st are the attributes just after the creating call.
// With cleared, a new size or owner since that call has cleared set-id bits.
func (f *FS) finishMode(c *nfsserver.Cred, fd int, st *unix.Stat_t, mode uint32, cleared bool) error {
	typ := fileType(st.Mode)
	if typ == nfsserver.TypeSymlink || mode == st.Mode && !(cleared && mode&setIDBits != 0) {
		return nil
	}
	who := c
	if typ == nfsserver.TypeDir && st.Mode&unix.S_ISGID != 0 && st.Uid == c.UID {
		who = &f.creds.Self // a caller outside the inherited group would clear the bit
	}
	return f.as(who, func() error { return chmod(fd, mode) })
}

const setIDBits = nfsserver.ModeSetuid | nfsserver.ModeSetgid

// moreMode returns the bits in s's mode left unset by the creating call: a directory's set-id bits,
// and bits in the process's umask, which applies only if the directory has no default ACL. Other
// missing bits were removed by ACLs, or the caller cannot set them.
func (f *FS) moreMode(d *node, s *nfsserver.SetAttr, st *unix.Stat_t) (more uint32) {
	missing := s.Mode & nfsserver.ModeAll &^ st.Mode
	if !s.Has(nfsserver.SetMode) || missing == 0 || fileType(st.Mode) == nfsserver.TypeSymlink {
		return 0
	}
	if fileType(st.Mode) == nfsserver.TypeDir {
		more = missing & setIDBits
	}
	if missing &= 0o777; missing == 0 {
		return more
	}
	if masked := missing & umask(); masked != 0 {
		size, err := eintr.RetryN(func() (int, error) { return unix.Getxattr(procPath(d.fd()), "system.posix_acl_default", nil) })
		if err == nil && size <= 0 || err == unix.ENODATA || err == unix.EOPNOTSUPP {
			more |= masked
		}
	}
	return more
}

// Mkdir makes a directory.
func (f *FS) Mkdir(c nfsserver.Cred, dir nfsserver.Ref, name string, s *nfsserver.SetAttr) (nfsserver.Ref, nfsserver.Attr, error) {
	mode := newMode(s, 0o700)
	return f.make(&c, dir, name, s, unix.AT_REMOVEDIR, func(dirfd int) error {
		return unix.Mkdirat(dirfd, name, mode)
	})
}

// Symlink makes a symbolic link.
func (f *FS) Symlink(c nfsserver.Cred, dir nfsserver.Ref, name, target string, s *nfsserver.SetAttr) (nfsserver.Ref, nfsserver.Attr, error) {
	return f.make(&c, dir, name, s, 0, func(dirfd int) error {
		return unix.Symlinkat(target, dirfd, name)
	})
}

// Mknod makes a socket, FIFO or device.
func (f *FS) Mknod(c nfsserver.Cred, dir nfsserver.Ref, name string, t nfsserver.FileType, rdev nfsserver.Rdev, s *nfsserver.SetAttr) (nfsserver.Ref, nfsserver.Attr, error) {
	mode := newMode(s, 0o600)
	dev := 0
	switch t {
	case nfsserver.TypeFIFO:
		mode |= unix.S_IFIFO
	case nfsserver.TypeSocket:
		mode |= unix.S_IFSOCK
	case nfsserver.TypeChar:
		mode |= unix.S_IFCHR
	case nfsserver.TypeBlock:
		mode |= unix.S_IFBLK
	default:
		return nfsserver.Ref{}, nfsserver.Attr{}, nfsserver.ErrBadType
	}
	if t == nfsserver.TypeChar || t == nfsserver.TypeBlock {
		if rdev.Major > maxMajor || rdev.Minor > maxMinor {
			return nfsserver.Ref{}, nfsserver.Attr{}, unix.EINVAL // mknod(2) would truncate rdev
		}
		dev = int(unix.Mkdev(rdev.Major, rdev.Minor))
	}
	return f.make(&c, dir, name, s, 0, func(dirfd int) error {
		return unix.Mknodat(dirfd, name, mode, dev)
	})
}

// Linux's largest major and minor device numbers, of 12 and 20 bits.
const (
	maxMajor = 1<<12 - 1
	maxMinor = 1<<20 - 1
)

// umask returns the permission bits removed from this process's new objects. It reads /proc,
// because umask(2) returns the bits only while changing them.
func umask() (mask uint32) {
	b, _ := os.ReadFile("/proc/self/status")
	for line := range strings.Lines(string(b)) {
		if v, ok := strings.CutPrefix(line, "Umask:"); ok {
			n, _ := strconv.ParseUint(strings.TrimSpace(v), 8, 32)
			mask = uint32(n)
		}
	}
	return mask
}
