// Nodes: open inodes, with a descriptor for each way of use.

package osfs

import (
	"sync"
	"sync/atomic"
	"syscall"

	"github.com/nfsrdma/nfsrdma/internal/wait"
	"github.com/nfsrdma/nfsrdma/nfsserver"
	"golang.org/x/sys/unix"
)

// A node is an inode with open descriptors. A descriptor stays open from its first use until the
// node is closed. Holders of a reference (see cache) may use the descriptors.
type node struct {
	// Set once.
	ref  nfsserver.Ref
	key  inodeKey
	fsid uint64
	typ  nfsserver.FileType

	unstableBtime bool          // the birth time may change
	mergedMount   bool          // see mount.mergedMount
	numbered      bool          // the server gave the generation (owngenerations.go)
	ctime         unix.Timespec // ctime when the node was made

	// Guarded by the shard's mu. A node in the map or with a reference is open. A dead node is out
	// of the map, and its last reference closes it.
	refs       int
	dead       bool   // out of the cache
	used       uint32 // the cache's tick of the last get
	prev, next *node

	// Descriptors; -1: not open. Two may be equal. Each is opened once, under mu, while the node
	// has a reference. So holders of a reference read the fields without mu.
	mu            sync.Mutex
	path          atomic.Int32 // O_PATH
	read, write   atomic.Int32
	written       atomic.Uint32 // the cache's tick at the last use of write
	dirty         atomic.Bool   // a write since the last Sync began
	btimeFinal    atomic.Bool   // the file's birth time changes no more
	alive         atomic.Uint32 // 1 + the cache's tick of the last isDead; 0: never
	readBackoff   wait.Backoff  // backoff of ReadInUse
	deferredReads atomic.Int32  // number of replies that will read the node
	dax           atomic.Int32  // daxState
	proven        atomic.Uint32 // 1 + the cache's tick of the last subtree check; 0: never
	pinned        atomic.Bool   // its descriptors pin its generation (owngenerations.go)

	grants grants

	dirMu    sync.Mutex // guards listings
	listings []listing  // of a directory: begun listings that no call uses, the oldest first
}

func newNode(x *file) *node {
	n := &node{ref: x.ref, key: x.key, fsid: x.fsid, typ: fileType(x.st.Mode), unstableBtime: x.unstableBtime, mergedMount: x.mergedMount, numbered: x.numbered, ctime: x.st.Ctim}
	n.path.Store(-1)
	n.read.Store(-1)
	n.write.Store(-1)
	n.grants.see(&x.st)
	return n
}

// fd returns any of the node's descriptors, for fstat and the *at calls.
func (n *node) fd() int {
	if fd := n.path.Load(); fd >= 0 {
		return int(fd)
	}
	return int(n.read.Load())
}

// reader returns the descriptor for reading a file or a directory.
func (f *FS) reader(n *node) (int, error) {
	if fd := n.read.Load(); fd >= 0 {
		return int(fd), nil
	}
	return f.open(n, &n.read, unix.O_RDONLY, true)
}

// writer returns the descriptor for writing a file.
func (f *FS) writer(n *node) (int, error) {
	n.written.Store(f.cache.tick.Load())
	if fd := n.write.Load(); fd >= 0 {
		return int(fd), nil
	}
	return f.open(n, &n.write, unix.O_WRONLY, true)
}

// open opens a regular file or a directory once more, into slot. With own it also opens a file of
// this process's user whose mode forbids the open. It opens nothing else, because to open a device
// or a FIFO has effects.
func (f *FS) open(n *node, slot *atomic.Int32, flags int, own bool) (int, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if fd := slot.Load(); fd >= 0 {
		return int(fd), nil
	}
	fd, err := -1, error(nil)
	switch {
	case n.typ == nfsserver.TypeDir && flags == unix.O_RDONLY:
		fd, err = openHere(n.fd(), ".", unix.O_RDONLY|unix.O_DIRECTORY)
	case n.typ == nfsserver.TypeDir:
		err = syscall.EISDIR
	case n.typ != nfsserver.TypeReg:
		err = syscall.EINVAL
	default:
		reopen := func() (int, error) { return openHere(unix.AT_FDCWD, procPath(n.fd()), flags|unix.O_NONBLOCK) }
		if fd, err = reopen(); err == unix.EACCES && own {
			fd, err = f.openOwn(n, reopen)
		}
	}
	if err == nil && n.numbered {
		if err = f.pinOpened(n, fd); err != nil {
			unix.Close(fd)
		}
	}
	if err == unix.ENOENT { // the path is gone
		err = nfsserver.ErrStale
	}
	if n.numbered && err == nfsserver.ErrStale {
		f.cache.drop(n) // the next call searches for the file again
	}
	if err != nil {
		return -1, err
	}
	slot.Store(int32(fd))
	return fd, nil
}

// synced records that all writes so far are on stable storage. The next sweep closes the descriptor
// for writing, unless it is used again.
func (f *FS) synced(n *node) {
	if n.write.Load() >= 0 {
		n.written.Store(f.cache.tick.Load() - (idleTicks - 1))
	}
}

// close closes all descriptors; the node has no references.
func (n *node) close() {
	path, read, write := n.path.Swap(-1), n.read.Swap(-1), n.write.Swap(-1)
	for _, fd := range [...]int32{path, read} {
		if fd >= 0 {
			unix.Close(int(fd))
		}
	}
	if write >= 0 && write != read {
		unix.Close(int(write))
	}
	for _, l := range n.listings {
		unix.Close(l.fd)
	}
	shared.listings.Add(-int64(len(n.listings)))
	n.listings = nil
}

// acquire returns a Ref's node, with a reference.
func (f *FS) acquire(r *nfsserver.Ref) (*node, error) {
	n, err := f.acquireAny(r)
	if err != nil || !f.opts.SubtreeCheck {
		return n, err
	}
	if err := f.confine(n); err != nil {
		f.cache.release(n)
		return nil, err
	}
	return n, nil
}

// acquireAny is acquire for a file outside of the export too.
func (f *FS) acquireAny(r *nfsserver.Ref) (*node, error) {
	if n := f.cache.get(r); n != nil {
		return n, nil
	}
	fd, err := f.openRef(r)
	if err != nil {
		return nil, err
	}
	var x file
	err = f.describe(fd, &x)
	if err == nil && (x.st.Nlink == 0 || x.ref != *r) {
		err = nfsserver.ErrStale // the file is gone, or no FS of this kind makes such a Ref
	}
	if err == unix.ENOENT { // the path is gone
		err = nfsserver.ErrStale
	}
	if err != nil {
		unix.Close(fd)
		return nil, err
	}
	// Two calls may get here for the same Ref at once. put keeps one node, and closes the other's
	// descriptor.
	n := newNode(&x)
	n.path.Store(int32(fd))
	return f.cache.put(n), nil
}

// acquireDir is acquire for a directory.
func (f *FS) acquireDir(r *nfsserver.Ref) (*node, error) {
	n, err := f.acquire(r)
	if err == nil && n.typ != nfsserver.TypeDir {
		f.cache.release(n)
		return nil, syscall.ENOTDIR
	}
	return n, err
}
