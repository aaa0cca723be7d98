// Nodes: open inodes, with a descriptor for each way of use; and their cache, in shards, with LRU.

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

// A cache maps Refs to nodes. In addition to the nodes in use it holds no more than its own limit
// and the shared budget (fdbudget.go) allow. The sweeper removes each soon after its last use
// (sweep.go).
type cache struct {
	// Set once.
	retire func(*node)   // closes a node without references
	wake   func()        // there is a node to sweep
	room   func() int    // unsynced nodes that retire can take
	slow   bool          // closing a file may wait for another program or machine
	tick   atomic.Uint32 // the sweeper's clock; only the sweeper advances it

	stuck atomic.Int32  // reclaims by other FSs that this slow cache did not finish in time
	nodes atomic.Int64  // in all shards
	first atomic.Uint32 // shard to evict from first
	shard [shards]shard
}

type shard struct {
	// Set once.
	cache *cache
	max   int // the shard's own node limit; 0: none

	// Shard locks are innermost: nothing is opened, closed or synced under one. Nodes to close
	// leave the shard under the lock, as a list, and retireAll closes them after it.
	mu    sync.Mutex // guards the fields below and the nodes' list fields
	nodes map[nfsserver.Ref]*node
	lru   node // ring; lru.next is the most recently used node
}

// init prepares the cache. With limit 0 only the shared budget, joined next, bounds the cache.
func (c *cache) init(limit int, retire func(*node), wake func(), room func() int) {
	c.retire, c.wake, c.room = retire, wake, room
	for i := range c.shard {
		s := &c.shard[i]
		s.cache = c
		if limit > 0 {
			s.max = max(1, limit/shards)
		}
		s.nodes = make(map[nfsserver.Ref]*node)
		s.lru.prev, s.lru.next = &s.lru, &s.lru
	}
}

func (c *cache) of(r *nfsserver.Ref) *shard { return &c.shard[r.Hash()%shards] }

// get returns r's node with a reference, or nil.
func (c *cache) get(r *nfsserver.Ref) *node {
	s := c.of(r)
	s.mu.Lock()
	defer s.mu.Unlock()
	n := s.nodes[*r]
	if n != nil {
		n.refs++
		n.used = c.tick.Load()
		n.unlink()
		s.pushFront(n)
	}
	return n
}

// put adds a new node and returns it with a reference. If the Ref already has a node, put closes
// the new node and returns the old node.
func (c *cache) put(n *node) *node {
	s := c.of(&n.ref)
	s.mu.Lock()
	if old := s.nodes[n.ref]; old != nil {
		old.refs++
		s.mu.Unlock()
		c.retire(n)
		return old
	}
	n.refs, n.used = 1, c.tick.Load()
	n.written.Store(n.used)
	// The new node enters the map before the eviction: its reference keeps it in the cache.
	s.nodes[n.ref] = n
	s.pushFront(n)
	s.count(1)
	out := s.evict(s.over(), nil)
	s.mu.Unlock()
	c.retireAll(out)
	if over := shared.over(); over > 0 && shared.reclaim(over) == 0 {
		// All evictable nodes need a sync. So the caller that adds a node waits for one sync.
		out, _ := c.evict(1, nil)
		c.retireAll(out)
	}
	c.wake()
	return n
}

// over returns how many nodes exceed the shard's own limit; s.mu is held.
func (s *shard) over() int {
	if s.max == 0 {
		return 0
	}
	return len(s.nodes) - s.max
}

// evict removes up to count unused nodes, the least recently used first, and returns them as a
// list; s.mu is held. It takes at most room unsynced nodes and reduces room by their number; a nil
// room is no limit.
func (s *shard) evict(count int, room *int) (out *node) {
	for n := s.lru.prev; n != &s.lru && count > 0; {
		prev := n.prev
		if n.refs == 0 && n.hasRoom(room) {
			s.remove(n)
			n.next, out = out, n
			count--
		}
		n = prev
	}
	return out
}

// evict removes at most most unused nodes from the shards. Each call starts with a different shard.
// It returns the nodes as a list, and their count.
func (c *cache) evict(most int, room *int) (out *node, count int) {
	first := c.first.Add(1)
	for i := range uint32(shards) {
		if count == most {
			break
		}
		s := &c.shard[(first+i)%shards]
		s.mu.Lock()
		list := s.evict(most-count, room)
		s.mu.Unlock()
		for list != nil {
			n := list
			list, n.next = n.next, out
			out = n
			count++
		}
	}
	return out, count
}

// retireAll retires a list of nodes and returns their count; no lock is held.
func (c *cache) retireAll(out *node) (count int) {
	for out != nil {
		n := out
		out, n.next = n.next, nil
		c.retire(n)
		count++
	}
	return count
}

// release gives back a reference to n.
func (c *cache) release(n *node) {
	if c.unref(n) {
		c.retire(n)
	}
}

// unref gives back a reference to n, without retirement, and reports whether n has to be retired.
func (c *cache) unref(n *node) (out bool) {
	s := c.of(&n.ref)
	s.mu.Lock()
	n.refs--
	// The last user closes a dead node. Until then the node's descriptors stay valid.
	out = n.refs == 0 && (n.dead || s.over() > 0)
	if out && !n.dead {
		s.remove(n)
	}
	s.mu.Unlock()
	return out
}

// drop removes a node from the cache, because its file is gone or must be opened again. The release
// of the last reference closes the node.
func (c *cache) drop(n *node) {
	s := c.of(&n.ref)
	s.mu.Lock()
	defer s.mu.Unlock()
	if !n.dead {
		s.remove(n)
	}
}

// all returns all nodes, each with a reference.
func (c *cache) all() (nodes []*node) {
	for i := range c.shard {
		s := &c.shard[i]
		s.mu.Lock()
		for _, n := range s.nodes {
			n.refs++
			nodes = append(nodes, n)
		}
		s.mu.Unlock()
	}
	return nodes
}

// closeAll closes all unused nodes. The others are closed by their last users.
func (c *cache) closeAll() {
	for _, n := range c.all() {
		c.drop(n)
		c.release(n)
	}
}

// count records n more nodes.
func (s *shard) count(n int64) {
	s.cache.nodes.Add(n)
	shared.nodes.Add(n)
}

// remove removes n from the shard's map and list; s.mu is held.
func (s *shard) remove(n *node) {
	delete(s.nodes, n.ref)
	n.unlink()
	n.dead = true
	s.count(-1)
}

func (s *shard) pushFront(n *node) {
	n.prev, n.next = &s.lru, s.lru.next
	n.prev.next, n.next.prev = n, n
}

func (n *node) unlink() {
	n.prev.next, n.next.prev = n.next, n.prev
	n.prev, n.next = nil, nil
}
