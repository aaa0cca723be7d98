// Notices to the kernel: they invalidate its caches.
//
// A notice for a name takes the kernel's lock of the directory. A notice for data waits for pages
// being read. An operation holding this lock or such a page would deadlock on its own notice, so
// another goroutine sends notices. Operations only drop pages inline, if a reply depends on this
// (size.go).

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

// notices queues notices that make the kernel forget a node's attributes and its pages or names.
// Waiting notices for one node are merged.
type notices struct {
	fs *fileSystem // set once

	mu         sync.Mutex     // guards all below
	waiting    map[*node]bool // whether the notice has waited for READs
	suppressed map[*node]int  // replies in flight to protect from notices, by node
	running    bool
	stopped    bool
	wg         sync.WaitGroup
}

func (q *notices) init(f *fileSystem) {
	q.fs, q.waiting, q.suppressed = f, make(map[*node]bool), make(map[*node]int)
}

// put queues a notice for n.
func (q *notices) put(n *node) { q.add(n, false) }

// add queues a notice for n; waited is set if the notice has waited for READs.
func (q *notices) add(n *node, waited bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.suppressed[n] > 0 {
		return
	}
	q.waiting[n] = waited || q.waiting[n]
	if !q.running && !q.stopped {
		q.running = true
		q.wg.Go(q.run)
	}
}

// forgetAbsent makes the kernel forget absent names of dir, in the background.
func (q *notices) forgetAbsent(dir *node, names []string) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.stopped {
		return
	}
	q.wg.Go(func() {
		names = slices.DeleteFunc(names, func(name string) bool { // keep the names made meanwhile
			c, _ := q.fs.table.child(dir, name)
			return c.n != nil
		})
		q.fs.forgetFiles(dir, names)
	})
}

// suppress drops notices for n until resume. The caller's reply or the next poll of open files
// replaces the dropped notices.
func (q *notices) suppress(n *node) {
	q.mu.Lock()
	q.suppressed[n]++
	q.mu.Unlock()
}

// resume undoes one suppress.
func (q *notices) resume(n *node) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.suppressed[n]--; q.suppressed[n] == 0 {
		delete(q.suppressed, n)
	}
}

// stuckAfter bounds the delay by one node's notices.
const stuckAfter = time.Second

// run sends notices until none wait. If a notice waits for a page, because the server does not
// answer the page's READ, another goroutine sends the rest.
func (q *notices) run() {
	for n, waited := q.next(); n != nil; n, waited = q.next() {
		handOver := time.AfterFunc(stuckAfter, q.startSender)
		q.fs.sendNotices(n, waited)
		if !handOver.Stop() {
			return
		}
	}
}

// next takes a waiting node from the queue. If it returns nil, the sending goroutine ends.
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

// startSender starts another sending goroutine.
func (q *notices) startSender() {
	q.mu.Lock()
	defer q.mu.Unlock()
	if !q.stopped {
		q.wg.Go(q.run)
	}
}

// stop ends the sending. The caller has closed the connection to the kernel, so no notice blocks.
func (q *notices) stop() {
	q.mu.Lock()
	q.stopped = true
	q.mu.Unlock()
	q.wg.Wait()
}

// changedByOthers makes the kernel forget an object after a foreign change.
func (f *fileSystem) changedByOthers(n *node) {
	f.counts.foreign.Add(1)
	f.notices.put(n)
}

// sendNotices sends the notices for n.
//
// Forgetting a directory's name unmounts file systems mounted on it or below, and programs inside
// lose their path. So directory names are left to time out, and only unused directories are pruned.
// If callers lost the right to search, the kernel has to forget all directory names.
func (f *fileSystem) sendNotices(n *node, waited bool) {
	if n.isDir() {
		searchers := n.searchers.Load()
		lost := n.searchersNotified.Load() != searchers
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
			n.searchersNotifiedAt.Store(int64(time.Since(clockOrigin)))
			n.searchersNotified.Store(searchers)
		}
		return
	}
	f.dropper.run(context.Background(), n, func() {
		// An operation may have dropped the outdated pages before its reply; dropping pages again
		// would void later pages.
		if !n.current() && (waited || !n.defersNotice()) {
			f.dropPages(n)
		}
	})
}

// forgetFiles makes the kernel forget names of non-directories in dir, except mount points. It may
// miss, and unmount, a mount of this very moment, so use it only if the kernel cannot prune.
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

// prune makes the kernel forget unused children without mounts. It reports whether the kernel has a
// prune notice.
func (f *fileSystem) prune(children []childName) bool {
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

// forgetAttrs makes the kernel fetch the attributes of n before their next use. It does not block.
func (f *fileSystem) forgetAttrs(n *node) {
	_ = f.server.InodeNotify(n.id, -1, 0)
}

// dropPages makes the kernel forget data and attributes of n. The kernel first sends us pages
// written through mappings. dropper runs dropPages.
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
