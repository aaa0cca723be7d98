// Generations that the server gives, on file systems that reuse inode numbers and have neither
// generations nor birth times.

package osfs

import (
	"sync"
	"sync/atomic"

	"github.com/nfsrdma/nfsrdma/nfsserver"
	"github.com/nfsrdma/nfsrdma/nfsserver/osfs/internal/eintr"
	"golang.org/x/sys/unix"
)

// Most file systems in user space (FUSE) have no generations and no time of birth. They give the
// number of a removed file to another one, and nothing shows that. Files are opened by path, even
// through an O_PATH descriptor. So each file gets a generation when it is first seen, and keeps it
// if one of these conditions shows that the number still belongs to that file:
//
//   - its ctime is the one seen last, so it is unchanged;
//   - its atime is the one seen last: a write, a rename or a chmod leaves it as it is, and a new
//     file's atime is the time of its creation;
//   - the server has it open for reading or writing (a pin), so its number is in use;
//   - it is a directory that still has the name and place under which it was last seen.
//
// A call that creates a file gives it a new generation, and a call that removes one ends its
// generation. A file for which none of this holds gets another generation: for example one that
// others have both changed and read since it was last seen. Its former handles are stale, and a
// look-up gives the new one. Three cases are not detected: another file of the same number with the
// times of the first, either set or within the granularity of the times; another directory of the
// same name and number; and, if numbers belong to paths, a file that replaces one which the server
// has open. The attributes of an open descriptor are those of the path, too.

// An identities maps inodes to the generations given by the server.
type identities struct {
	max int // set once: maxIdentities, but for tests

	mu    sync.Mutex // guards known; innermost
	known map[inodeKey]identity
}

// An identity describes the file that now has an inode number.
type identity struct {
	generation   uint64
	ctime, atime int64 // nanoseconds, as last seen
	pins         int32 // number of open descriptors and of calls that change it
}

// generationsGiven is the last generation given. It is process-wide: two FSs of one directory MUST
// NOT give a generation twice.
var generationsGiven atomic.Uint64

func newGeneration() uint64 { return generationsGiven.Add(1) }

func (t *identities) init() { t.max, t.known = maxIdentities, make(map[inodeKey]identity) }

// get returns the identity of k; its generation is 0 if there is none.
func (t *identities) get(k inodeKey) identity {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.known[k]
}

// replace sets k's identity to e if the known generation is still old (0: none), and reports
// whether it did.
func (t *identities) replace(k inodeKey, old uint64, e identity) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.known[k].generation != old {
		return false
	}
	if old == 0 && len(t.known) >= t.max {
		for other, e := range t.known {
			if e.pins == 0 {
				delete(t.known, other)
				break
			}
		}
	}
	t.known[k] = e
	return true
}

// note records a file's times, unless older times from the kernel's cache would replace newer ones.
func (t *identities) note(k inodeKey, generation uint64, st *unix.Stat_t) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if e := t.known[k]; e.generation == generation && st.Ctim.Nano() >= e.ctime {
		e.ctime, e.atime = st.Ctim.Nano(), st.Atim.Nano()
		t.known[k] = e
	}
}

// pin keeps a generation unchanged until the pin is released.
func (t *identities) pin(k inodeKey, generation uint64) { t.addPins(k, generation, 1) }

func (t *identities) addPins(k inodeKey, generation uint64, n int32) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if e := t.known[k]; e.generation == generation {
		e.pins += n
		t.known[k] = e
	}
}

// forget ends a generation whose file is gone.
func (t *identities) forget(k inodeKey, generation uint64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.known[k].generation == generation {
		delete(t.known, k)
	}
}

// identify returns the generation of x; fd is open on x.
func (f *FS) identify(fd int, x *file) (uint64, error) {
	for {
		e := f.identities.get(x.key)
		// An identity first seen after the start of the call that made x belongs to x.
		same := e.generation > x.after
		if same && x.after == 0 {
			var err error
			if same, err = f.isSame(fd, x.key, e, &x.st); err != nil {
				return 0, err
			}
		}
		if same {
			f.identities.note(x.key, e.generation, &x.st)
			return e.generation, nil
		}
		fresh := identity{generation: newGeneration(), ctime: x.st.Ctim.Nano(), atime: x.st.Atim.Nano()}
		if f.identities.replace(x.key, e.generation, fresh) {
			return fresh.generation, nil
		}
	}
}

// isSame reports whether the file fd, with number k and attributes st, is e's file. Before it
// returns false it refreshes cached attributes in st. It returns only scarce errors.
func (f *FS) isSame(fd int, k inodeKey, e identity, st *unix.Stat_t) (bool, error) {
	if e.pins > 0 || e.hasTimes(st) {
		return true, nil
	}
	if refresh(fd) != nil || fstat(fd, st) != nil || st.Ino != k.ino {
		return false, nil
	}
	if e.hasTimes(st) {
		return true, nil
	}
	if st.Mode&unix.S_IFMT != unix.S_IFDIR {
		return false, nil
	}
	at, err := f.openHint(k, 0)
	unix.Close(at) // -1 if not found
	if scarce(err) {
		return false, err
	}
	return err == nil, nil
}

// hasTimes reports whether a time in st shows that the file is the same. An atime of 0 shows
// nothing, because then the file system does not keep access times.
func (e *identity) hasTimes(st *unix.Stat_t) bool {
	return st.Ctim.Nano() == e.ctime || e.atime != 0 && st.Atim.Nano() == e.atime
}

// still returns ErrStale if the file open as fd, with attributes st, is no longer n's file.
func (f *FS) still(n *node, fd int, st *unix.Stat_t) error {
	generation := generationIn(&n.ref)
	e := f.identities.get(n.key)
	if e.generation != generation || st.Ino != n.key.ino {
		return nfsserver.ErrStale
	}
	same, err := f.isSame(fd, n.key, e, st)
	switch {
	case err != nil:
		return err
	case !same:
		return nfsserver.ErrStale
	}
	f.identities.note(n.key, generation, st)
	return nil
}

// pinOpened pins n if fd, opened by n's path, is n's file. It returns ErrStale if the path now
// leads to another file. n.mu is held.
func (f *FS) pinOpened(n *node, fd int) error {
	var st unix.Stat_t
	if refresh(fd) != nil || fstat(fd, &st) != nil {
		return nfsserver.ErrStale
	}
	err := f.still(n, fd, &st)
	if err == nil {
		f.pin(n)
	}
	return err
}

// pin pins n for its descriptors, once.
func (f *FS) pin(n *node) {
	if n.numbered && !n.pinned.Swap(true) {
		f.identities.pin(n.key, generationIn(&n.ref))
	}
}

// unpin releases the pin of a node that will be closed. It records the times, because the server's
// reads and writes have changed both.
func (f *FS) unpin(n *node) {
	_ = refresh(n.fd()) // after an error the cached times serve
	f.endPin(n)
}

// endPin records the present times of n, and releases a pin.
func (f *FS) endPin(n *node) {
	var st unix.Stat_t
	generation := generationIn(&n.ref)
	if fstat(n.fd(), &st) == nil && st.Ino == n.key.ino {
		f.identities.note(n.key, generation, &st)
	}
	f.identities.addPins(n.key, generation, -1)
}

// refresh makes the kernel fetch fd's attributes from the file system.
func refresh(fd int) error {
	var sx unix.Statx_t
	return eintr.Retry(func() error {
		return unix.Statx(fd, "", unix.AT_EMPTY_PATH|unix.AT_STATX_FORCE_SYNC, unix.STATX_BASIC_STATS, &sx)
	})
}
