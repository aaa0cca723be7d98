// Refs: the kernel's file handle, or device, inode number and birth time.

package osfs

import (
	"encoding/binary"
	"errors"
	"strconv"
	"time"

	"github.com/nfsrdma/nfsrdma/nfsserver"
	"golang.org/x/sys/unix"
)

// A Ref starts with its kind:
//
//	kernelRef  1 octet handle type, then the handle of name_to_handle_at(2)
//	inodeRef   8 octets device (0: that of the root), 8 inode number, 8 birth time
//
// A kernel handle holds the inode's generation, so that a number used again is
// stale. Birth time does the same for inodeRef, where the file system keeps it.
const (
	kernelRef = 1
	inodeRef  = 2

	inodeRefLen = 1 + 3*8
)

// identity is what an inodeRef holds.
type identity struct{ dev, ino, birth uint64 }

// probeKernelHandles tries whether handles can be made and opened here.
func (f *FS) probeKernelHandles() bool {
	h, mount, err := unix.NameToHandleAt(f.tree.root, "", unix.AT_EMPTY_PATH)
	if err != nil || h.Size()+2 > nfsserver.MaxRef || h.Type() < 0 || h.Type() > 255 {
		return false
	}
	fd, err := openHandle(f.tree.root, h, unix.O_PATH)
	if err != nil {
		return false
	}
	unix.Close(fd)
	f.mountID = mount
	return true
}

// refOf makes the Ref of an open file whose attributes are st.
func (f *FS) refOf(fd int, st *unix.Stat_t) (nfsserver.Ref, error) {
	if f.kernel && st.Dev == f.rootDev {
		h, mount, err := unix.NameToHandleAt(fd, "", unix.AT_EMPTY_PATH)
		if err == nil && mount == f.mountID && h.Size()+2 <= nfsserver.MaxRef && h.Type() >= 0 && h.Type() <= 255 {
			var b [nfsserver.MaxRef]byte
			b[0], b[1] = kernelRef, byte(h.Type())
			n := copy(b[2:], h.Bytes())
			r, _ := nfsserver.MakeRef(b[:2+n])
			return r, nil
		}
	}
	id, err := f.identify(fd)
	if err != nil {
		return nfsserver.Ref{}, err
	}
	return id.ref(), nil
}

// identify asks for what an inodeRef holds.
func (f *FS) identify(fd int) (identity, error) {
	var sx unix.Statx_t
	err := unix.Statx(fd, "", unix.AT_EMPTY_PATH|unix.AT_SYMLINK_NOFOLLOW, unix.STATX_INO|unix.STATX_BTIME, &sx)
	if err != nil {
		return identity{}, err
	}
	id := identity{dev: unix.Mkdev(sx.Dev_major, sx.Dev_minor), ino: sx.Ino}
	if id.dev == f.rootDev {
		id.dev = 0
	}
	if sx.Mask&unix.STATX_BTIME != 0 {
		id.birth = uint64(sx.Btime.Sec)*1e9 + uint64(sx.Btime.Nsec)
	}
	return id, nil
}

func (id identity) ref() nfsserver.Ref {
	var b [inodeRefLen]byte
	b[0] = inodeRef
	binary.BigEndian.PutUint64(b[1:], id.dev)
	binary.BigEndian.PutUint64(b[9:], id.ino)
	binary.BigEndian.PutUint64(b[17:], id.birth)
	r, _ := nfsserver.MakeRef(b[:])
	return r
}

// parseInodeRef takes an inodeRef apart.
func parseInodeRef(r *nfsserver.Ref) (identity, bool) {
	b := r.Bytes()
	if len(b) != inodeRefLen || b[0] != inodeRef {
		return identity{}, false
	}
	return identity{binary.BigEndian.Uint64(b[1:]), binary.BigEndian.Uint64(b[9:]), binary.BigEndian.Uint64(b[17:])}, true
}

// maxPause bounds the wait for a handle whose inode number ext4 is just giving to
// a new file: until it has, the kernel says ENOMEM, and ESTALE from then on.
const maxPause = 64 * time.Millisecond

// openRef opens the file of a Ref. flags are those of open(2); with O_PATH it
// opens objects of every kind.
func (f *FS) openRef(r *nfsserver.Ref, flags int) (int, error) {
	b := r.Bytes()
	if len(b) < 3 || b[0] != kernelRef {
		id, ok := parseInodeRef(r)
		if !ok {
			return -1, nfsserver.ErrStale
		}
		return f.openIdentity(id)
	}
	h := unix.NewFileHandle(int32(b[1]), b[2:])
	fd, err := openHandle(f.tree.root, h, flags|unix.O_NOFOLLOW)
	for pause := time.Millisecond; err == unix.ENOMEM && pause < maxPause; pause *= 2 {
		time.Sleep(pause)
		fd, err = openHandle(f.tree.root, h, flags|unix.O_NOFOLLOW)
	}
	if errors.Is(err, unix.ENOENT) || errors.Is(err, unix.EINVAL) {
		return -1, nfsserver.ErrStale
	}
	return fd, err
}

// procPath is the path under which a descriptor is opened again.
func procPath(fd int) string { return "/proc/self/fd/" + strconv.Itoa(fd) }
