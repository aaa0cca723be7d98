// The cache of nodes: bounded, least recently used first out, in shards.

package osfs

import (
	"sync"
	"sync/atomic"

	"github.com/nfsrdma/nfsrdma/nfsserver"
)

// A cache maps Refs to nodes. It holds no more nodes than its own limit and the
// budget of all caches (fdbudget.go) allow, beside those in use, and none for long
// after its last use (sweep.go).
type cache struct {
	// Set once.
	retire func(*node)   // closes a node that nobody holds a reference to
	wake   func()        // there is a node to sweep
	room   func() int    // how many nodes retire can take that must be synced
	slow   bool          // to close a file may wait for another program or machine
	tick   atomic.Uint32 // the sweeper's clock; it alone advances it

	stuck atomic.Int32  // reclaims of others that this slow one has not done in time
	nodes atomic.Int64  // in all shards
	first atomic.Uint32 // shard to evict from first
	shard [shards]shard
}

type shard struct {
	// Set once.
	cache *cache
	max   int // 0: no limit of its own

	// Shard locks are innermost: nothing is opened, closed or synced under one. What is to be
	// closed is taken out under the lock, in a list, and closed when the lock is free (retireAll).
	mu    sync.Mutex // guards all below and the list fields of the nodes
	nodes map[nfsserver.Ref]*node
	lru   node // ring: lru.next is the node used last
}

// init makes the cache; limit 0 leaves it to the budget of all caches, which it joins next.
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

// get returns the node of r with a reference, or nil.
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

// put adds a new node and returns it with a reference; where there is one of
// that Ref already, the new one is closed and the old one returned.
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
	// Entered before anything is evicted: the new node has a reference, and cannot be the one to
	// go.
	s.nodes[n.ref] = n
	s.pushFront(n)
	s.count(1)
	out := s.evict(s.over(), nil)
	s.mu.Unlock()
	c.retireAll(out)
	if over := shared.over(); over > 0 && shared.reclaim(over) == 0 {
		// All that could go waits for a disk. Who adds to it waits, too, for his own.
		out, _ := c.evict(1, nil)
		c.retireAll(out)
	}
	c.wake()
	return n
}

// over is how many nodes there are beyond the shard's own limit; s.mu is held.
func (s *shard) over() int {
	if s.max == 0 {
		return 0
	}
	return len(s.nodes) - s.max
}

// evict removes up to count unused nodes, those used longest ago first, and
// returns them as a list; s.mu is held. Of those that must be synced it takes no
// more than room, which it lowers; nil: all.
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

// evict is evict of the shards, a different one first each time; count tells how
// many nodes the list has.
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

// retireAll retires a list of nodes; no lock is held.
func (c *cache) retireAll(out *node) (count int) {
	for out != nil {
		n := out
		out, n.next = n.next, nil
		c.retire(n)
		count++
	}
	return count
}

// release returns a reference.
func (c *cache) release(n *node) {
	if c.unref(n) {
		c.retire(n)
	}
}

// unref is release that reports whether n is to be retired.
func (c *cache) unref(n *node) (out bool) {
	s := c.of(&n.ref)
	s.mu.Lock()
	n.refs--
	// A dead node is closed by its last user; while it is in use its descriptors are still good.
	out = n.refs == 0 && (n.dead || s.over() > 0)
	if out && !n.dead {
		s.remove(n)
	}
	s.mu.Unlock()
	return out
}

// drop removes a node from the cache: its file is gone, or is to be opened anew.
// It is closed with its last reference.
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

// closeAll closes all nodes that are not in use.
func (c *cache) closeAll() {
	for _, n := range c.all() {
		c.drop(n)
		c.release(n)
	}
}

// count records that n nodes were added.
func (s *shard) count(n int64) {
	s.cache.nodes.Add(n)
	shared.nodes.Add(n)
}

// remove takes n out of map and list; s.mu is held.
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
