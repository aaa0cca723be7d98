// Pruning: the kernel is asked to forget objects that no program uses, when it holds more than
// there is memory for.
//
// Each object that the kernel knows has a node here, and it forgets one only when the whole machine
// is short of memory: a listing of a million names would stay for as long as the mount.

package fusefs

import (
	"sync"
	"sync/atomic"

	"github.com/hanwen/go-fuse/v2/fuse"
)

const (
	nodeShare  = 2 << 10 // bytes of Options.Memory for each node that is kept; one takes about half of that besides
	pruneBatch = 4096    // nodes of one notice
)

// pruning has the nodes of a table pruned, by a goroutine that runs while there are too many.
type pruning struct {
	fs *fileSystem // set once

	mu      sync.Mutex // guards all below
	running bool
	again   bool // there have come more since the round began
	stopped bool
	wg      sync.WaitGroup

	byName atomic.Bool // the kernel has no notice for objects, as before Linux 6.18
}

// begin has too many nodes pruned. It does not wait: it is called with the table's lock held.
func (p *pruning) begin() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.again = true
	if !p.running && !p.stopped {
		p.running = true
		p.wg.Go(p.run)
	}
}

// next reports whether there is a round to make, or to go on with.
func (p *pruning) next(begun bool) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if begun {
		return !p.stopped
	}
	p.running = p.again && !p.stopped
	p.again = false
	return p.running
}

// stop ends the pruning. The connection to the kernel is gone by then, so that nothing waits.
func (p *pruning) stop() {
	p.mu.Lock()
	p.stopped = true
	p.mu.Unlock()
	p.wg.Wait()
}

// run makes rounds, each of which leaves an eighth of the bound free, if the kernel can do without
// the rest.
func (p *pruning) run() {
	f := p.fs
	for p.next(false) {
		for ids := f.table.idle(); len(ids) > 0 && p.next(true); {
			n := min(len(ids), pruneBatch)
			if p.byName.Load() || f.server.PruneNotify(ids[:n]) == fuse.ENOSYS {
				p.byName.Store(true)
				f.forgetNames(ids[:n])
			}
			ids = ids[n:]
		}
	}
}

// forgetNames has the kernel forget the names that lead to files. Directories are left alone: one
// that a program is in would have no name for it from then on. So are names that are mounted on,
// which would be unmounted.
func (f *fileSystem) forgetNames(ids []uint64) {
	mounted := mountedNames()
	for _, id := range ids {
		for _, p := range f.table.placesOf(id) {
			if mounted[p.name] {
				continue
			}
			_ = f.server.EntryNotify(p.dir.id, p.name)
		}
	}
}

// idle returns nodes that are neither open nor have names below them that the kernel may hold: as
// many as there are over seven eighths of the bound, whichever they are.
func (t *table) idle() []uint64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	count := len(t.byID) - t.most + t.most/8
	if count <= 0 {
		return nil
	}
	ids := make([]uint64, 0, count)
	for id, n := range t.byID {
		if id == rootID || n.opens > 0 || len(n.children) > 0 {
			continue
		}
		if ids = append(ids, id); len(ids) == count {
			break
		}
	}
	return ids
}

// placesOf are the names of a file that is not open now.
func (t *table) placesOf(id uint64) []place {
	t.mu.Lock()
	defer t.mu.Unlock()
	n := t.byID[id]
	if n == nil || n.opens > 0 || n.isDir() {
		return nil
	}
	return append([]place(nil), n.places...)
}
