// Isolation of exports: locks, write verifiers, and names across exports.

package nfsserver_test

import (
	"fmt"
	"sync"
	"syscall"
	"testing"

	"github.com/nfsrdma/nfsrdma/nfsserver"
	"github.com/nfsrdma/nfsrdma/xdr/nfs3"
)

// A hungFS blocks in the next methods until it is released.
type hungFS struct {
	nfsserver.FS
	hang chan struct{} // calls wait until it is closed
	once sync.Once
	in   chan struct{} // receives an element for each blocked call
}

func newHungFS(t *testing.T, fs nfsserver.FS) *hungFS {
	h := &hungFS{FS: fs, hang: make(chan struct{}), in: make(chan struct{}, 4096)}
	t.Cleanup(h.release)
	return h
}

func (h *hungFS) release() { h.once.Do(func() { close(h.hang) }) }

func (h *hungFS) wait() {
	select {
	case <-h.hang:
	default:
		h.in <- struct{}{}
		<-h.hang
	}
}

func (h *hungFS) Setattr(c nfsserver.Cred, r nfsserver.Ref, s *nfsserver.SetAttr) error {
	h.wait()
	return h.FS.Setattr(c, r, s)
}

// Calls that block on an export's disk hold only the locks of their own objects. Other objects in
// that export and in others stay unlocked.
func TestHungObjectsLockNoOthers(t *testing.T) {
	const hung, healthy = 40, 200
	disk := newHungFS(t, memory(t))
	h := serve(t, nfsserver.Options{Squash: believeAll, Exports: []nfsserver.Export{{Name: "/hung", FS: disk}, {Name: "/ok", FS: memory(t)}}})
	bad, ok := h.dial(root).mount("/hung"), h.dial(root).mount("/ok")
	chmod := nfs3.SetattrArgs{Attr: nfs3.Sattr{SetMode: true, Mode: 0o600}}
	var calls sync.WaitGroup
	for i := range hung {
		args := chmod
		args.FH = bad.file(bad.root, fmt.Sprint("f", i), 0o644)
		calls.Go(func() { bad.try(nfs3.ProcSetattr, &args, &nfs3.SetattrRes{}) })
	}
	for range hung {
		<-disk.in
	}
	for i := range healthy {
		f := ok.file(ok.root, fmt.Sprint("f", i), 0o644)
		ok.want("SETATTR beside a hung export", ok.setattr(f, chmod.Attr).Status, nfs3.OK)
	}
	for i := range healthy {
		// WRITE also takes the lock of its file
		f := bad.file(bad.root, fmt.Sprint("g", i), 0o644)
		bad.want("WRITE beside hung files", bad.write(f, 0, "x", nfs3.Unstable).Status, nfs3.OK)
	}
	disk.release()
	calls.Wait()
}

// An interruptedDisk calls the function during before each Sync.
type interruptedDisk struct {
	nfsserver.FS
	mu     sync.Mutex
	during func()
	syncs  int
	err    error
}

func (d *interruptedDisk) Sync(r nfsserver.Ref, dataOnly bool) error {
	d.mu.Lock()
	during, err := d.during, d.err
	d.syncs++
	d.mu.Unlock()
	if during != nil {
		during()
	}
	if err != nil {
		return err
	}
	return d.FS.Sync(r, dataOnly)
}

func (d *interruptedDisk) set(during func(), err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.during, d.err, d.syncs = during, err, 0
}

// count returns how many Syncs have begun since set was called.
func (d *interruptedDisk) count() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.syncs
}

// A failed Sync changes the write verifier of its own export only. WRITEs to another export neither
// fail nor have to be repeated.
func TestFailedSyncIsOfOneExport(t *testing.T) {
	bad, good := &interruptedDisk{FS: memory(t)}, &interruptedDisk{FS: memory(t)}
	h := serve(t, nfsserver.Options{Squash: believeAll, Exports: []nfsserver.Export{{Name: "/bad", FS: bad}, {Name: "/ok", FS: good}}})
	b, ok := h.dial(root).mount("/bad"), h.dial(root).mount("/ok")
	f, g := b.file(b.root, "f", 0o644), ok.file(ok.root, "g", 0o644)
	badVerf, okVerf := b.write(f, 0, "x", nfs3.Unstable).Verf, ok.write(g, 0, "x", nfs3.Unstable).Verf
	if badVerf == okVerf {
		t.Error("two exports with one verifier")
	}
	bad.set(nil, syscall.EIO)
	good.set(func() { b.want("COMMIT on a disk that fails", b.commit(f).Status, nfs3.ErrIO) }, nil)
	for i := range 20 {
		res := ok.write(g, uint64(i), "x", nfs3.FileSync)
		ok.want("FILE_SYNC WRITE while syncs of another export fail", res.Status, nfs3.OK)
		if res.Committed != nfs3.FileSync || res.Verf != okVerf {
			t.Fatalf("FILE_SYNC WRITE: committed %v, verifier %x, want FILE_SYNC and %x", res.Committed, res.Verf, okVerf)
		}
	}
	if n := good.count(); n != 20 {
		t.Errorf("%d syncs for 20 WRITEs", n)
	}
	if res := b.write(f, 0, "x", nfs3.Unstable); res.Verf == badVerf {
		t.Error("the verifier is the old one after failed syncs")
	}
	if res := ok.commit(g); res.Verf != okVerf {
		t.Errorf("COMMIT: %v, verifier changed: %v", res.Status, res.Verf != okVerf)
	}
}
