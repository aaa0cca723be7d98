// Attributes of local files, and system calls that package os lacks.

package treecopy

import (
	"errors"
	"io"
	"io/fs"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/nfsrdma/nfsrdma/posixacl"
)

// localDomain is the domain of all local objects.
var localDomain any = "local"

// metaOf converts a stat result.
func metaOf(name string, st *unix.Stat_t) Meta {
	return Meta{
		Name: name, Mode: goMode(st.Mode), Size: st.Size, Used: uint64(st.Blocks) * 512,
		Nlink: uint32(st.Nlink), UID: st.Uid, GID: st.Gid,
		Major: unix.Major(uint64(st.Rdev)), Minor: unix.Minor(uint64(st.Rdev)),
		Atime: time.Unix(st.Atim.Unix()), Mtime: time.Unix(st.Mtim.Unix()), Ctime: time.Unix(st.Ctim.Unix()),
		Fsid: uint64(st.Dev), Fileid: st.Ino, domain: localDomain,
	}
}

// The mode bits of both forms, without types.
var modeBits = [...]struct {
	sys  uint32
	mode fs.FileMode
}{{unix.S_ISUID, fs.ModeSetuid}, {unix.S_ISGID, fs.ModeSetgid}, {unix.S_ISVTX, fs.ModeSticky}}

var modeTypes = map[uint32]fs.FileMode{
	unix.S_IFREG: 0, unix.S_IFDIR: fs.ModeDir, unix.S_IFLNK: fs.ModeSymlink, unix.S_IFIFO: fs.ModeNamedPipe,
	unix.S_IFSOCK: fs.ModeSocket, unix.S_IFBLK: fs.ModeDevice, unix.S_IFCHR: fs.ModeDevice | fs.ModeCharDevice,
}

func goMode(mode uint32) fs.FileMode {
	t, ok := modeTypes[mode&unix.S_IFMT]
	if !ok {
		t = fs.ModeIrregular
	}
	m := t | fs.FileMode(mode&0o777)
	for _, b := range modeBits {
		if mode&b.sys != 0 {
			m |= b.mode
		}
	}
	return m
}

// sysMode converts permissions, setuid, setgid and sticky to the system's bits.
func sysMode(m fs.FileMode) uint32 {
	mode := uint32(m.Perm())
	for _, b := range modeBits {
		if m&b.mode != 0 {
			mode |= b.sys
		}
	}
	return mode
}

// openAt opens a name in a directory and retries after a signal.
func openAt(dirfd int, name string, flag int, perm fs.FileMode) (int, error) {
	for {
		fd, err := unix.Openat(dirfd, name, flag|unix.O_CLOEXEC, sysMode(perm))
		if !errors.Is(err, unix.EINTR) {
			return fd, err
		}
	}
}

func statAt(dirfd int, name string, flag int) (Meta, error) {
	var st unix.Stat_t
	for {
		err := unix.Fstatat(dirfd, name, &st, flag)
		if err == nil {
			return metaOf(name, &st), nil
		}
		if !errors.Is(err, unix.EINTR) {
			return Meta{}, err
		}
	}
}

// nextData returns the start and end of the first data segment at or after off.
func nextData(fd int, off int64) (start, end int64, ok bool, err error) {
	start, err = unix.Seek(fd, off, unix.SEEK_DATA)
	if errors.Is(err, unix.ENXIO) {
		return 0, 0, true, io.EOF
	}
	if err != nil {
		return 0, 0, false, nil
	}
	if end, err = unix.Seek(fd, start, unix.SEEK_HOLE); err != nil {
		return 0, 0, false, nil
	}
	return start, end, true, nil
}

// mknodAt makes a FIFO, socket or device like m in the directory dirfd.
func mknodAt(dirfd int, name string, perm fs.FileMode, m Meta) error {
	for t, mode := range modeTypes {
		if mode == m.Mode.Type() {
			dev := 0
			if mode&fs.ModeDevice != 0 {
				dev = int(unix.Mkdev(m.Major, m.Minor))
			}
			return unix.Mknodat(dirfd, name, t|uint32(perm.Perm()), dev)
		}
	}
	return unix.EINVAL
}

// carried reports whether an extended attribute survives a replaced content: ACLs and users'
// attributes. Capabilities do not survive, because they belong to the old program.
func carried(name string) bool {
	return name == posixacl.AttrAccess || strings.HasPrefix(name, "user.")
}

// copyXattrs copies the wanted attributes of from to to.
func copyXattrs(from, to int, want func(string) bool) error {
	list := make([]byte, 64<<10)
	n, err := unix.Flistxattr(from, list)
	if err != nil || n == 0 {
		return nil // the file has no attributes, or no visible ones
	}
	value := make([]byte, 64<<10)
	for name := range strings.SplitSeq(string(list[:n]), "\x00") {
		if name == "" || !want(name) {
			continue
		}
		k, err := unix.Fgetxattr(from, name, value)
		if errors.Is(err, unix.ENODATA) {
			continue
		}
		if err == nil {
			err = unix.Fsetxattr(to, name, value[:k], 0)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// setAttrAt sets attributes of a name. It sets the owner first, because a change of owner clears
// set-ID bits.
func setAttrAt(dirfd int, name string, link bool, a Attr) error {
	if a.SetOwner {
		if err := unix.Fchownat(dirfd, name, a.UID, a.GID, unix.AT_SYMLINK_NOFOLLOW); err != nil {
			return err
		}
	}
	if a.SetACLs && !link {
		if err := writeACLsAt(dirfd, name, &a.ACLs); err != nil {
			return err
		}
	}
	if a.SetMode && !link {
		if err := unix.Fchmodat(dirfd, name, sysMode(a.Mode), 0); err != nil {
			return err
		}
	}
	if a.Atime.IsZero() && a.Mtime.IsZero() {
		return nil
	}
	ts := []unix.Timespec{timespec(a.Atime), timespec(a.Mtime)}
	return unix.UtimesNanoAt(dirfd, name, ts, unix.AT_SYMLINK_NOFOLLOW)
}

func timespec(t time.Time) unix.Timespec {
	if t.IsZero() {
		return unix.Timespec{Nsec: unix.UTIME_OMIT}
	}
	return unix.Timespec{Sec: t.Unix(), Nsec: int64(t.Nanosecond())}
}

// utimensFD sets an open file's times.
func utimensFD(fd int, ts []unix.Timespec) error {
	return unix.UtimesNanoAt(unix.AT_FDCWD, procFD(fd), ts, 0)
}

// procFD returns a path to the open file of a descriptor.
func procFD(fd int) string { return "/proc/self/fd/" + strconv.Itoa(fd) }
