// The index: where inodes without kernel handles were last seen.

package osfs

import (
	"sync"

	"github.com/nfsrdma/nfsrdma/nfsserver"
	"golang.org/x/sys/unix"
)

// maxHints bounds the memory of the index; what falls out is found again by a walk.
const maxHints = 1 << 20

// An inodeKey is an inode without regard to its generation.
type inodeKey struct{ dev, ino uint64 }

// A hint says under which name, in which directory, an inode was last seen.
// It may be wrong: who follows it compares what is found.
type hint struct {
	dir  inodeKey
	name string
}

// An index maps inodes to hints. It is only filled for Refs of kind inodeRef.
type index struct {
	mu    sync.Mutex
	hints map[inodeKey]hint
	walk  walker
}

func (x *index) init() { x.hints = make(map[inodeKey]hint) }

// note records that r was seen as name in directory d.
func (x *index) note(r *nfsserver.Ref, d *node, name string) {
	id, ok := parseInodeRef(r)
	if !ok {
		return
	}
	dir, ok := parseInodeRef(&d.ref)
	if !ok {
		return // below a mount point: found by the walk
	}
	x.set(inodeKey{id.dev, id.ino}, hint{inodeKey{dir.dev, dir.ino}, name})
}

func (x *index) set(k inodeKey, h hint) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if len(x.hints) >= maxHints {
		for old := range x.hints {
			delete(x.hints, old)
			break
		}
	}
	x.hints[k] = h
}

func (x *index) get(k inodeKey) (hint, bool) {
	x.mu.Lock()
	defer x.mu.Unlock()
	h, ok := x.hints[k]
	return h, ok
}

// openIdentity opens the inode that id names: by its hint, or by a walk of the
// whole tree. The descriptor is O_PATH.
func (f *FS) openIdentity(id identity) (int, error) {
	k := inodeKey{id.dev, id.ino}
	if fd, ok := f.openHint(k, 0); ok {
		if f.is(fd, id) {
			return fd, nil
		}
		unix.Close(fd)
	}
	if err := f.index.walk.run(f); err != nil {
		return -1, err
	}
	if fd, ok := f.openHint(k, 0); ok {
		if f.is(fd, id) {
			return fd, nil
		}
		unix.Close(fd)
	}
	return -1, nfsserver.ErrStale
}

// is reports whether fd is the inode that id names, and not one that got its number later.
func (f *FS) is(fd int, id identity) bool {
	got, err := f.identify(fd)
	return err == nil && got == id
}

// openHint opens an inode where the index has it, from the root down.
func (f *FS) openHint(k inodeKey, depth int) (int, bool) {
	const maxDepth = 1024
	if k == (inodeKey{0, f.rootIno}) {
		fd, err := f.tree.openPath(f.tree.root, ".")
		return fd, err == nil
	}
	h, ok := f.index.get(k)
	if !ok || depth > maxDepth {
		return -1, false
	}
	dir, ok := f.openHint(h.dir, depth+1)
	if !ok {
		return -1, false
	}
	defer unix.Close(dir)
	fd, err := f.tree.openPath(dir, h.name)
	if err != nil {
		return -1, false
	}
	if got, err := f.identify(fd); err != nil || got.dev != k.dev || got.ino != k.ino {
		unix.Close(fd)
		return -1, false
	}
	return fd, true
}
