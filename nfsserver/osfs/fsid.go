// A file system's identity, which distinguishes it from another one mounted in its place.

package osfs

import (
	"crypto/sha256"
	"encoding/binary"
	"unsafe"

	"golang.org/x/sys/unix"
)

// ioctls that return the UUID, and the UUID's offset in the result.
const (
	getFSUUID   = 0x80111500 // FS_IOC_GETFSUUID: 1 byte length, 16 UUID; Linux 6.9
	xfsGeometry = 0x80705864 // XFS_IOC_FSGEOMETRY_V1: 112 bytes
	btrfsInfo   = 0x8400941f // BTRFS_IOC_FS_INFO: 1024 bytes

	xfsUUIDAt   = 64
	btrfsUUIDAt = 16
	uuidLen     = 16
)

// hash64 hashes values. The result is the same in each run and never 0.
func hash64(parts ...uint64) uint64 {
	var b []byte
	for _, p := range parts {
		b = binary.BigEndian.AppendUint64(b, p)
	}
	sum := sha256.Sum256(b)
	return max(1, binary.BigEndian.Uint64(sum[:]))
}

// statFsid returns the f_fsid in sfs.
func statFsid(sfs *unix.Statfs_t) uint64 {
	return uint64(uint32(sfs.Fsid.Val[0]))<<32 | uint64(uint32(sfs.Fsid.Val[1]))
}

// fsIdentity returns a number for the file system of the open file fd. The number survives reboots
// if the file system has a UUID. For XFS an ioctl returns the UUID, because f_fsid is the device
// number there; ext4 and others derive f_fsid from the UUID. Without either the number depends on
// the mount source.
func fsIdentity(fd int, sfs *unix.Statfs_t, dev uint64) (uint64, error) {
	b := make([]byte, 1024)
	ask := func(request uintptr) bool {
		_, _, e := unix.Syscall(unix.SYS_IOCTL, uintptr(fd), request, uintptr(unsafe.Pointer(&b[0])))
		return e == 0
	}
	var uuid []byte
	// Each type has one source for all kernels. Otherwise an update would end handles.
	switch sfs.Type {
	case unix.EXT4_SUPER_MAGIC, unix.TMPFS_MAGIC, unix.OVERLAYFS_SUPER_MAGIC: // f_fsid
	case unix.XFS_SUPER_MAGIC:
		if ask(xfsGeometry) {
			uuid = b[xfsUUIDAt : xfsUUIDAt+uuidLen]
		}
	case unix.BTRFS_SUPER_MAGIC:
		if ask(btrfsInfo) {
			uuid = b[btrfsUUIDAt : btrfsUUIDAt+uuidLen]
		}
	default:
		// Other file systems may be programs that never answer.
		if keepsInodes(int64(sfs.Type)) && ask(getFSUUID) && b[0] == uuidLen {
			uuid = b[1 : 1+uuidLen]
		}
	}
	fsid := statFsid(sfs)
	switch {
	case uuid == nil && fsid != 0:
		return hash64(uint64(sfs.Type), fsid), nil
	case uuid == nil:
		source, err := mountSource(fd)
		return hash64(uint64(sfs.Type), hashString(source), dev), err
	case sfs.Type != unix.BTRFS_SUPER_MAGIC:
		fsid = 0 // f_fsid may be the device number
	}
	// On btrfs f_fsid distinguishes the subvolumes.
	return hash64(uint64(sfs.Type), binary.BigEndian.Uint64(uuid), binary.BigEndian.Uint64(uuid[8:]), fsid), nil
}

func hashString(s string) uint64 {
	sum := sha256.Sum256([]byte(s))
	return binary.BigEndian.Uint64(sum[:])
}

// mountSource returns the mount source for fd's file system, such as a device or a directory, or ""
// if it is unknown.
func mountSource(fd int) (string, error) {
	id, err := mountID(fd)
	if err != nil {
		return "", nil
	}
	all, err := readMounts()
	for _, m := range all {
		if m.ID == id {
			return m.Source, nil
		}
	}
	return "", err
}

// keepsInodes reports whether a file system with this magic number keeps inode numbers and handles
// over remounts, and while no process has the file open. Other file systems may reuse a number at
// any time, so an old handle would open the new file.
func keepsInodes(magic int64) bool {
	switch uint32(magic) {
	case unix.EXT4_SUPER_MAGIC, // ext2 and ext3, too
		unix.XFS_SUPER_MAGIC, unix.BTRFS_SUPER_MAGIC, unix.TMPFS_MAGIC, unix.F2FS_SUPER_MAGIC,
		unix.REISERFS_SUPER_MAGIC, unix.NILFS_SUPER_MAGIC, unix.SQUASHFS_MAGIC, unix.EROFS_SUPER_MAGIC_V1,
		unix.UDF_SUPER_MAGIC, unix.ISOFS_SUPER_MAGIC,
		unix.OVERLAYFS_SUPER_MAGIC, // has handles only with nfs_export=on
		bcachefsMagic, zfsMagic, jfsMagic, ocfs2Magic, gfs2Magic:
		return true
	}
	return false
}

// Magic numbers that x/sys lacks.
const (
	bcachefsMagic = 0xca451a4e
	zfsMagic      = 0x2fc12fc1
	jfsMagic      = 0x3153464a
	ocfs2Magic    = 0x7461636f
	gfs2Magic     = 0x01161970
)
