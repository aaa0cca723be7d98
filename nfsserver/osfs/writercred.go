// Decides which part of the writer's identity matters to the file system.

package osfs

import (
	"unsafe"

	"github.com/nfsrdma/nfsrdma/nfsserver"
	"github.com/nfsrdma/nfsrdma/nfsserver/osfs/internal/cred"
	"golang.org/x/sys/unix"
)

// actWriter is Act for a permitted WRITE to n by c. Each part of the identity costs a system call
// before and after the WRITE, and not all parts matter:
//
//   - The writer, with its groups, decides whether a file's set-id bits are cleared.
//   - Blocks reserved for root, and limits that exempt root (quotas), depend on the effective user
//     and on capabilities. The group for which ext4 can reserve blocks (resgid) is not supported.
//   - If neither applies, the writer makes no difference.
func (f *FS) actWriter(n *node, c *nfsserver.Cred) (cred.Acting, error) {
	if n.grants.setID.Load() {
		return f.creds.Act(c)
	}
	if f.writersAlike && n.key.mount == f.top.id && f.creds.Switches {
		return cred.Acting{}, nil
	}
	who := f.creds.Self
	who.UID = c.UID
	return f.creds.Act(&who)
}

// writersAreAlike reports whether the file system of fd treats all writers alike: XFS has limits
// for owners only, and tmpfs has only quotas. On other file systems it returns false.
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

// hasQuotas reports whether quotas may be enabled. Kernels before 5.14 cannot report that, but have
// no quotas on tmpfs, which gained them in 6.6.
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
