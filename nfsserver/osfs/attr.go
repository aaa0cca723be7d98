// Attributes: stat to Attr, and setting them.

package osfs

import (
	"github.com/nfsrdma/nfsrdma/nfsserver"
	"github.com/nfsrdma/nfsrdma/nfsserver/osfs/internal/eintr"
	"golang.org/x/sys/unix"
)

// fileType returns the file type in an st_mode.
func fileType(mode uint32) nfsserver.FileType {
	switch mode & unix.S_IFMT {
	case unix.S_IFDIR:
		return nfsserver.TypeDir
	case unix.S_IFLNK:
		return nfsserver.TypeSymlink
	case unix.S_IFIFO:
		return nfsserver.TypeFIFO
	case unix.S_IFSOCK:
		return nfsserver.TypeSocket
	case unix.S_IFCHR:
		return nfsserver.TypeChar
	case unix.S_IFBLK:
		return nfsserver.TypeBlock
	}
	return nfsserver.TypeReg
}

// attr returns x's attributes.
func (x *file) attr() nfsserver.Attr { return attrOf(&x.st, x.fsid) }

// attrOf converts a stat of a file on file system fsid. Unlike st_dev, the number fsid survives
// reboots.
func attrOf(st *unix.Stat_t, fsid uint64) nfsserver.Attr {
	a := nfsserver.Attr{
		Type: fileType(st.Mode), Mode: st.Mode & nfsserver.ModeAll, Nlink: uint32(st.Nlink), UID: st.Uid, GID: st.Gid,
		Size: uint64(st.Size), Used: uint64(st.Blocks) * 512, Fsid: fsid, Fileid: st.Ino,
		Atime: timeOf(&st.Atim), Mtime: timeOf(&st.Mtim), Ctime: timeOf(&st.Ctim),
	}
	if a.Type == nfsserver.TypeChar || a.Type == nfsserver.TypeBlock {
		a.Rdev = nfsserver.Rdev{Major: unix.Major(st.Rdev), Minor: unix.Minor(st.Rdev)}
	}
	return a
}

func timeOf(t *unix.Timespec) nfsserver.Time { return nfsserver.Time{Sec: t.Sec, Nsec: uint32(t.Nsec)} }

// Getattr returns r's attributes, by one fstat of a cached descriptor.
func (f *FS) Getattr(r nfsserver.Ref) (nfsserver.Attr, error) {
	n, err := f.acquire(&r)
	if err != nil {
		return nfsserver.Attr{}, err
	}
	defer f.cache.release(n)
	return f.getattr(n)
}

// fstatNode calls fstat for a node. On a file system with Info.Quick the call waits for nothing, so
// fstatNode does not notify the scheduler.
func (f *FS) fstatNode(n *node, st *unix.Stat_t) error {
	if f.info.Quick {
		return fstatQuick(n.fd(), st)
	}
	return fstat(n.fd(), st)
}

// getattr returns a node's attributes. A node without a name left is stale.
func (f *FS) getattr(n *node) (nfsserver.Attr, error) {
	var st unix.Stat_t
	err := f.fstatNode(n, &st)
	if err == unix.ENOENT && n.numbered { // no path is left: the next call searches again
		f.cache.drop(n)
		return nfsserver.Attr{}, nfsserver.ErrStale
	}
	if err != nil {
		return nfsserver.Attr{}, err
	}
	if st.Nlink == 0 || f.isDeadNow(n) {
		f.dropIfGone(n)
		return nfsserver.Attr{}, nfsserver.ErrStale
	}
	if n.numbered {
		if err := f.still(n, n.fd(), &st); err != nil {
			f.cache.drop(n) // the next call searches for the file again
			return nfsserver.Attr{}, err
		}
	}
	n.grants.see(&st)
	if n.unstableBtime && st.Ctim != n.ctime && !n.btimeFinal.Swap(true) {
		f.seeBirth(n) // the change has copied the file up, which happens once
	}
	return attrOf(&st, n.fsid), nil
}

// Setattr sets owner, size, mode and times, in this order. A change of owner or size clears set-id
// bits and changes times. The owner comes first, so a refused owner leaves the content uncut. The
// kernel checks each change as if the caller made it.
func (f *FS) Setattr(c nfsserver.Cred, r nfsserver.Ref, s *nfsserver.SetAttr) error {
	n, err := f.acquire(&r)
	if err != nil {
		return err
	}
	defer f.cache.release(n)
	size := -1 // descriptor for ftruncate(2); -1: no new size
	if s.Has(nfsserver.SetSize) {
		if size, err = f.resizer(n, &c, s); err != nil {
			return err
		}
	}
	if !f.creds.Switches {
		n.mu.Lock() // openOwn would undo the change by restoring the mode that it found
		defer n.mu.Unlock()
	}
	defer n.grants.forget()
	if n.numbered {
		// The change can set ctime and atime, which identify the file.
		f.identities.pin(n.key, generationIn(&n.ref))
		defer f.endPin(n)
	}
	rest, err := f.setAttr(n, &c, s, size)
	if rest == 0 || err != unix.EPERM && err != unix.EACCES {
		return err
	}
	if err := f.mayWrite(n, &c); err != nil {
		return err
	}
	return setTimes(n.fd(), &nfsserver.SetAttr{Mask: rest})
}

// resizer checks whether c may set n's size and everything else in s, and returns the descriptor
// for ftruncate(2). It refuses changes reserved for owners before the content is cut.
func (f *FS) resizer(n *node, c *nfsserver.Cred, s *nfsserver.SetAttr) (int, error) {
	if err := n.isFile(); err != nil {
		return -1, err
	}
	if s.Size > f.info.MaxFileSize {
		return -1, unix.EFBIG
	}
	owners := nfsserver.SetMode | nfsserver.SetUID | nfsserver.SetGID | nfsserver.SetAtime | nfsserver.SetMtime
	if !f.creds.Switches && !s.Has(nfsserver.SetMtimeNow) {
		owners |= nfsserver.SetAtimeNow // the present time alone; see setAttr
	}
	if root := c.UID == 0 && f.creds.Switches; !root && s.Has(owners) && !f.isOwner(n, c) {
		return -1, unix.EPERM
	}
	if err := f.mayWrite(n, c); err != nil {
		return -1, err
	}
	return f.writer(n)
}

// setAttr makes the changes in s as c; size is the descriptor for ftruncate(2), or -1. If c lacks
// the right to set only one of the two times to the present, setAttr returns that in rest:
// utimensat(2) reserves it for owners. RFC 1813 §3.3.2 has no such rule, and clients send such a
// SETATTR for users with write permission.
func (f *FS) setAttr(n *node, c *nfsserver.Cred, s *nfsserver.SetAttr, size int) (rest nfsserver.SetMask, err error) {
	a, err := f.creds.Act(c)
	if err != nil {
		return 0, err
	}
	defer a.End()
	if s.Has(nfsserver.SetUID | nfsserver.SetGID) {
		if err := chown(n.fd(), s); err != nil {
			return 0, err
		}
	}
	if size >= 0 {
		if err := eintr.Retry(func() error { return unix.Ftruncate(size, int64(s.Size)) }); err != nil {
			return 0, err
		}
		if !s.Has(nfsserver.SetAtimeNow) {
			left := *s
			left.Mask &^= nfsserver.SetMtimeNow // ftruncate(2) has set it
			s = &left
		}
	}
	if s.Has(nfsserver.SetMode) && n.typ != nfsserver.TypeSymlink {
		if err := chmod(n.fd(), s.Mode); err != nil {
			return 0, err
		}
	}
	err = setTimes(n.fd(), s)
	if err != nil && !s.Has(nfsserver.SetAtime|nfsserver.SetMtime) {
		rest = s.Mask & (nfsserver.SetAtimeNow | nfsserver.SetMtimeNow)
	}
	return rest, err
}

// chown sets the owner and the group present in s.
func chown(fd int, s *nfsserver.SetAttr) error {
	uid, gid := -1, -1
	if s.Has(nfsserver.SetUID) {
		uid = int(s.UID)
	}
	if s.Has(nfsserver.SetGID) {
		gid = int(s.GID)
	}
	return eintr.Retry(func() error { return unix.Fchownat(fd, "", uid, gid, unix.AT_EMPTY_PATH|unix.AT_SYMLINK_NOFOLLOW) })
}

// chmod sets the mode by any descriptor, O_PATH too: its /proc link leads to the inode itself.
func chmod(fd int, mode uint32) error {
	return eintr.Retry(func() error { return unix.Fchmodat(unix.AT_FDCWD, procPath(fd), mode&nfsserver.ModeAll, 0) })
}

// setTimes sets the times in s.
func setTimes(fd int, s *nfsserver.SetAttr) error {
	if !s.HasTimes() {
		return nil
	}
	ts := [2]unix.Timespec{
		timespec(s.Has(nfsserver.SetAtime), s.Atime, s.Has(nfsserver.SetAtimeNow)),
		timespec(s.Has(nfsserver.SetMtime), s.Mtime, s.Has(nfsserver.SetMtimeNow)),
	}
	return eintr.Retry(func() error { return unix.UtimesNanoAt(fd, "", ts[:], unix.AT_EMPTY_PATH|unix.AT_SYMLINK_NOFOLLOW) })
}

func timespec(set bool, t nfsserver.Time, now bool) unix.Timespec {
	switch {
	case set:
		return unix.Timespec{Sec: t.Sec, Nsec: int64(t.Nsec)}
	case now:
		return unix.Timespec{Nsec: unix.UTIME_NOW}
	}
	return unix.Timespec{Nsec: unix.UTIME_OMIT}
}
