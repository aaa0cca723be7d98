// Generations of ours, for file systems that give inode numbers anew and say nothing else of a file's birth.

package osfs

import (
	"sync"
	"sync/atomic"

	"golang.org/x/sys/unix"
)

// Most file systems in user space (FUSE) have no generations and no time of birth. A number is
// then given to another file with nothing that says so, and a file is opened by its path, also
// through a descriptor of the kernel (O_PATH). So each file is given a generation when it is first
// seen, and keeps it as long as the server knows that the number is still that file's:
//
//   - one that a call makes has a new generation, and one that a call removes has none any more;
//   - its ctime is the one seen last, so nothing has happened to it;
//   - or its atime is. A new file's is that of its making, and who writes, renames or gives
//     rights to an old one leaves it as it is;
//   - or the server has it open for reading or writing (a pin), and its number is not free;
//   - or it is a directory that still has the name and place under which it was last seen.
//
// A file of which none of this holds, such as one that others have both changed and read since it
// was last seen, has another generation from then on. Its former handles are stale, and a look-up
// gives the new one. What can deceive this: another file of the same number whose times were set
// to be those of the first, or which has replaced it within the granularity of the times; and
// another directory of the same name and number.

// An identities knows the files that have numbers of ours.
type identities struct {
	mu    sync.Mutex // guards all below; nothing else is locked under it
	known map[inodeKey]identity
}

// An identity is what is known of the file that has an inode number now.
type identity struct {
	generation   uint64
	ctime, atime int64 // nanoseconds, as last seen
	pins         int32 // of open descriptors and of calls that change it
}

// maxIdentities bounds the memory. A file that falls out has another generation when it is seen again.
var maxIdentities = 1 << 20

// generationsGiven is the last one; for all FSs, since the same directory can be opened anew.
var generationsGiven atomic.Uint64

func newGeneration() uint64 { return generationsGiven.Add(1) }

func (t *identities) init() { t.known = make(map[inodeKey]identity) }

func (t *identities) get(k inodeKey) (identity, bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	e, ok := t.known[k]
	return e, ok
}

// replace has k be a file that was not known, unless its generation is not old any more (0: none).
func (t *identities) replace(k inodeKey, old uint64, e identity) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.known[k].generation != old {
		return false
	}
	if old == 0 && len(t.known) >= maxIdentities {
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

// note records the times of a file. Those that the kernel remembers can be older than the last.
func (t *identities) note(k inodeKey, generation uint64, st *unix.Stat_t) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if e := t.known[k]; e.generation == generation && st.Ctim.Nano() >= e.ctime {
		e.ctime, e.atime = st.Ctim.Nano(), st.Atim.Nano()
		t.known[k] = e
	}
}

// pin keeps a generation as it is until the pin is taken back.
func (t *identities) pin(k inodeKey, generation uint64) { t.addPins(k, generation, 1) }

func (t *identities) addPins(k inodeKey, generation uint64, n int32) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if e := t.known[k]; e.generation == generation {
		e.pins += n
		t.known[k] = e
	}
}

// forget ends a generation: its file is gone.
func (t *identities) forget(k inodeKey, generation uint64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.known[k].generation == generation {
		delete(t.known, k)
	}
}

// identify returns the generation of x, which fd is open on.
func (f *FS) identify(fd int, x *file) uint64 {
	for {
		e, known := f.identities.get(x.key)
		// One that was first seen since the call that made x began is x.
		if known && e.generation > x.after && (x.after != 0 || f.isSame(fd, x.key, e, &x.st)) {
			f.identities.note(x.key, e.generation, &x.st)
			return e.generation
		}
		fresh := identity{generation: newGeneration(), ctime: x.st.Ctim.Nano(), atime: x.st.Atim.Nano()}
		if f.identities.replace(x.key, e.generation, fresh) {
			return fresh.generation
		}
	}
}

// isSame reports whether the file fd, which has the number k and the attributes st, is known to be
// e. Attributes that the kernel remembers are asked for again, into st, before it is taken for another.
func (f *FS) isSame(fd int, k inodeKey, e identity, st *unix.Stat_t) bool {
	if e.pins > 0 || e.hasTimes(st) {
		return true
	}
	if refresh(fd) != nil || fstat(fd, st) != nil || st.Ino != k.ino {
		return false
	}
	if e.hasTimes(st) {
		return true
	}
	if st.Mode&unix.S_IFMT != unix.S_IFDIR {
		return false
	}
	at, ok := f.openHint(k, 0)
	if ok {
		unix.Close(at)
	}
	return ok
}

// hasTimes reports whether one of the times of st says that it is the same file. An atime of 0 is
// none: of a file system that does not keep it.
func (e *identity) hasTimes(st *unix.Stat_t) bool {
	return st.Ctim.Nano() == e.ctime || e.atime != 0 && st.Atim.Nano() == e.atime
}

// isStill reports whether n is still the file that is open as fd, with attributes st.
func (f *FS) isStill(n *node, fd int, st *unix.Stat_t) bool {
	generation := generationIn(&n.ref)
	e, _ := f.identities.get(n.key)
	if e.generation != generation || st.Ino != n.key.ino || !f.isSame(fd, n.key, e, st) {
		return false
	}
	f.identities.note(n.key, generation, st)
	return true
}

// pinOpened pins n, which fd was opened for, and reports whether that has opened its file: the
// path may be another's by now. n.mu is held.
func (f *FS) pinOpened(n *node, fd int) bool {
	var st unix.Stat_t
	if refresh(fd) != nil || fstat(fd, &st) != nil || !f.isStill(n, fd, &st) {
		return false
	}
	f.pin(n)
	return true
}

// pin pins n for its descriptors, once.
func (f *FS) pin(n *node) {
	if n.numbered && !n.pinned.Swap(true) {
		f.identities.pin(n.key, generationIn(&n.ref))
	}
}

// unpin is for a node that is about to be closed: the last look at its times, of which our own
// reads and writes have changed both.
func (f *FS) unpin(n *node) {
	_ = refresh(n.fd()) // or what the kernel remembers has to do
	f.endPin(n)
}

// endPin notes the times of n as they are now, and takes a pin back.
func (f *FS) endPin(n *node) {
	var st unix.Stat_t
	generation := generationIn(&n.ref)
	if fstat(n.fd(), &st) == nil && st.Ino == n.key.ino {
		f.identities.note(n.key, generation, &st)
	}
	f.identities.addPins(n.key, generation, -1)
}

// refresh has the kernel ask the file system for the attributes of fd.
func refresh(fd int) error {
	var sx unix.Statx_t
	return again(func() error {
		return unix.Statx(fd, "", unix.AT_EMPTY_PATH|unix.AT_STATX_FORCE_SYNC, unix.STATX_BASIC_STATS, &sx)
	})
}
