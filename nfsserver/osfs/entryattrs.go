// Describes directory entries by name, without opening them.

package osfs

import (
	"encoding/binary"
	"time"
	"unsafe"

	"github.com/nfsrdma/nfsrdma/nfsserver"
	"github.com/nfsrdma/nfsrdma/nfsserver/osfs/internal/inodegen"
	"golang.org/x/sys/unix"
)

// To describe an entry through a descriptor takes four system calls: open, handle, attributes,
// close. By name two calls suffice, or one if the generation is cached (inodegen). But another file
// may get the name between the two calls. So entries are described by name only if the handle
// contains the inode number, which must equal the number in the attributes. An entry that may be on
// another volume or mount, or that the index needs, is opened.

// describesByName reports whether describeName can describe entries.
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

// Handle types, as the kernel numbers them (enum fid_type, and XFS's own).
const (
	handleIno32    = 1    // inode, generation: 32 bits each; tmpfs: generation, 64-bit inode
	handleXFSIno64 = 0x81 // 64-bit inode number, generation
)

// splitHandle returns inode number and generation from a handle, on a file system that
// describesByName accepts.
func splitHandle(magic int64, typ int32, b []byte) (ino uint64, gen inodegen.Generation, ok bool) {
	switch {
	case magic == unix.TMPFS_MAGIC && typ == handleIno32 && len(b) == 12:
		return binary.NativeEndian.Uint64(b[4:]), inodegen.Generation{N: binary.NativeEndian.Uint32(b), Type: handleIno32}, true
	case magic == unix.TMPFS_MAGIC:
		return 0, inodegen.Generation{}, false
	case typ == handleIno32 && len(b) == 8:
		return uint64(binary.NativeEndian.Uint32(b)), inodegen.Generation{N: binary.NativeEndian.Uint32(b[4:]), Type: handleIno32}, true
	case magic == unix.XFS_SUPER_MAGIC && typ == handleXFSIno64 && len(b) == 12:
		return binary.NativeEndian.Uint64(b), inodegen.Generation{N: binary.NativeEndian.Uint32(b[8:]), Type: handleXFSIno64}, true
	}
	return 0, inodegen.Generation{}, false
}

// joinHandle writes the handle split by splitHandle to b's start, and returns its length.
func joinHandle(magic int64, ino uint64, gen inodegen.Generation, b []byte) int {
	switch {
	case magic == unix.TMPFS_MAGIC:
		binary.NativeEndian.PutUint32(b, gen.N)
		binary.NativeEndian.PutUint64(b[4:], ino)
	case gen.Type == handleIno32:
		binary.NativeEndian.PutUint32(b, uint32(ino))
		binary.NativeEndian.PutUint32(b[4:], gen.N)
		return 8
	default:
		binary.NativeEndian.PutUint64(b, ino)
		binary.NativeEndian.PutUint32(b[8:], gen.N)
	}
	return 12
}

// A rawHandle is a struct file_handle with room for all handles that fit a Ref.
type rawHandle struct {
	size uint32
	typ  int32
	b    [nfsserver.MaxRef - kernelRefHeader]byte
}

// describeName looks up name in directory fd, and stores the file's attributes in st and its Ref in
// ref. name ends in a NUL; ino is the inode number from the entry, which may be wrong; now is a
// time before the call. After ENOENT the name is gone. After other errors the caller opens the
// file.
func (f *FS) describeName(fd int, name []byte, ino uint64, now time.Time, st *unix.Stat_t, ref *nfsserver.Ref) error {
	if f.gens.Has(ino) {
		if known, err := f.statKnown(fd, name, st, ref); known || err != nil {
			return err
		}
	}
	// The handle comes first. If the file is removed before the attributes are read, and a new file
	// with the same name gets its inode number, the handle is stale. In the other order a valid
	// handle of the new file would come with the removed file's attributes.
	var h rawHandle
	if err := handleOfName(fd, name, &h); err != nil {
		return err
	}
	if err := f.statName(fd, name, st); err != nil {
		return err
	}
	ino, gen, ok := splitHandle(f.top.magic, h.typ, h.b[:h.size])
	if !ok || ino != st.Ino || st.Dev != f.top.dev || st.Nlink == 0 {
		return unix.EXDEV
	}
	f.keepGeneration(st, gen, now)
	*ref = f.refOf(ino, gen)
	return nil
}

// statKnown is describeName for a file with a cached generation; known reports whether the file has
// one.
func (f *FS) statKnown(fd int, name []byte, st *unix.Stat_t, ref *nfsserver.Ref) (known bool, err error) {
	if err := f.statName(fd, name, st); err != nil {
		return false, err
	}
	gen, ok := f.gens.Get(st, f.cache.tick.Load())
	if !ok || st.Dev != f.top.dev || st.Nlink == 0 {
		return false, nil
	}
	*ref = f.refOf(st.Ino, gen)
	return true, nil
}

// keepGeneration caches gen for the file with attributes st; gen was read at now or later.
func (f *FS) keepGeneration(st *unix.Stat_t, gen inodegen.Generation, now time.Time) {
	if f.gens.Settled(st, now) && f.gens.Put(st, gen, f.cache.tick.Load()) {
		f.wakeSweeper()
	}
}

// refOf returns the Ref for an inode on the export's file system.
func (f *FS) refOf(ino uint64, gen inodegen.Generation) nfsserver.Ref {
	var handle [12]byte
	n := joinHandle(f.top.magic, ino, gen, handle[:])
	var b [nfsserver.MaxRef]byte
	r, _ := nfsserver.MakeRef(b[:putKernelRef(&b, f.top, int32(gen.Type), handle[:n])])
	return r
}

// handleOfName calls name_to_handle_at(2) without an allocation; name ends in a NUL.
func handleOfName(fd int, name []byte, h *rawHandle) error {
	var mount int32
	h.size = uint32(len(h.b))
	_, _, errno := unix.Syscall6(unix.SYS_NAME_TO_HANDLE_AT, uintptr(fd), uintptr(unsafe.Pointer(&name[0])),
		uintptr(unsafe.Pointer(h)), uintptr(unsafe.Pointer(&mount)), 0, 0)
	if errno != 0 {
		return errno
	}
	if h.size > uint32(len(h.b)) || h.typ < 0 || h.typ > 255 {
		return unix.EOPNOTSUPP
	}
	return nil
}

// statName calls fstatat(2), without following a link and without an allocation; name ends in a
// NUL. The call notifies the scheduler on every file system, because a name outside the dentry
// cache, such as a missing name on tmpfs, waits for the directory's lock. Any user who may list the
// directory can hold that lock for any time.
func (f *FS) statName(fd int, name []byte, st *unix.Stat_t) error {
	_, _, errno := unix.Syscall6(unix.SYS_NEWFSTATAT, uintptr(fd), uintptr(unsafe.Pointer(&name[0])), uintptr(unsafe.Pointer(st)),
		unix.AT_SYMLINK_NOFOLLOW|unix.AT_NO_AUTOMOUNT, 0, 0)
	return errnoError(errno)
}
