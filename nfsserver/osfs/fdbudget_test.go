// Costs of one export's files and disks for the others.

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

// TestStuckCloseHoldsNobody: if one export's files are closed to make room for another's, and their
// file system does not answer, the other export continues.
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
		hung.sweep.init() // to be stopped again by Close
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

// TestSlowDiskSlowsItsWriters: a writer of more files than its disk can sync has a bounded number
// of them open.
func TestSlowDiskSlowsItsWriters(t *testing.T) {
	f := newFS(t, t.TempDir(), Options{})
	neverSweeps(f)
	f.flush.running = true // a flusher that waits for the disk, with a queue that fills up
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
