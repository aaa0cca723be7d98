// Shutdown while a call hangs in a file system.

package nfsserver_test

import (
	"context"
	"sync/atomic"
	"testing"

	"github.com/nfsrdma/nfsrdma/nfsserver"
	"github.com/nfsrdma/nfsrdma/xdr/nfs3"
)

// A hangingFS counts as quick, but from some time on its Getattr hangs.
type hangingFS struct {
	nfsserver.FS
	hangs         atomic.Bool
	entered, ends chan struct{}
	closed        atomic.Bool
}

func (f *hangingFS) Getattr(r nfsserver.Ref) (nfsserver.Attr, error) {
	if f.hangs.CompareAndSwap(true, false) {
		close(f.entered)
		<-f.ends
	}
	return f.FS.Getattr(r)
}

func (f *hangingFS) Close() error {
	f.closed.Store(true)
	return f.FS.Close()
}

// TestShutdownKeepsTheFSOfAHungCall: a call hangs in the goroutine that received it, in no lane.
// Shutdown reports the export, and Close leaves its FS open, because the call may still use it.
func TestShutdownKeepsTheFSOfAHungCall(t *testing.T) {
	f := &hangingFS{FS: memory(t), entered: make(chan struct{}), ends: make(chan struct{})}
	h := serve(t, nfsserver.Options{Squash: believeAll, Exports: []nfsserver.Export{{Name: "/x", FS: f}}})
	c := h.dial(root).mount("/x")
	f.hangs.Store(true)
	go func() { _ = c.try(nfs3.ProcGetattr, &nfs3.GetattrArgs{FH: c.root}, new(nfs3.GetattrRes)) }()
	<-f.entered
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	err := h.svc.Shutdown(ctx)
	_ = h.srv.Close() // also reports the export
	closed := f.closed.Load()
	close(f.ends)
	h.svc = nil
	if err == nil {
		t.Error("Shutdown: no error, want one about the export")
	}
	if closed {
		t.Error("the FS was closed under a running call")
	}
}
