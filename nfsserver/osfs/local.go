// Which calls wait for no disk: attributes of open files, on file systems of this machine's own.

package osfs

import (
	"github.com/nfsrdma/nfsrdma/nfsserver"
	"golang.org/x/sys/unix"
)

// local reports whether a file system of that magic number has the attributes of open
// files in this machine's memory. Others ask a program (FUSE), a network (also GFS2 and
// OCFS2), or file systems of either sort below them (overlay), which possibly never answer. Of those that
// are not known that is assumed.
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

// InUse reports whether r is open, so that its attributes can be had without a disk.
func (f *FS) InUse(r nfsserver.Ref) bool {
	s := f.cache.of(&r)
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.nodes[r] != nil
}

var _ nfsserver.InUser = (*FS)(nil)
