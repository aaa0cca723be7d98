// The descriptor budget, for all the process's FSs.

package osfs

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/nfsrdma/nfsrdma/nfsserver/osfs/internal/eintr"
	"golang.org/x/sys/unix"
)

// shared is the process's budget. The descriptor limit is process-wide, so the budget is too: one
// FS has to leave descriptors to the others, and all FSs together to connections.
var shared = budget{caches: make(map[*cache]struct{})}

// A budget bounds the nodes in all caches together. The same number bounds the nodes' listings
// (listing.go).
type budget struct {
	nodes         atomic.Int64 // in all caches
	listings      atomic.Int64 // kept by all nodes
	deferredReads atomic.Int64 // nodes that replies are going to read, at most half of limit
	limit         atomic.Int64

	mu     sync.Mutex // guards all below
	caches map[*cache]struct{}
}

// join adds a cache, and reads the descriptor limit, which may have been raised. An open FS has
// three descriptors, and a node up to three in addition to listings. FSs and nodes together may
// have three eighths of the descriptors; half is left to connections. EMFILE: there are too many
// FSs.
func (b *budget) join(c *cache) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	room := threes()
	if len(b.caches) >= max(1, room/2, room-leastNodes) {
		return unix.EMFILE
	}
	b.caches[c] = struct{}{}
	b.share(room)
	return nil
}

func (b *budget) leave(c *cache) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.caches, c)
	b.share(threes())
}

// share sets the node limit to room, from threes, less one for each FS; mu is held.
func (b *budget) share(room int) {
	b.limit.Store(int64(max(leastNodes, min(room-len(b.caches), mostNodes))))
}

// threes returns an eighth of the descriptor limit: with three descriptors for each FS and node,
// FSs and nodes use three eighths.
func threes() int {
	var lim unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &lim); err != nil {
		return unknownThrees
	}
	return int(min(lim.Cur/8, 1<<30))
}

// over returns how many nodes exceed the budget's limit.
func (b *budget) over() int { return int(b.nodes.Load() - b.limit.Load()) }

// reclaim closes up to count unused nodes and returns their number. It starts with the largest
// cache, so a busy FS leaves the nodes of other FSs open. b.mu is not held during the closes,
// because a close can wait for a file system.
func (b *budget) reclaim(count int) (done int) {
	tried := make(map[*cache]bool)
	for done < count {
		c := b.most(tried)
		if c == nil {
			return done
		}
		tried[c] = true
		done += b.reclaimOf(c, count-done)
	}
	return done
}

// most returns the largest untried cache, or nil.
func (b *budget) most(tried map[*cache]bool) (most *cache) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for c := range b.caches {
		if !tried[c] && (most == nil || c.nodes.Load() > most.nodes.Load()) {
			most = c
		}
	}
	return most
}

// reclaimOf closes up to count unused nodes in c. The caller may use another FS, so reclaimOf syncs
// nothing, and does not wait long for a file system run by a program or another machine.
func (b *budget) reclaimOf(c *cache, count int) int {
	if c.stuck.Load() > 0 {
		return 0
	}
	room := c.room()
	out, done := c.evict(count, &room)
	switch {
	case done == 0:
	case c.slow:
		c.retireSoon(out)
	default:
		c.retireAll(out)
	}
	return done
}

// retireSoon is retireAll, but returns after closeWait at the latest; a goroutine then completes
// the closes.
func (c *cache) retireSoon(out *node) {
	var ended atomic.Bool // set by the first of work and timeout
	closed := make(chan struct{})
	go func() {
		c.retireAll(out)
		if ended.Swap(true) {
			c.stuck.Add(-1)
		}
		close(closed)
	}()
	late := time.NewTimer(closeWait)
	defer late.Stop()
	select {
	case <-closed:
	case <-late.C:
		if !ended.Swap(true) {
			c.stuck.Add(1)
		}
	}
}

// opened calls open. It repeats the call after a signal, and once idle nodes are closed when
// descriptors have run out.
func opened(open func() (int, error)) (int, error) {
	fd, err := eintr.RetryN(open)
	for (err == unix.EMFILE || err == unix.ENFILE) && shared.reclaim(reclaimStep) > 0 {
		fd, err = eintr.RetryN(open)
	}
	return fd, err
}
