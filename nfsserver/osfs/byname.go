// Entries of a directory described by name, without opening them.

package osfs

import (
	"encoding/binary"
	"unsafe"

	"github.com/nfsrdma/nfsrdma/nfsserver"
	"golang.org/x/sys/unix"
)

// An entry that is opened takes four system calls: open, handle, attributes, close. By
// name it takes two. But the name can be given to another file between them, so that is
// done only where the handle itself has the inode number, which must be that of the
// attributes; where the entry may be of another volume or mount, or has to be noted in
// the index, it is opened.

// describesByName reports whether entries can be described by describeName.
func (f *FS) describesByName() bool {
	if !f.top.kernel || f.cross || f.mixed || f.indexed || f.tree.noXdev {
		return false
	}
	switch f.top.magic {
	case unix.EXT4_SUPER_MAGIC, unix.XFS_SUPER_MAGIC, unix.TMPFS_MAGIC:
		return true
	}
	return false
}

// Types of handles, as the kernel numbers them (enum fid_type, and XFS's own).
const (
	handleIno32    = 1    // inode number and generation, 32 bits each; tmpfs: generation, then 64 bits of number
	handleXFSIno64 = 0x81 // 64 bits of inode number, generation
)

// inodeInHandle is the inode number in a handle of a file system of which describesByName holds.
func inodeInHandle(magic int64, typ int32, b []byte) (ino uint64, ok bool) {
	switch {
	case magic == unix.TMPFS_MAGIC && typ == handleIno32 && len(b) == 12:
		return binary.NativeEndian.Uint64(b[4:]), true
	case magic == unix.TMPFS_MAGIC:
		return 0, false
	case typ == handleIno32 && len(b) == 8:
		return uint64(binary.NativeEndian.Uint32(b)), true
	case magic == unix.XFS_SUPER_MAGIC && typ == handleXFSIno64 && len(b) == 12:
		return binary.NativeEndian.Uint64(b), true
	}
	return 0, false
}

// A rawHandle is a struct file_handle with room for what fits a Ref.
type rawHandle struct {
	size uint32
	typ  int32
	b    [nfsserver.MaxRef - kernelRefHeader]byte
}

// describeName fills de with Ref and attributes of the file that has the name in
// directory fd. name ends in a NUL. With ENOENT the name is gone; after any other error the file
// has to be opened. The handle comes first: if its file is removed, and the new one of
// that name is given its inode number, before the attributes are read, then the handle is
// stale for whoever uses it, while the other order would give a living file another's attributes.
func (f *FS) describeName(fd int, name []byte, de *nfsserver.Dirent) error {
	var h rawHandle
	var mount int32
	h.size = uint32(len(h.b))
	_, _, errno := unix.Syscall6(unix.SYS_NAME_TO_HANDLE_AT, uintptr(fd), uintptr(unsafe.Pointer(&name[0])),
		uintptr(unsafe.Pointer(&h)), uintptr(unsafe.Pointer(&mount)), 0, 0)
	if errno != 0 {
		return errno
	}
	if h.size > uint32(len(h.b)) || h.typ < 0 || h.typ > 255 {
		return unix.EOPNOTSUPP
	}
	var st unix.Stat_t
	_, _, errno = unix.Syscall6(unix.SYS_NEWFSTATAT, uintptr(fd), uintptr(unsafe.Pointer(&name[0])),
		uintptr(unsafe.Pointer(&st)), unix.AT_SYMLINK_NOFOLLOW|unix.AT_NO_AUTOMOUNT, 0, 0)
	if errno != 0 {
		return errno
	}
	m := f.top
	ino, ok := inodeInHandle(m.magic, h.typ, h.b[:h.size])
	if !ok || ino != st.Ino || st.Dev != m.dev || st.Nlink == 0 {
		return unix.EXDEV
	}
	var ref [nfsserver.MaxRef]byte
	n := putKernelRef(&ref, m, h.typ, h.b[:h.size])
	de.Ref, _ = nfsserver.MakeRef(ref[:n])
	de.Attr, de.Fileid, de.HasAttr = attrOf(&st, m.fsid), st.Ino, true
	return nil
}
