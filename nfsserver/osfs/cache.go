// The node cache: bounded, with LRU eviction, in shards.

package osfs

import (
	"sync"
	"sync/atomic"

	"github.com/nfsrdma/nfsrdma/nfsserver"
)

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
