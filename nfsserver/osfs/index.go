// The index: the last known place for inodes the kernel does not open by handle.

package osfs

import (
	"sync"

	"github.com/nfsrdma/nfsrdma/nfsserver"
	"golang.org/x/sys/unix"
)

// A hint is the name and directory under which an inode was last seen. A hint may be wrong, so its
// users check that the file found there is the inode.
type hint struct {
	dir  inodeKey
	name string
}

// An index maps inodes to hints.
type index struct {
	max int // set once: maxHints, except in tests

	mu    sync.Mutex
	hints map[inodeKey]hint
	gone  map[nfsserver.Ref]struct{} // Refs of files removed by this server, which no walk can find
	walk  walker
}

func (x *index) init() {
	x.max = maxHints
	x.hints, x.gone = make(map[inodeKey]hint), make(map[nfsserver.Ref]struct{})
	x.walk.init()
}

// note records x as seen under name in directory d.
func (f *FS) note(x *file, d *node, name string) {
	if f.indexed {
		f.index.set(x.key, hint{d.key, name})
	}
}

// set adds a hint. In a full index the new hint replaces another.
func (x *index) set(k inodeKey, h hint) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if len(x.hints) >= x.max {
		for old := range x.hints {
			delete(x.hints, old)
			break
		}
	}
	x.hints[k] = h
}

// add adds a hint found by a walk. It replaces no other hint, because hints from set are in use.
func (x *index) add(k inodeKey, h hint) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if _, ok := x.hints[k]; ok || len(x.hints) < x.max {
		x.hints[k] = h
	}
}

func (x *index) get(k inodeKey) (hint, bool) {
	x.mu.Lock()
	defer x.mu.Unlock()
	h, ok := x.hints[k]
	return h, ok
}

// markGone records that r's file has no name left.
func (x *index) markGone(r *nfsserver.Ref) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if len(x.gone) >= x.max/16 {
		clear(x.gone)
	}
	x.gone[*r] = struct{}{}
}

func (x *index) isGone(r *nfsserver.Ref) bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	_, ok := x.gone[*r]
	return ok
}

// openIdentity opens an inodeRef's inode, by its hint or by a walk through the whole tree. The
// descriptor is O_PATH.
func (f *FS) openIdentity(r *nfsserver.Ref) (int, error) {
	k, ok := inodeKeyOf(r)
	if !ok || f.index.isGone(r) {
		return -1, nfsserver.ErrStale
	}
	fd, err := f.openHint(k, 0)
	switch {
	case scarce(err):
		return -1, err
	case err == nil:
		// The kernel may have cached an earlier file's attributes under this name.
		if refresh(fd) == nil {
			return fd, nil
		}
		unix.Close(fd)
	}
	return f.index.walk.find(f, k)
}

// openHint opens an inode at its hint, along the hints from the root down. Any error that is not
// scarce means that the inode is not there.
func (f *FS) openHint(k inodeKey, depth int) (int, error) {
	if k == f.rootKey {
		return f.tree.openPath(f.tree.root, ".")
	}
	h, ok := f.index.get(k)
	if !ok || depth > maxHintDepth {
		return -1, nfsserver.ErrStale
	}
	dir, err := f.openHint(h.dir, depth+1)
	if err != nil {
		return -1, err
	}
	defer unix.Close(dir)
	return f.openAs(k, dir, h.name)
}

// openAs opens name in a directory if it is inode k.
func (f *FS) openAs(k inodeKey, dir int, name string) (int, error) {
	fd, err := f.tree.openPath(dir, name)
	if err != nil {
		return -1, err
	}
	var x file
	m, err := f.locate(fd, &x)
	if err == nil {
		f.mounts.release(m)
		if x.key != k {
			err = nfsserver.ErrStale
		}
	}
	if err != nil {
		unix.Close(fd)
		return -1, err
	}
	return fd, nil
}
