// Refs: the file system, and the kernel's file handle or inode number and generation.

package osfs

import (
	"encoding/binary"
	"errors"
	"strconv"
	"time"

	"github.com/nfsrdma/nfsrdma/nfsserver"
	"github.com/nfsrdma/nfsrdma/nfsserver/osfs/internal/eintr"
	"golang.org/x/sys/unix"
)

// A Ref starts with its kind and the id of its mount:
//
//	kernelRef  1 byte kind, 8 mount, 1 handle type, then the handle of name_to_handle_at(2)
//	inodeRef   1 byte kind, 8 mount, 8 volume, 8 inode number, 8 generation
//
// A kernel handle contains the inode's generation, so it is stale once the inode number is reused.
// An inodeRef serves file systems without kernel handles, and processes without the right to open
// them. Its generation is a hash of the kernel handle, if the process can read that. Otherwise the
// generation is the birth time, or a number given by the server (owngenerations.go).
const (
	kernelRef = 3
	inodeRef  = 4

	mountHeader     = 1 + 8
	kernelRefHeader = mountHeader + 1
	inodeRefLen     = mountHeader + 3*8
)

// An inodeKey names an inode without its generation.
type inodeKey struct{ mount, volume, ino uint64 }

// A file describes an open file.
type file struct {
	ref  nfsserver.Ref
	key  inodeKey
	fsid uint64
	st   unix.Stat_t

	unstableBtime bool // the birth time may change
	mergedMount   bool // see mount.mergedMount
	numbered      bool // the server gave the generation (owngenerations.go)

	// after: the last generation given before the describing call, if that call made the file.
	after uint64
}

// locate sets all of x except its Ref, for the open file fd. It returns the mount with a reference.
func (f *FS) locate(fd int, x *file) (*mount, error) {
	if err := fstat(fd, &x.st); err != nil {
		return nil, err
	}
	m, err := f.mountOf(fd)
	if err != nil {
		return nil, err
	}
	volume := m.volume(fd, x.st.Dev)
	x.key = inodeKey{m.id, volume, x.st.Ino}
	x.unstableBtime, x.mergedMount, x.numbered = m.unstableBtime, m.mergedMount, m.numbered
	if x.fsid = volume; volume == 0 {
		x.fsid = m.fsid
	}
	return m, nil
}

// describe sets all of x, for the open file fd.
func (f *FS) describe(fd int, x *file) error {
	m, err := f.locate(fd, x)
	if err != nil {
		return err
	}
	defer f.mounts.release(m)
	var generation uint64
	switch {
	case m.kernel:
		return f.describeKernel(m, fd, x)
	case m.numbered:
		generation, err = f.identify(fd, x)
	case m.unstableBtime:
		generation, err = f.madeAt(fd, x.key)
	default:
		generation, err = generationOf(m, fd)
	}
	x.ref = inodeRefOf(x.key, generation)
	return err
}

// describeKernel sets the Ref of the open file fd, with attributes in x.
func (f *FS) describeKernel(m *mount, fd int, x *file) (err error) {
	known := f.byName && x.st.Dev == m.dev
	if known {
		if gen, ok := f.gens.Get(&x.st, f.cache.tick.Load()); ok {
			x.ref = f.refOf(x.st.Ino, gen)
			return nil
		}
	}
	now := time.Now() // before the handle; the open file keeps its inode number
	if x.ref, err = kernelRefOf(m, fd); err != nil || !known {
		return err
	}
	b := x.ref.Bytes()
	if ino, gen, ok := splitHandle(m.magic, int32(b[mountHeader]), b[kernelRefHeader:]); ok && ino == x.st.Ino {
		f.keepGeneration(&x.st, gen, now)
	}
	return nil
}

// generationOf returns a number that distinguishes an inode from earlier and later inodes with its
// number.
func generationOf(m *mount, fd int) (uint64, error) {
	if m.keeps {
		if h, _, err := unix.NameToHandleAt(fd, "", unix.AT_EMPTY_PATH); err == nil {
			return hashString(string(h.Bytes())), nil
		}
	}
	at, _, err := birthTime(fd)
	return at, err
}

func kernelRefOf(m *mount, fd int) (r nfsserver.Ref, err error) {
	h, _, err := unix.NameToHandleAt(fd, "", unix.AT_EMPTY_PATH)
	if err != nil {
		return r, err
	}
	if !handleFits(&h) {
		return r, unix.EOPNOTSUPP
	}
	var b [nfsserver.MaxRef]byte
	n := putKernelRef(&b, m, h.Type(), h.Bytes())
	r, _ = nfsserver.MakeRef(b[:n])
	return r, nil
}

// putKernelRef writes the kernelRef of a handle, which fits, and returns its length.
func putKernelRef(b *[nfsserver.MaxRef]byte, m *mount, typ int32, handle []byte) int {
	b[0], b[mountHeader] = kernelRef, byte(typ)
	binary.BigEndian.PutUint64(b[1:], m.id)
	return kernelRefHeader + copy(b[kernelRefHeader:], handle)
}

// birthTime returns a file's birth time, in nanoseconds; 0 and kept false if the file system keeps
// no birth times.
func birthTime(fd int) (at uint64, kept bool, err error) {
	var sx unix.Statx_t
	err = eintr.Retry(func() error {
		return unix.Statx(fd, "", unix.AT_EMPTY_PATH|unix.AT_SYMLINK_NOFOLLOW, unix.STATX_BTIME, &sx)
	})
	if err != nil || sx.Mask&unix.STATX_BTIME == 0 {
		return 0, false, err
	}
	return uint64(sx.Btime.Sec)*1e9 + uint64(sx.Btime.Nsec), true, nil
}

func inodeRefOf(k inodeKey, generation uint64) nfsserver.Ref {
	var b [inodeRefLen]byte
	b[0] = inodeRef
	for i, v := range [...]uint64{k.mount, k.volume, k.ino, generation} {
		binary.BigEndian.PutUint64(b[1+8*i:], v)
	}
	r, _ := nfsserver.MakeRef(b[:])
	return r
}

// generationIn returns the generation in an inodeRef.
func generationIn(r *nfsserver.Ref) uint64 { return binary.BigEndian.Uint64(r.Bytes()[inodeRefLen-8:]) }

// inodeKeyOf returns the key in an inodeRef.
func inodeKeyOf(r *nfsserver.Ref) (inodeKey, bool) {
	b := r.Bytes()
	if len(b) != inodeRefLen || b[0] != inodeRef {
		return inodeKey{}, false
	}
	return inodeKey{binary.BigEndian.Uint64(b[1:]), binary.BigEndian.Uint64(b[9:]), binary.BigEndian.Uint64(b[17:])}, true
}

// openRef opens a Ref's file (O_PATH). The caller has to check that the file is the right one.
func (f *FS) openRef(r *nfsserver.Ref) (int, error) {
	b := r.Bytes()
	if len(b) <= kernelRefHeader {
		return -1, nfsserver.ErrStale
	}
	m, err := f.mountByID(binary.BigEndian.Uint64(b[1:]))
	if err != nil {
		return -1, err
	}
	defer f.mounts.release(m)
	switch {
	case b[0] == kernelRef && m.kernel:
		return openKernelRef(m, b)
	case b[0] == inodeRef && !m.kernel:
		return f.openIdentity(r)
	}
	return -1, nfsserver.ErrStale
}

func openKernelRef(m *mount, b []byte) (int, error) {
	const flags = unix.O_PATH | unix.O_NOFOLLOW
	h := unix.NewFileHandle(int32(b[mountHeader]), b[kernelRefHeader:])
	fd, err := openHandle(m.fd, h, flags)
	for pause := time.Millisecond; err == unix.ENOMEM && pause < maxPause; pause *= 2 {
		time.Sleep(pause)
		fd, err = openHandle(m.fd, h, flags)
	}
	if errors.Is(err, unix.ENOENT) || errors.Is(err, unix.EINVAL) {
		return -1, nfsserver.ErrStale
	}
	return fd, err
}

// procPath returns a path by which a descriptor can be opened again.
func procPath(fd int) string { return "/proc/self/fd/" + strconv.Itoa(fd) }
