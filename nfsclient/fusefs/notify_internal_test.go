// Notices to a kernel that only counts them.

package fusefs

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/hanwen/go-fuse/v2/fuse"

	"github.com/nfsrdma/nfsrdma/nfsclient/internal/datapath"
	"github.com/nfsrdma/nfsrdma/xdr/nfs3"
)

// A notedKernel counts the files whose pages are dropped. Each StoreNotify calls the function in
// stored.
type notedKernel struct {
	notifier
	dropped int
	stored  func()
}

func (k *notedKernel) InodeNotify(_ uint64, off, length int64) fuse.Status {
	if off == 0 && length == 0 {
		k.dropped++
	}
	return fuse.OK
}

func (k *notedKernel) StoreNotify(uint64, uint64, []byte) fuse.Status {
	k.stored()
	return fuse.OK
}

// noted returns a file system with a file of the given size, which another client has changed. The
// kernel has old pages, and was shown the size shown.
func noted(size, shown uint64) (*notedKernel, *fileSystem, *node) {
	k, n := new(notedKernel), &node{seen: true, shown: shown}
	now := time.Now()
	n.attrs = attrs{attr: nfs3.Fattr{Type: nfs3.TypeReg, Size: size}, known: true, sent: now, since: now, timeo: time.Hour, content: 1}
	f := &fileSystem{server: k, regs: timeouts{time.Second, time.Hour}}
	f.notices.init(f)
	return k, f, n
}

// wantDropped waits until all goroutines are idle, and compares how often pages were dropped.
func (k *notedKernel) wantDropped(t *testing.T, want int, when string) {
	t.Helper()
	synctest.Wait()
	if k.dropped != want {
		t.Errorf("got %d notices that drop pages %s, want %d", k.dropped, when, want)
	}
}

// If two opens see the same change, the second does not drop pages that programs have used since
// the first.
func TestOpensAtOnceDropPagesOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k, f, n := noted(5, 9)
		first := make(chan struct{})
		go f.dropper.run(t.Context(), n, func() { <-first })
		synctest.Wait()
		for range 2 {
			go f.showSize(t.Context(), nil, n)
		}
		k.wantDropped(t, 0, "before another change")
		close(first)
		k.wantDropped(t, 1, "of two opens")
	})
}

// A file is truncated here while the kernel stores the last byte of the larger one: the larger size
// is ignored.
func TestCutBesideTheLastByte(t *testing.T) {
	for name, cut := range map[string]func(n *node){
		"SETATTR":         func(n *node) { n.replaced(5) },
		"short READ":      func(n *node) { n.shrank(5) },
		"truncating open": func(n *node) { n.emptied() },
	} {
		k, f, n := noted(100, 7)
		k.stored = func() { cut(n) }
		f.storeLast(n, 100, []byte("b"))
		if n.shown > 5 {
			t.Errorf("%s: got a size of at least %d in the kernel, want at most 5", name, n.shown)
		}
	}
}

// A notice waits for the READs that are in flight when it becomes due, but not for later ones.
func TestNoticeIsPutOffOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k, f, n := noted(5, 9)
		before := n.beginRead()
		f.notices.put(n)
		k.wantDropped(t, 0, "during a READ")
		later := n.beginRead()
		f.endRead(n, before)
		k.wantDropped(t, 1, "after the READ, during a later one")
		f.endRead(n, later)
		k.wantDropped(t, 1, "after both")
	})
}

// While a READ is in flight, polls of open files drop no pages, because the kernel would ignore a
// short reply.
func TestPollsWaitForReads(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k, f, n := noted(5, 9)
		f.add(&handle{n: n, data: new(datapath.Handle)})
		group := n.beginRead()
		f.pollOpenFiles()
		time.Sleep(time.Minute) // simulated time
		k.wantDropped(t, 0, "during a READ")
		f.endRead(n, group)
		time.Sleep(time.Minute)
		k.wantDropped(t, 1, "after it")
		f.poller.stop()
	})
}
