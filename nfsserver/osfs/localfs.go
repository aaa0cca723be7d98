// Distinguishes local file systems: only on those do attributes of open files wait for no disk, and
// only this machine changes directories.

package osfs

import (
	"github.com/nfsrdma/nfsrdma/nfsserver"
	"golang.org/x/sys/unix"
)

// local reports whether a file system with this magic number has the attributes of open files in
// this machine's memory. Other types ask a program (FUSE), a network (also GFS2 and OCFS2), or
// lower file systems of either kind (overlay), which may never answer. Unknown types count as not
// local.
func local(magic int64) bool {
	switch uint32(magic) {
	case unix.EXT4_SUPER_MAGIC, // ext2 and ext3, too
		unix.XFS_SUPER_MAGIC, unix.BTRFS_SUPER_MAGIC, unix.TMPFS_MAGIC, unix.F2FS_SUPER_MAGIC,
		unix.REISERFS_SUPER_MAGIC, unix.NILFS_SUPER_MAGIC, unix.SQUASHFS_MAGIC, unix.EROFS_SUPER_MAGIC_V1,
		unix.UDF_SUPER_MAGIC, unix.ISOFS_SUPER_MAGIC, bcachefsMagic, zfsMagic, jfsMagic:
		return true
	}
	return false
}

// isShared reports whether other machines, or a program's other users, may change a file system
// with this magic number. The kernel then returns a directory's attributes from its last request,
// up to a minute old with NFS, or from the reply to this machine's own change. The layers below an
// overlay do not change while it is mounted (overlayfs.rst, "Changes to underlying filesystems").
// Unknown file systems count as shared.
func isShared(magic int64) bool {
	switch uint32(magic) {
	case unix.OVERLAYFS_SUPER_MAGIC, unix.MSDOS_SUPER_MAGIC, unix.EXFAT_SUPER_MAGIC:
		return false
	}
	return !local(magic)
}

// InUse reports whether r is open, so that reading its attributes waits for no disk.
func (f *FS) InUse(r nfsserver.Ref) bool {
	s := f.cache.of(&r)
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.nodes[r] != nil
}
