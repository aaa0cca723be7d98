// System calls of older kernels, on amd64 only.

package fusefs

import "golang.org/x/sys/unix"

const sysOpen = unix.SYS_OPEN

// oldPathCalls is like pathCalls.
var oldPathCalls = []int{
	unix.SYS_STAT, unix.SYS_LSTAT, unix.SYS_NEWFSTATAT, unix.SYS_ACCESS, unix.SYS_UNLINK, unix.SYS_RENAME, unix.SYS_RENAMEAT, unix.SYS_LINK, unix.SYS_SYMLINK,
	unix.SYS_MKNOD, unix.SYS_MKDIR, unix.SYS_RMDIR, unix.SYS_READLINK, unix.SYS_CHMOD, unix.SYS_CHOWN, unix.SYS_LCHOWN, unix.SYS_UTIME,
	unix.SYS_UTIMES, unix.SYS_FUTIMESAT,
}
