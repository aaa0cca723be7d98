// The walk: finding inodes again after a restart, or after somebody moved them.

package osfs

import (
	"sync"
	"time"

	"github.com/nfsrdma/nfsrdma/nfsserver"
	"golang.org/x/sys/unix"
)

// maxWalkDepth bounds the descriptors that are open on the way down.
const maxWalkDepth = 256

// A walker fills the index from the whole tree. Handles are authenticated before
// they get here, so a client cannot ask for walks at will; still no more than
// half of the time is spent on them, but for a burst.
type walker struct {
	mu    sync.Mutex
	begun time.Time     // the last walk
	debt  time.Duration // time spent on walks, less half of the time that has passed
	asOf  time.Time     // debt
}

// walkBurst is how much time walks may take before they must wait.
const walkBurst = time.Second

// run walks the tree once.
func (w *walker) run(f *FS) error {
	asked := time.Now()
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.begun.After(asked) {
		return nil // one that began after we asked has just ended
	}
	start := time.Now()
	w.debt = max(0, w.debt-start.Sub(w.asOf)/2)
	w.asOf = start
	if w.debt > walkBurst {
		return nfsserver.ErrBusy
	}
	fd, err := f.tree.openDir(f.tree.root, ".")
	if err != nil {
		return err
	}
	f.walkDir(fd, inodeKey{0, f.rootIno}, 0)
	w.begun, w.asOf = start, time.Now()
	w.debt += w.asOf.Sub(start)
	return nil
}

// walkDir notes the entries of directory fd, which it closes, and of those below.
func (f *FS) walkDir(fd int, k inodeKey, depth int) {
	defer unix.Close(fd)
	buf := make([]byte, direntBuf)
	for {
		n, err := unix.Getdents(fd, buf)
		if err != nil || n <= 0 || f.closed.Load() {
			return
		}
		for b := buf[:n]; ; {
			var de rawDirent
			if b = de.next(b); b == nil {
				break
			}
			f.walkEntry(fd, k, &de, depth)
		}
	}
}

// walkEntry notes one entry; a directory is walked unless it lies too deep.
func (f *FS) walkEntry(fd int, k inodeKey, de *rawDirent, depth int) {
	if de.dots() {
		return
	}
	name := string(de.name)
	if de.typ != unix.DT_DIR && de.typ != unix.DT_UNKNOWN {
		f.index.set(inodeKey{k.dev, de.ino}, hint{k, name})
		return
	}
	sub, err := f.tree.openDir(fd, name)
	if err != nil {
		f.index.set(inodeKey{k.dev, de.ino}, hint{k, name})
		return
	}
	id, err := f.identify(sub)
	if err != nil || depth >= maxWalkDepth {
		unix.Close(sub)
		return
	}
	key := inodeKey{id.dev, id.ino} // a mount point has not the number that its entry says
	f.index.set(key, hint{k, name})
	f.walkDir(sub, key, depth+1)
}
