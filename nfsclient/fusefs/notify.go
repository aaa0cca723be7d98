// Notices to the kernel: they invalidate its caches.
//
// A notice for a name takes the kernel's lock of its directory, and one for data waits for
// pages that are being read: whoever sends it from an operation that holds either would
// wait for himself. So a goroutine of its own sends them, except where the old pages have to be
// gone before an operation is answered (size.go).

package fusefs

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/hanwen/go-fuse/v2/fuse"
)

// A notifier sends notices to the kernel.
type notifier interface {
	InodeNotify(node uint64, off, length int64) fuse.Status
	StoreNotify(node, off uint64, data []byte) fuse.Status
	EntryNotify(dir uint64, name string) fuse.Status
	PruneNotify(nodes []uint64) fuse.Status
}

// notices is what is to be sent: the kernel is to forget a node's attributes, and the pages of a
// file or the names of a directory. Notices of one node that wait are one.
type notices struct {
	fs *fileSystem // set once

	mu      sync.Mutex     // guards all below
	waiting map[*node]bool // whether the notice has waited for READs
	held    map[*node]int  // replies under way that a notice would void, by node
	running bool
	stopped bool
	wg      sync.WaitGroup
}

func (q *notices) init(f *fileSystem) {
	q.fs, q.waiting, q.held = f, make(map[*node]bool), make(map[*node]int)
}

// put has the kernel told of n, soon.
func (q *notices) put(n *node) { q.add(n, false) }

// add is put for a notice that has waited for READs, or not.
func (q *notices) add(n *node, waited bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.held[n] > 0 {
		return
	}
	q.waiting[n] = waited || q.waiting[n]
	if !q.running && !q.stopped {
		q.running = true
		q.wg.Go(q.run)
	}
}

// forgetAbsent has the kernel forget names of dir that were absent, soon.
func (q *notices) forgetAbsent(dir *node, names []string) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.stopped {
		return
	}
	q.wg.Go(func() {
		names = slices.DeleteFunc(names, func(name string) bool { // the kernel knows those made since
			c, _ := q.fs.table.child(dir, name)
			return c.n != nil
		})
		q.fs.forgetFiles(dir, names)
	})
}

// hold leaves out notices of n until release: they are done before the reply, or by the next look
// at open files.
func (q *notices) hold(n *node) {
	q.mu.Lock()
	q.held[n]++
	q.mu.Unlock()
}

func (q *notices) release(n *node) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.held[n]--; q.held[n] == 0 {
		delete(q.held, n)
	}
}

// stuckAfter is how long one node's notices take before others wait for them no more.
const stuckAfter = time.Second

// run sends notices until there are none. One that waits for a page, whose READ the server does not
// answer, leaves the others to a goroutine more.
func (q *notices) run() {
	for n, waited := q.next(); n != nil; n, waited = q.next() {
		handOver := time.AfterFunc(stuckAfter, q.goOn)
		q.fs.tell(n, waited)
		if !handOver.Stop() {
			return
		}
	}
}

// next takes a node that waits. Without one the sending ends.
func (q *notices) next() (n *node, waited bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if !q.stopped {
		for n, waited := range q.waiting {
			delete(q.waiting, n)
			return n, waited
		}
	}
	q.running = false
	return nil, false
}

// goOn has another goroutine send.
func (q *notices) goOn() {
	q.mu.Lock()
	defer q.mu.Unlock()
	if !q.stopped {
		q.wg.Go(q.run)
	}
}

// stop ends the sending. The connection to the kernel is gone by then, so that nothing waits.
func (q *notices) stop() {
	q.mu.Lock()
	q.stopped = true
	q.mu.Unlock()
	q.wg.Wait()
}

// changedByOthers has the kernel forget what another client has changed.
func (f *fileSystem) changedByOthers(n *node) {
	f.counts.foreign.Add(1)
	f.notices.put(n)
}

// tell has the kernel forget what it knows of n.
//
// A name that it is told to forget takes with it what is mounted on its directory or below, and a
// program that is in there has no name for where it is. So those of directories are left to time
// out, but where callers have lost the right to walk by them; the kernel can still be asked to
// forget those that nothing is in.
func (f *fileSystem) tell(n *node, waited bool) {
	if n.isDir() {
		searchers := n.searchers.Load()
		lost := n.told.Load() != searchers
		f.forgetAttrs(n)
		dirs, closed, others := f.table.namesOf(n)
		if !f.prune(closed) {
			for _, c := range closed {
				others = append(others, c.name)
			}
		}
		f.forgetFiles(n, others)
		if !lost {
			f.prune(dirs)
		} else {
			for _, c := range dirs {
				_ = f.server.EntryNotify(n.id, c.name)
			}
			n.toldAt.Store(int64(time.Since(epoch)))
			n.told.Store(searchers)
		}
		return
	}
	f.dropping.run(context.Background(), n, func() {
		// An operation may have done it before its reply. Another notice would void later replies.
		if !n.current() && (waited || !n.defersNotice()) {
			f.dropPages(n)
		}
	})
}

// forgetFiles has the kernel forget names in dir that are not those of directories, nor mounted on.
// One that is mounted on in this very moment is not told from the others, so this is for those that
// cannot be pruned.
func (f *fileSystem) forgetFiles(dir *node, names []string) {
	if len(names) == 0 {
		return
	}
	mounted := mountedNames()
	for _, name := range names {
		if !mounted[name] {
			_ = f.server.EntryNotify(dir.id, name)
		}
	}
}

// prune has the kernel forget those that nothing is in and nothing is mounted on. It reports
// whether the kernel has a notice for that.
func (f *fileSystem) prune(children []named) bool {
	ids := make([]uint64, len(children))
	for i, c := range children {
		ids[i] = c.id
	}
	for batch := range slices.Chunk(ids, pruneBatch) {
		if f.server.PruneNotify(batch) == fuse.ENOSYS {
			return false
		}
	}
	return true
}

// forgetAttrs has the kernel ask for the attributes of n before it uses them again. It
// waits for nothing.
func (f *fileSystem) forgetAttrs(n *node) {
	_ = f.server.InodeNotify(n.id, -1, 0)
}

// dropPages has the kernel forget data and attributes of n. Pages that programs have
// written by way of a mapping are written to us first. dropping runs it.
func (f *fileSystem) dropPages(n *node) {
	content := n.version()
	if d := n.file(); d != nil {
		d.Invalidate()
	}
	_ = f.server.InodeNotify(n.id, 0, 0)
	n.mu.Lock()
	n.pages = max(n.pages, content)
	n.mu.Unlock()
}
