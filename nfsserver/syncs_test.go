// Durability when the disk fails while several clients use it.

package nfsserver_test

import (
	"runtime"
	"sync"
	"syscall"
	"testing"

	"github.com/nfsrdma/nfsrdma/nfsserver"
	"github.com/nfsrdma/nfsrdma/xdr/nfs3"
)

// A failingDisk fails one Sync as a kernel does: data written before the failure is lost, and only
// the caller of that Sync gets the error.
type failingDisk struct {
	nfsserver.FS
	begun   chan struct{} // receives a value when the Sync that will fail has begun
	fail    chan struct{} // closed to make that Sync fail
	mu      sync.Mutex
	syncs   int
	taken   int // total bytes written
	written int // bytes not on the disk
	lost    int
}

func (d *failingDisk) WriteAt(c nfsserver.Cred, r nfsserver.Ref, p []byte, off uint64) (int, error) {
	d.mu.Lock()
	d.taken += len(p)
	d.written += len(p)
	d.mu.Unlock()
	return d.FS.WriteAt(c, r, p, off)
}

func (d *failingDisk) Sync(nfsserver.Ref, bool) error {
	d.mu.Lock()
	d.syncs++
	first := d.syncs == 1
	d.mu.Unlock()
	if first {
		close(d.begun)
		<-d.fail
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if first {
		d.lost, d.written = d.written, 0
		return syscall.EIO
	}
	d.written = 0
	return nil
}

// One client's sync loses another client's data. The other client must not get a success, neither
// from COMMIT nor from a stable WRITE (RFC 1813 §3.3.7, §3.3.21).
func TestLossIsReportedToAll(t *testing.T) {
	disk := &failingDisk{FS: memory(t), begun: make(chan struct{}), fail: make(chan struct{})}
	h := serve(t, nfsserver.Options{Squash: believeAll, Exports: []nfsserver.Export{{Name: "/e", FS: disk}}, AsyncNames: true})
	a, b := h.dial(root).mount("/e"), h.dial(root)
	fh := a.file(a.root, "f", 0o600)
	before := b.write(fh, 0, "data", nfs3.Unstable)

	var ca, cb nfs3.CommitRes
	var w nfs3.WriteRes
	var wg sync.WaitGroup
	answered := make(chan struct{})
	wg.Go(func() { ca = a.commit(fh); close(answered) })
	select {
	case <-disk.begun:
	case <-answered:
		t.Fatal("a COMMIT is answered with no sync")
	}
	wg.Go(func() { cb = b.commit(fh) })
	wg.Go(func() { w = b.write(fh, 4, "more", nfs3.FileSync) })
	for b.attr(fh).Size < 8 { // waits, so the write happens before the sync fails
		runtime.Gosched()
	}
	close(disk.fail)
	wg.Wait()
	a.want("the COMMIT that failed", ca.Status, nfs3.ErrIO)
	if cb.Status == nfs3.OK && cb.Verf == before.Verf {
		t.Error("a COMMIT tells a client that what was lost is safe")
	}
	a.want("the stable WRITE", w.Status, nfs3.OK)
	disk.mu.Lock() // the race detector sees no order through the network
	defer disk.mu.Unlock()
	if disk.lost != 8 || disk.written != 0 {
		t.Fatalf("%d bytes lost, %d not on disk", disk.lost, disk.written)
	}
	if disk.taken != 8+4 {
		t.Error("the stable WRITE was not done again after its data had been lost")
	}
}
