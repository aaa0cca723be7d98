// The walk: searches the tree for inodes after a restart, or after another program moved them.

package osfs

import (
	"slices"
	"sync"
	"time"

	"github.com/nfsrdma/nfsrdma/nfsserver"
	"golang.org/x/sys/unix"
)

// A walker searches the whole tree for inodes, for all callers at once, and adds the names it
// passes to the index. Handles are authenticated first, so clients cannot cause walks at will.
// Still, after maxWalkDebt, walks take no more than half of the time.
type walker struct {
	wantMu sync.Mutex // guards want and the fields of its elements; taken after mu
	want   map[inodeKey][]*wanted

	mu    sync.Mutex    // held during a walk
	debt  time.Duration // time spent on walks, less half of the time since then
	asOf  time.Time     // when debt was last computed
	short error         // the last scarce error that hid a file from this walk; nil: none
}

// A wanted is a call that searches for an inode.
type wanted struct {
	fd     int  // a descriptor of the inode, or -1
	missed bool // a walk begun after the call has not found the inode
}

func (w *walker) init() { w.want = make(map[inodeKey][]*wanted) }

// find opens inode k, anywhere in the tree.
func (w *walker) find(f *FS, k inodeKey) (int, error) {
	me := &wanted{fd: -1}
	w.wantMu.Lock()
	w.want[k] = append(w.want[k], me)
	w.wantMu.Unlock()
	err := w.run(f, me)
	w.wantMu.Lock()
	defer w.wantMu.Unlock()
	if i := slices.Index(w.want[k], me); i >= 0 {
		if w.want[k] = slices.Delete(w.want[k], i, i+1); len(w.want[k]) == 0 {
			delete(w.want, k)
		}
	}
	switch {
	case me.fd >= 0:
		return me.fd, nil
	case err == nil:
		err = nfsserver.ErrStale
	}
	return -1, err
}

// run walks the tree once, unless a walk begun after the call has ended while run waited.
func (w *walker) run(f *FS, me *wanted) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.answered(me) {
		return nil
	}
	start := time.Now()
	w.debt = max(0, w.debt-start.Sub(w.asOf)/2)
	w.asOf = start
	if w.debt > maxWalkDebt {
		return nfsserver.ErrBusy
	}
	began := w.all()
	fd, err := f.tree.openDir(f.tree.root, ".")
	if err != nil {
		return err
	}
	w.short = nil
	f.walkDir(fd, f.rootKey, 0)
	w.asOf = time.Now()
	w.debt += w.asOf.Sub(start)
	if w.short != nil {
		return w.short
	}
	w.wantMu.Lock()
	defer w.wantMu.Unlock()
	for _, other := range began {
		other.missed = true
	}
	return nil
}

// note records a scarce error that hid a file or directory from the walk.
func (w *walker) note(err error) {
	if scarce(err) {
		w.short = err
	}
}

// answered reports whether a walk has found me, or has missed me.
func (w *walker) answered(me *wanted) bool {
	w.wantMu.Lock()
	defer w.wantMu.Unlock()
	return me.fd >= 0 || me.missed
}

// all returns all calls that search now.
func (w *walker) all() (all []*wanted) {
	w.wantMu.Lock()
	defer w.wantMu.Unlock()
	for _, some := range w.want {
		all = append(all, some...)
	}
	return all
}

// isWanted reports whether a call searches for inode k.
func (w *walker) isWanted(k inodeKey) bool {
	w.wantMu.Lock()
	defer w.wantMu.Unlock()
	return len(w.want[k]) > 0
}

// deliver gives each call that searches for inode k a duplicate of fd.
func (w *walker) deliver(k inodeKey, fd int) {
	w.wantMu.Lock()
	defer w.wantMu.Unlock()
	for _, some := range w.want[k] {
		if some.fd < 0 {
			dup, err := opened(func() (int, error) { return unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, 0) })
			if w.note(err); err == nil {
				some.fd = dup
			}
		}
	}
}

// walkDir walks the entries of directory fd, and of the directories below. It closes fd.
func (f *FS) walkDir(fd int, k inodeKey, depth int) {
	defer unix.Close(fd)
	buf := make([]byte, direntBuf)
	for {
		n, err := getdents(fd, buf)
		f.index.walk.note(err)
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

// walkEntry records one entry. It walks a directory, unless that is too deep.
func (f *FS) walkEntry(fd int, k inodeKey, de *rawDirent, depth int) {
	if de.dots() {
		return
	}
	name := string(de.name)
	if de.typ != unix.DT_DIR && de.typ != unix.DT_UNKNOWN {
		f.walkFile(fd, inodeKey{k.mount, k.volume, de.ino}, hint{k, name})
		return
	}
	sub, err := f.tree.openDir(fd, name)
	f.index.walk.note(err)
	if err != nil {
		f.walkFile(fd, inodeKey{k.mount, k.volume, de.ino}, hint{k, name})
		return
	}
	var x file
	m, err := f.locate(sub, &x)
	f.index.walk.note(err)
	if err == nil {
		f.mounts.release(m)
	}
	if err != nil || depth >= maxWalkDepth {
		unix.Close(sub)
		return
	}
	f.index.add(x.key, hint{k, name}) // x.key: the entry of a mount point has another number
	if f.index.walk.isWanted(x.key) {
		f.walkWanted(x.key, fd, name)
	}
	f.walkDir(sub, x.key, depth+1)
}

// walkFile records an entry that is not a directory.
func (f *FS) walkFile(dir int, k inodeKey, h hint) {
	f.index.add(k, h)
	if f.index.walk.isWanted(k) {
		f.walkWanted(k, dir, h.name)
	}
}

// walkWanted delivers name in a directory if it is inode k.
func (f *FS) walkWanted(k inodeKey, dir int, name string) {
	fd, err := f.openAs(k, dir, name)
	if err != nil {
		f.index.walk.note(err)
		return
	}
	f.index.walk.deliver(k, fd)
	unix.Close(fd)
}
