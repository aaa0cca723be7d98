// Attributes: stat to Attr, and setting them.

package osfs

import (
	"github.com/nfsrdma/nfsrdma/nfsserver"
	"golang.org/x/sys/unix"
)

// fileType is the kind in an st_mode.
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

// attr is the attributes of x.
func (x *file) attr() nfsserver.Attr { return attrOf(&x.st, x.fsid) }

// attrOf is the attributes in a stat of a file on file system fsid: a number that
// outlives reboots, which st_dev does not.
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

// Getattr is one fstat of a cached descriptor.
func (f *FS) Getattr(r nfsserver.Ref) (nfsserver.Attr, error) {
	n, err := f.acquire(&r)
	if err != nil {
		return nfsserver.Attr{}, err
	}
	defer f.cache.release(n)
	return f.getattr(n)
}

// getattr is the attributes of a node; one that has lost its last name is stale.
func (f *FS) getattr(n *node) (nfsserver.Attr, error) {
	var st unix.Stat_t
	if err := unix.Fstat(n.fd(), &st); err != nil {
		return nfsserver.Attr{}, err
	}
	if st.Nlink == 0 {
		f.dropIfGone(n)
		return nfsserver.Attr{}, nfsserver.ErrStale
	}
	return attrOf(&st, n.fsid), nil
}

// Setattr sets size, owner, mode and times, in this order: a change of owner
// clears set-id bits, and the others change times.
func (f *FS) Setattr(_ nfsserver.Cred, r nfsserver.Ref, s *nfsserver.SetAttr) error {
	n, err := f.acquire(&r)
	if err != nil {
		return err
	}
	defer f.cache.release(n)
	if s.Has(nfsserver.SetSize) {
		fd, err := f.writer(n)
		if err != nil {
			return err
		}
		if s.Size > f.info.MaxFileSize {
			return unix.EFBIG
		}
		if err := unix.Ftruncate(fd, int64(s.Size)); err != nil {
			return err
		}
	}
	if s.Has(nfsserver.SetUID | nfsserver.SetGID) {
		if err := chown(n.fd(), s); err != nil {
			return err
		}
	}
	if s.Has(nfsserver.SetMode) && n.typ != nfsserver.TypeSymlink {
		if err := chmod(n.fd(), s.Mode); err != nil {
			return err
		}
	}
	return setTimes(n.fd(), s)
}

// chown sets owner and group, those that s names.
func chown(fd int, s *nfsserver.SetAttr) error {
	uid, gid := -1, -1
	if s.Has(nfsserver.SetUID) {
		uid = int(s.UID)
	}
	if s.Has(nfsserver.SetGID) {
		gid = int(s.GID)
	}
	return unix.Fchownat(fd, "", uid, gid, unix.AT_EMPTY_PATH|unix.AT_SYMLINK_NOFOLLOW)
}

// chmod sets the mode of a descriptor of any sort, O_PATH too. The path is a
// link of /proc that leads to the inode itself.
func chmod(fd int, mode uint32) error {
	return unix.Fchmodat(unix.AT_FDCWD, procPath(fd), mode&nfsserver.ModeAll, 0)
}

// setTimes sets the times that s names.
func setTimes(fd int, s *nfsserver.SetAttr) error {
	if !s.HasTimes() {
		return nil
	}
	ts := [2]unix.Timespec{
		timespec(s.Has(nfsserver.SetAtime), s.Atime, s.Has(nfsserver.SetAtimeNow)),
		timespec(s.Has(nfsserver.SetMtime), s.Mtime, s.Has(nfsserver.SetMtimeNow)),
	}
	return unix.UtimesNanoAt(fd, "", ts[:], unix.AT_EMPTY_PATH|unix.AT_SYMLINK_NOFOLLOW)
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
