// The sweeper closes files soon after their last use.

package osfs

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/nfsrdma/nfsrdma/nfsserver/osfs/internal/inodegen"
	"golang.org/x/sys/unix"
)

// Open descriptors disturb the served machine: a file open for writing cannot be executed, a file
// system with an open file cannot be unmounted, and a removed file keeps its space. So each
// descriptor is closed within idleTicks periods of sweepEvery after its last use, and a descriptor
// for writing within a period after its file was synced. To reopen a file by its handle takes some
// microseconds.

// A sweeper runs only while something is open or cached: an idle server has no timer.
type sweeper struct {
	live atomic.Bool // the loop runs; written under mu

	mu      sync.Mutex // guards starting the loop
	stopped bool
	quit    chan struct{}
	done    sync.WaitGroup
}

func (s *sweeper) init() { s.quit = make(chan struct{}) }

// wakeSweeper starts the loop, unless it runs.
func (f *FS) wakeSweeper() {
	s := &f.sweep
	if s.live.Load() {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.stopped && !s.live.Load() {
		s.live.Store(true)
		s.done.Go(f.sweepLoop)
	}
}

func (f *FS) sweepLoop() {
	t := time.NewTicker(sweepEvery)
	defer t.Stop()
	for {
		select {
		case <-f.sweep.quit:
			return
		case <-t.C:
		}
		if f.sweepOnce(); f.anyOpen() {
			continue
		}
		f.sweep.live.Store(false)
		if f.anyOpen() { // a node, mount or generation was added before live was cleared
			f.wakeSweeper()
		}
		return
	}
}

// anyOpen reports whether there is anything to sweep.
func (f *FS) anyOpen() bool {
	return f.cache.nodes.Load() > 0 || f.mounts.len.Load() > 0 || f.gens.Len() > 0
}

func (s *sweeper) stop() {
	s.mu.Lock()
	s.stopped = true
	s.mu.Unlock()
	close(s.quit)
	s.done.Wait()
}

// sweepOnce advances the clock by a tick, and closes files that have been idle for long enough.
func (f *FS) sweepOnce() {
	now := f.cache.tick.Add(1)
	room := f.flush.room()
	for i := range f.cache.shard {
		s := &f.cache.shard[i]
		s.mu.Lock()
		out := s.idle(now, &room)
		s.mu.Unlock()
		f.cache.retireAll(out)
	}
	for _, m := range f.mounts.idle(now) {
		unix.Close(m.fd)
	}
	f.gens.Drop(now, inodegen.IdleTicks)
}

// idle removes the nodes to close, and returns those without users as a list; s.mu is held. A used
// node with an idle descriptor for writing leaves the cache, and its last user closes it. The next
// user opens the file again, without that descriptor. room is the number of files that can still
// wait for a sync; others stay until the next sweep.
func (s *shard) idle(now uint32, room *int) (out *node) {
	// From the least recently used node. The order shows a node's last get, but not its write
	// descriptor's last use. So the loop inspects all nodes, and does not stop at the first node
	// that stays.
	for n := s.lru.prev; n != &s.lru; {
		prev := n.prev
		idle := n.refs == 0 && now-n.used >= idleTicks || n.write.Load() >= 0 && now-n.written.Load() >= idleTicks
		if idle && n.hasRoom(room) {
			s.remove(n)
			if n.refs == 0 {
				n.next, out = out, n
			}
		}
		n = prev
	}
	return out
}

// dropIfGone drops n if its file has no name left, and reports whether it did.
func (f *FS) dropIfGone(n *node) bool {
	var st unix.Stat_t
	if err := fstat(n.fd(), &st); err == nil && st.Nlink > 0 && !f.isDead(n) {
		return false
	}
	n.dirty.Store(false) // a sync would only delay freeing the file's space
	f.cache.drop(n)
	if k, ok := inodeKeyOf(&n.ref); ok {
		f.index.markGone(&n.ref)
		f.identities.forget(k, generationIn(&n.ref))
	}
	return true
}
