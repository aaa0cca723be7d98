// The cache of nodes: bounded, least recently used first out, in shards.

package osfs

import (
	"sync"

	"github.com/nfsrdma/nfsrdma/nfsserver"
)

const shards = 16

// A cache maps Refs to nodes. It holds at most its limit of nodes, and those in use.
type cache struct{ shard [shards]shard }

type shard struct {
	max int

	mu    sync.Mutex // guards all below and the list fields of the nodes
	nodes map[nfsserver.Ref]*node
	lru   node // ring: lru.next is the node used last
}

func (c *cache) init(limit int) {
	for i := range c.shard {
		s := &c.shard[i]
		s.max = max(1, limit/shards)
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
		n.unlink()
		s.pushFront(n)
	}
	return n
}

// put brings in a new node and returns it with a reference; where there is one
// of that Ref already, the new one is closed and the old one returned.
func (c *cache) put(n *node) *node {
	s := c.of(&n.ref)
	s.mu.Lock()
	if old := s.nodes[n.ref]; old != nil {
		old.refs++
		s.mu.Unlock()
		n.close()
		return old
	}
	n.refs = 1
	s.nodes[n.ref] = n
	s.pushFront(n)
	out := s.evict()
	s.mu.Unlock()
	for ; out != nil; out = out.next {
		out.close()
	}
	return n
}

// evict takes unused nodes out until the limit holds, and returns them as a
// list; s.mu is held.
func (s *shard) evict() (out *node) {
	for n := s.lru.prev; n != &s.lru && len(s.nodes) > s.max; {
		prev := n.prev
		if n.refs == 0 {
			s.remove(n)
			n.next, out = out, n
		}
		n = prev
	}
	return out
}

// release gives a reference back.
func (c *cache) release(n *node) {
	s := c.of(&n.ref)
	s.mu.Lock()
	n.refs--
	over := n.refs == 0 && (n.dead || len(s.nodes) > s.max)
	if over && !n.dead {
		s.remove(n)
	}
	s.mu.Unlock()
	if over {
		n.close()
	}
}

// drop takes a node out of the cache: its file is gone. It is closed with its last reference.
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

func (c *cache) closeAll() {
	for _, n := range c.all() {
		c.drop(n)
		c.release(n)
	}
}

// remove takes n out of map and list; s.mu is held.
func (s *shard) remove(n *node) {
	delete(s.nodes, n.ref)
	n.unlink()
	n.dead = true
}

func (s *shard) pushFront(n *node) {
	n.prev, n.next = &s.lru, s.lru.next
	n.prev.next, n.next.prev = n, n
}

func (n *node) unlink() {
	n.prev.next, n.next.prev = n.next, n.prev
	n.prev, n.next = nil, nil
}
