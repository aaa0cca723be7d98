// Pruning: asking the kernel to forget unused objects when there are more nodes than memory allows.
//
// Each object in the kernel's caches has a node here. The kernel forgets objects only when the
// whole machine is short of memory. Without pruning, a listing of a million names would stay until
// unmount.

package fusefs

import (
	"sync"
	"sync/atomic"

	"github.com/hanwen/go-fuse/v2/fuse"
)

const (
	nodeShare  = 2 << 10 // bytes of Options.Memory for each node; a node takes half as much
	pruneBatch = 4096    // nodes of one notice
)

// pruner prunes a table's nodes in a goroutine that runs while there are too many.
type pruner struct {
	fs *fileSystem // set once

	mu      sync.Mutex // guards all below
	running bool
	again   bool // more nodes came after the round began
	stopped bool
	wg      sync.WaitGroup

	byName atomic.Bool // the kernel has no prune notice (before Linux 6.18)
}

// begin starts pruning. It must not block, because its caller holds the table's lock.
func (p *pruner) begin() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.again = true
	if !p.running && !p.stopped {
		p.running = true
		p.wg.Go(p.run)
	}
}

// next reports whether run has to start a round or, if begun, to continue the round.
func (p *pruner) next(begun bool) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if begun {
		return !p.stopped
	}
	p.running = p.again && !p.stopped
	p.again = false
	return p.running
}

// stop ends the pruning. The caller has closed the connection to the kernel, so no notice blocks.
func (p *pruner) stop() {
	p.mu.Lock()
	p.stopped = true
	p.mu.Unlock()
	p.wg.Wait()
}

// run prunes in rounds. Each round leaves an eighth of the bound free if the kernel can.
func (p *pruner) run() {
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

// forgetNames makes the kernel forget the names of files. It skips directories, because a program
// inside would lose its path. It skips mount points, which would be unmounted.
func (f *fileSystem) forgetNames(ids []uint64) {
	mounted := mountedNames()
	for _, id := range ids {
		for _, p := range f.table.dirNamesOf(id) {
			if mounted[p.name] {
				continue
			}
			_ = f.server.EntryNotify(p.dir.id, p.name)
		}
	}
}

// idle returns closed nodes without children in the kernel's caches. It returns as many as exceed
// seven eighths of the bound, in no order.
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

// dirNamesOf returns the names of a closed file.
func (t *table) dirNamesOf(id uint64) []dirName {
	t.mu.Lock()
	defer t.mu.Unlock()
	n := t.byID[id]
	if n == nil || n.opens > 0 || n.isDir() {
		return nil
	}
	return append([]dirName(nil), n.dirNames...)
}
