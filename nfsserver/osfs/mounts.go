// The table of mounts inside an export, for exports with CrossMounts.

package osfs

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/nfsrdma/nfsrdma/nfsserver"
	"github.com/nfsrdma/nfsrdma/nfsserver/osfs/internal/eintr"
	"github.com/nfsrdma/nfsrdma/nfsserver/osfs/internal/mountinfo"
	"golang.org/x/sys/unix"
)

// A mountTable has the mounts below an export with files in use. Each mount has one open file,
// which keeps the file system mounted, so the sweeper closes it like an idle node. A mount is found
// again by its number, after a file on it was opened by name, or by the id in a Ref.
type mountTable struct {
	len atomic.Int64

	mu       sync.Mutex // guards the fields below, and refs and used of the mounts
	byNumber map[int]*mount
	byID     map[uint64]*mount
	unknown  map[uint64]uint32 // ids without a mount, with the tick of the search
}

func (t *mountTable) init() {
	t.byNumber, t.byID, t.unknown = make(map[int]*mount), make(map[uint64]*mount), make(map[uint64]uint32)
}

// mountOf returns the mount on which fd was opened, with a reference.
func (f *FS) mountOf(fd int) (*mount, error) {
	if !f.cross {
		return f.top, nil
	}
	number, err := mountID(fd)
	if err != nil {
		return nil, err
	}
	if number == f.top.number {
		return f.top, nil
	}
	t := &f.mounts
	t.mu.Lock()
	m := f.hold(t.byNumber[number])
	t.mu.Unlock()
	if m != nil {
		return m, nil
	}
	all, err := readMounts()
	if err != nil {
		return nil, err
	}
	for _, e := range all {
		if e.ID == number {
			return f.enter(&e)
		}
	}
	return nil, nfsserver.ErrStale // unmounted or moved since
}

// mountByID returns the mount with an id from a Ref, with a reference.
func (f *FS) mountByID(id uint64) (*mount, error) {
	if id == f.top.id {
		return f.top, nil
	}
	if !f.cross {
		return nil, nfsserver.ErrStale
	}
	t := &f.mounts
	t.mu.Lock()
	m := f.hold(t.byID[id])
	at, unknown := t.unknown[id]
	t.mu.Unlock()
	if m != nil {
		return m, nil
	}
	if unknown && f.cache.tick.Load()-at < idleTicks {
		f.cache.wake()
		return nil, nfsserver.ErrStale
	}
	below, err := f.mountsBelow()
	if err != nil {
		return nil, err
	}
	for _, e := range below {
		m, err := f.enter(&e)
		switch {
		case scarce(err):
			return nil, err
		case err != nil:
			continue // covered by another mount, or gone
		}
		if m.id == id {
			return m, nil
		}
		f.mounts.release(m)
	}
	t.mu.Lock()
	if len(t.unknown) >= maxUnknown {
		clear(t.unknown)
	}
	t.unknown[id] = f.cache.tick.Load()
	t.mu.Unlock()
	return nil, nfsserver.ErrStale
}

// mountsBelow returns the mounts inside the export, the newest first.
func (f *FS) mountsBelow() (below []mountinfo.Entry, err error) {
	root, err := fdPath(f.tree.named)
	if err != nil {
		return nil, err
	}
	prefix := strings.TrimSuffix(root, "/") + "/"
	all, err := readMounts()
	if err != nil {
		return nil, err
	}
	for i := len(all) - 1; i >= 0; i-- {
		if strings.HasPrefix(all[i].Point, prefix) {
			below = append(below, all[i])
		}
	}
	return below, nil
}

// enter opens a mount from the mount table below the root, if its path still leads to the mount. It
// adds the mount to mounts and returns it with a reference.
func (f *FS) enter(e *mountinfo.Entry) (*mount, error) {
	root, err := fdPath(f.tree.named)
	if err != nil {
		return nil, err
	}
	rel, err := filepath.Rel(root, e.Point)
	if err != nil {
		return nil, err
	}
	how := unix.OpenHow{Flags: unix.O_PATH | unix.O_CLOEXEC | unix.O_NOFOLLOW, Resolve: unix.RESOLVE_BENEATH | unix.RESOLVE_NO_SYMLINKS}
	fd, err := opened(func() (int, error) { return unix.Openat2(f.tree.root, rel, &how) })
	if err != nil {
		return nil, err
	}
	defer unix.Close(fd)
	if n, err := mountID(fd); err != nil || n != e.ID {
		return nil, nfsserver.ErrStale
	}
	// To open a device or a FIFO has effects, so a mount of a single device or FIFO is not served.
	var st unix.Stat_t
	if err := fstat(fd, &st); err != nil {
		return nil, err
	}
	if fileType(st.Mode) != nfsserver.TypeDir && fileType(st.Mode) != nfsserver.TypeReg {
		return nil, unix.EACCES
	}
	anchor, err := openHere(unix.AT_FDCWD, procPath(fd), unix.O_RDONLY|unix.O_NONBLOCK)
	if err != nil {
		return nil, err
	}
	m, err := newMount(anchor, &f.opts, false)
	if err != nil {
		unix.Close(anchor)
		return nil, err
	}
	return f.add(m), nil
}

// add adds m to the table, unless the table has the same mount, and returns the table's mount with
// a reference.
func (f *FS) add(m *mount) *mount {
	t := &f.mounts
	t.mu.Lock()
	old := f.hold(t.byNumber[m.number])
	if old == nil {
		f.hold(m)
		t.byNumber[m.number] = m
		delete(t.unknown, m.id)
		t.len.Add(1)
	}
	if t.byID[m.id] == nil { // or m was detached while in use, and is out of the table
		t.byID[m.id] = t.byNumber[m.number]
	}
	t.mu.Unlock()
	f.cache.wake()
	if old != nil {
		unix.Close(m.fd)
		return old
	}
	return m
}

// hold adds a reference to m, which may be nil; mounts.mu is held.
func (f *FS) hold(m *mount) *mount {
	if m != nil {
		m.refs++
		m.used = f.cache.tick.Load()
	}
	return m
}

// release gives back a reference to m; the export's own mount has no references.
func (t *mountTable) release(m *mount) {
	if m.top {
		return
	}
	t.mu.Lock()
	m.refs--
	t.mu.Unlock()
}

// idle removes and returns the mounts to close at tick now.
func (t *mountTable) idle(now uint32) (out []*mount) {
	if t.len.Load() == 0 {
		return nil
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, m := range t.byNumber {
		if m.refs > 0 || now-m.used < idleTicks {
			continue
		}
		delete(t.byNumber, m.number)
		if t.byID[m.id] == m {
			delete(t.byID, m.id)
		}
		t.len.Add(-1)
		out = append(out, m)
	}
	return out
}

// closeAll closes all mounts; no mount is in use.
func (t *mountTable) closeAll() {
	for _, m := range t.byNumber {
		unix.Close(m.fd)
	}
	clear(t.byNumber)
	clear(t.byID)
}

// fdPath returns an open directory's present path in this process's view.
func fdPath(fd int) (string, error) {
	b := make([]byte, unix.PathMax)
	n, err := unix.Readlink(procPath(fd), b)
	if err != nil {
		return "", err
	}
	if n == len(b) {
		return "", errors.New("path too long")
	}
	return string(b[:n]), nil
}

// readMounts returns all mounts of this process, in the order in which they were mounted.
func readMounts() ([]mountinfo.Entry, error) {
	fd, err := openHere(unix.AT_FDCWD, "/proc/self/mountinfo", unix.O_RDONLY)
	if err != nil {
		return nil, err
	}
	file := os.NewFile(uintptr(fd), "mountinfo")
	defer file.Close()
	b, err := io.ReadAll(file)
	if err != nil {
		return nil, err
	}
	return mountinfo.Parse(string(b)), nil
}

// mountID returns the number, in mountinfo, of the mount in which fd was opened. The kernel reuses
// the number once that mount is gone.
func mountID(fd int) (int, error) {
	var sx unix.Statx_t
	if err := eintr.Retry(func() error { return unix.Statx(fd, "", unix.AT_EMPTY_PATH, unix.STATX_MNT_ID, &sx) }); err != nil {
		return -1, err
	}
	if sx.Mask&unix.STATX_MNT_ID == 0 {
		return -1, unix.ENOSYS // Linux before 5.8
	}
	return int(sx.Mnt_id), nil
}
