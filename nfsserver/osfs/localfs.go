// File systems of this machine's own: attributes of open files wait for no disk there, and others
// change directories through this machine alone.

package osfs

import (
	"github.com/nfsrdma/nfsrdma/nfsserver"
	"golang.org/x/sys/unix"
)

// local reports whether a file system of that magic number has the attributes of open files in this
// machine's memory. Others ask a program (FUSE), a network (also GFS2 and OCFS2), or file systems
// of either sort below them (overlay), which possibly never answer. Of those that are not known
// that is assumed.
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

// isShared reports whether a file system of that magic number is possibly changed by other
// machines, or by whom its program likes. The kernel then tells a directory's attributes as they
// were when it asked last, up to a minute ago with NFS, and after a change of its own those that it
// is given with that. What lies below an overlay does not change while it is mounted
// (overlayfs.rst, "Changes to underlying filesystems"). Of those that are not known it is assumed.
func isShared(magic int64) bool {
	switch uint32(magic) {
	case unix.OVERLAYFS_SUPER_MAGIC, unix.MSDOS_SUPER_MAGIC, unix.EXFAT_SUPER_MAGIC:
		return false
	}
	return !local(magic)
}

// InUse reports whether r is open, so that its attributes can be had without a disk.
func (f *FS) InUse(r nfsserver.Ref) bool {
	s := f.cache.of(&r)
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.nodes[r] != nil
}
