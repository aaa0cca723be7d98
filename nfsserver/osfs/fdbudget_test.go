// How one export's files and disks affect other exports.

package osfs

import (
	"fmt"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/nfsrdma/nfsrdma/test/must"
)

// limitNodes sets the limit of all caches for one test.
func limitNodes(t *testing.T, n int64) {
	t.Helper()
	limit := shared.limit.Load()
	t.Cleanup(func() { shared.limit.Store(limit) })
	shared.limit.Store(n)
}

// TestStuckCloseHoldsNobody: files of one export are closed to make room for another. If the first
// export's file system does not answer, the other export continues.
func TestStuckCloseHoldsNobody(t *testing.T) {
	a, b := t.TempDir(), t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		hung, other := newFS(t, a, Options{}), newFS(t, b, Options{})
		limitNodes(t, 64)
		for i := range 60 {
			createFile(t, hung, hung.Root(), fmt.Sprint(i), "")
		}
		answer := make(chan struct{})
		hung.sweep.stop()
		hung.sweep.init() // Close stops the sweeper again
		retire := hung.cache.retire
		hung.cache.slow, hung.cache.retire = true, func(n *node) {
			<-answer
			retire(n)
		}
		for i := range 100 {
			createFile(t, other, other.Root(), fmt.Sprint(i), "")
		}
		close(answer)
		synctest.Wait()
		if n := hung.cache.stuck.Load(); n != 0 {
			t.Errorf("it is taken for stuck when it answers again: %d", n)
		}
	})
}

// TestReclaimBesideNew: descriptors can run out, and be reclaimed, while New runs.
func TestReclaimBesideNew(t *testing.T) {
	dir, made := t.TempDir(), make(chan struct{})
	var reclaims sync.WaitGroup
	defer reclaims.Wait()
	defer close(made)
	reclaims.Go(func() {
		for {
			select {
			case <-made:
				return
			default:
				shared.reclaim(reclaimStep)
			}
		}
	})
	for range 200 {
		f, err := New(dir, Options{})
		must.Succeed(t, err)
		must.Succeed(t, f.Close())
	}
}

// TestSlowDiskSlowsItsWriters: if a writer writes more files than its disk can sync, a bounded
// number of them is open.
func TestSlowDiskSlowsItsWriters(t *testing.T) {
	f := newFS(t, t.TempDir(), Options{})
	neverSweeps(f)
	f.flush.running = true // stands for a flusher that waits for the disk, so the queue fills up
	t.Cleanup(func() { f.flush.done.Go(f.flushLoop) })
	limitNodes(t, 64)
	before := openFDs(t)
	for i := range 64 + 4*maxQueuedFlushes {
		createFile(t, f, f.Root(), fmt.Sprint(i), "x")
	}
	if n := openFDs(t) - before; n > 64+maxQueuedFlushes+8 {
		t.Errorf("%d files are open with a limit of 64 and %d that wait to be synced", n, maxQueuedFlushes)
	}
}
