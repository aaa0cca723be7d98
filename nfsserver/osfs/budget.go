// The budget of descriptors, one for all FSs of the process.

package osfs

import (
	"sync"
	"sync/atomic"

	"golang.org/x/sys/unix"
)

// shared is the budget of the process: descriptors are limited for it as a
// whole, so that one FS has to give way to another, and all of them to
// connections.
var shared = budget{caches: make(map[*cache]struct{})}

// A budget bounds the nodes of all caches together.
type budget struct {
	nodes atomic.Int64 // in all caches
	limit atomic.Int64

	mu     sync.Mutex // guards all below; taken before the mu of a shard
	caches map[*cache]struct{}
	next   uint // shard to take the next one from
}

// join adds a cache, and reads the limit on descriptors, which may have been raised.
func (b *budget) join(c *cache) {
	var lim unix.Rlimit
	files := int64(128)
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &lim); err == nil {
		// A node has up to three descriptors; more than half is left to connections.
		files = int64(max(32, min(lim.Cur/8, 4096)))
	}
	b.limit.Store(files)
	b.mu.Lock()
	defer b.mu.Unlock()
	b.caches[c] = struct{}{}
}

func (b *budget) leave(c *cache) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.caches, c)
}

// over is how many nodes there are beyond the limit.
func (b *budget) over() int { return int(b.nodes.Load() - b.limit.Load()) }

// reclaim closes up to count unused nodes and returns how many: those of the
// cache that has most of them, so that one that works much leaves others theirs.
func (b *budget) reclaim(count int) (done int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	tried := make(map[*cache]bool, len(b.caches))
	for done < count {
		var most *cache
		for c := range b.caches {
			if !tried[c] && (most == nil || c.nodes.Load() > most.nodes.Load()) {
				most = c
			}
		}
		if most == nil {
			return done
		}
		tried[most] = true
		done += b.reclaimOf(most, count-done)
	}
	return done
}

// reclaimOf closes up to count unused nodes of c; b.mu is held. It never waits
// for the disk of c, whose users may not be those who ask.
func (b *budget) reclaimOf(c *cache, count int) (done int) {
	room := c.room()
	for range c.shard {
		b.next++
		s := &c.shard[b.next%shards]
		s.mu.Lock()
		out := s.evict(count-done, &room)
		s.mu.Unlock()
		if done += c.retireAll(out); done >= count {
			break
		}
	}
	return done
}

// reclaimStep is how many nodes are closed when the process or the machine is
// out of descriptors.
const reclaimStep = 32

// opened calls open, again when there was no descriptor left and some could be closed.
func opened(open func() (int, error)) (int, error) {
	fd, err := open()
	for (err == unix.EMFILE || err == unix.ENFILE) && shared.reclaim(reclaimStep) > 0 {
		fd, err = open()
	}
	return fd, err
}
