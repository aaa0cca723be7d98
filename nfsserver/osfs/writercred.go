// Whether it matters to a file system who writes to a file that is open.

package osfs

import (
	"unsafe"

	"github.com/nfsrdma/nfsrdma/nfsserver"
	"github.com/nfsrdma/nfsrdma/nfsserver/osfs/internal/cred"
	"golang.org/x/sys/unix"
)

// actWriter is act for a WRITE to n, which c may do. Not all of the identity
// matters then, and each part of it is a system call more, on either side:
//
//   - A file with set-id bits loses them by who writes, groups included.
//   - Room that is kept for root, and limits that do not hold for it (quotas), are
//     a matter of the effective user and of capabilities. The group that ext4 can
//     be told to keep room for (resgid) is not looked at.
//   - Where there is neither, the writer makes no difference.
func (f *FS) actWriter(n *node, c *nfsserver.Cred) (cred.Acting, error) {
	if n.grants.setID.Load() {
		return f.creds.Act(c)
	}
	if f.anyWriter && n.key.mount == f.top.id && f.creds.Switches {
		return cred.Acting{}, nil
	}
	who := f.creds.Self
	who.UID = c.UID
	return f.creds.Act(&who)
}

// writersAreAlike reports whether the file system of fd gives room to one writer
// as to another: XFS sets its limits by the owner alone, and tmpfs has none but
// quotas. Of no other is that assumed.
func writersAreAlike(fd int, magic int64) bool {
	switch magic {
	case unix.XFS_SUPER_MAGIC:
		return true
	case unix.TMPFS_MAGIC:
		return !hasQuotas(fd)
	}
	return false
}

// Commands of quotactl(2), for users and for groups.
const (
	getUserFormat  = 0x800004 << 8
	getGroupFormat = 0x800004<<8 | 1
)

// hasQuotas reports whether quotas are on, or may be: a kernel that cannot be
// asked (before 5.14) has no quotas on tmpfs, which came with 6.6.
func hasQuotas(fd int) bool {
	var format uint32
	for _, cmd := range [...]uintptr{getUserFormat, getGroupFormat} {
		_, _, errno := unix.Syscall6(unix.SYS_QUOTACTL_FD, uintptr(fd), cmd, 0, uintptr(unsafe.Pointer(&format)), 0, 0)
		switch errno {
		case unix.ESRCH, unix.ENOSYS, unix.EOPNOTSUPP:
		default:
			return true
		}
	}
	return false
}
