// Mounts: the mounted file systems that an FS serves.

package osfs

import (
	"crypto/rand"
	"encoding/binary"

	"github.com/nfsrdma/nfsrdma/nfsserver"
	"golang.org/x/sys/unix"
)

// A mount is a mounted file system: the export's, or one mounted inside it (CrossMounts).
type mount struct {
	// Set once:
	id            uint64 // in Refs; another file system at the same path has another id
	fsid          uint64 // fsid attribute of its files
	fd            int    // a file or directory on it; O_RDONLY, as open_by_handle_at(2) needs
	number        int    // the kernel's number of the mount; -1: unknown
	dev           uint64 // st_dev of fd
	ino           uint64 // st_ino of fd
	stat          uint64 // f_fsid of fd
	magic         int64
	top           bool // the export's own mount, which is always open
	kernel        bool // handles are kernel handles
	keeps         bool // handles survive a server restart
	unstableBtime bool // a file's birth time changes when the file is first changed
	mergedMount   bool // a directory may be merged from several, and then has no link count
	apart         bool // see layersApart; set only for the export's own mount

	numbered bool // only the server gives files generations (owngenerations.go)

	// Guarded by mountTable.mu, for mounts in the table.
	refs int
	used uint32 // the cache's tick of the last use
}

// runID is part of the ids of file systems that do not keep their inode numbers. Their handles end
// with this process, because after a restart the numbers can name other files. runID is
// process-wide, so handles survive when an export is opened again.
var runID = func() uint64 {
	var b [8]byte
	rand.Read(b[:])
	return binary.BigEndian.Uint64(b[:])
}()

// givenFSID is hashed with a given fsid. No file system has this magic number, so the id differs
// from all derived ids.
const givenFSID = 1<<32 + 1

// newMount describes fd's file system, and takes ownership of fd.
func newMount(fd int, o *Options, top bool) (*mount, error) {
	var st unix.Stat_t
	var sfs unix.Statfs_t
	if err := fstat(fd, &st); err != nil {
		return nil, err
	}
	if err := fstatfs(fd, &sfs); err != nil {
		return nil, err
	}
	m := &mount{fd: fd, number: -1, dev: st.Dev, ino: st.Ino, stat: statFsid(&sfs), magic: int64(sfs.Type), top: top}
	if n, err := mountID(fd); err == nil {
		m.number = n
	}
	var err error
	if m.fsid, err = fsIdentity(fd, &sfs, st.Dev); err != nil {
		return nil, err
	}
	m.keeps = keepsInodes(m.magic)
	if m.keeps && !o.noKernelHandles {
		if m.kernel, err = m.probe(); err != nil {
			return nil, err
		}
	}
	if m.magic == unix.OVERLAYFS_SUPER_MAGIC && !m.kernel {
		m.keeps, m.unstableBtime = false, true
	}
	if !m.keeps {
		_, kept, err := birthTime(fd)
		m.numbered = err != nil || !kept
		m.unstableBtime = m.unstableBtime && !m.numbered
	}
	if m.magic == unix.OVERLAYFS_SUPER_MAGIC {
		m.mergedMount = true
		if top && fileType(st.Mode) == nfsserver.TypeDir {
			if m.apart, err = layersApart(fd, &st); err != nil {
				return nil, err
			}
		}
	}
	m.id = m.fsid
	if top && o.FSID != nil {
		m.fsid, m.id = *o.FSID, hash64(givenFSID, *o.FSID)
	}
	if !top {
		m.id = hash64(m.fsid, st.Ino) // a directory within the file system may be mounted alone
	}
	if !m.keeps {
		m.id = hash64(m.id, runID)
	}
	return m, nil
}

// probe reports whether kernel handles can be made and opened here. After an error that is unknown.
func (m *mount) probe() (bool, error) {
	h, _, err := unix.NameToHandleAt(m.fd, "", unix.AT_EMPTY_PATH)
	if err != nil || !handleFits(&h) {
		return false, nil
	}
	fd, err := openHandle(m.fd, h, unix.O_PATH)
	switch {
	case err == nil:
		unix.Close(fd)
		return true, nil
	case scarce(err):
		return false, err
	}
	return false, nil
}

// handleFits reports whether a kernel handle fits in a Ref.
func handleFits(h *unix.FileHandle) bool {
	return h.Size() <= nfsserver.MaxRef-kernelRefHeader && h.Type() >= 0 && h.Type() <= 255
}

// volume returns the volume of an open file with device number dev: 0 if m.fd is on the same
// volume. Inode numbers count separately in each btrfs subvolume, and in each layer of an overlay
// on several file systems.
func (m *mount) volume(fd int, dev uint64) uint64 {
	if dev == m.dev {
		return 0
	}
	var sfs unix.Statfs_t
	if err := fstatfs(fd, &sfs); err == nil && statFsid(&sfs) != m.stat {
		return hash64(m.fsid, statFsid(&sfs))
	}
	return hash64(m.fsid, dev)
}
