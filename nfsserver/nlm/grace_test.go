// The end of the grace period, reported to file systems that hold locks of the previous process.

package nlm

import (
	"sync/atomic"
	"testing"
	"time"

	"github.com/nfsrdma/nfsrdma/nfsserver"
	"github.com/nfsrdma/nfsrdma/nfsserver/memfs"
	"github.com/nfsrdma/nfsrdma/test/must"
)

// A heldFS counts the calls of EndGrace.
type heldFS struct {
	nfsserver.FS
	ends atomic.Int32
}

func newHeldFS() *heldFS { return &heldFS{FS: memfs.New(memfs.Options{})} }

func (h *heldFS) EndGrace() { h.ends.Add(1) }

func (h *heldFS) OpenLocks(nfsserver.Ref) (nfsserver.FileLocks, error) {
	return nil, nfsserver.ErrStale
}

// TestEndOfGraceReachesFileSystems: no FS gets EndGrace before the end of the grace period. Then
// each FS gets it once, also one that is opened later.
func TestEndOfGraceReachesFileSystems(t *testing.T) {
	held, late, answers := newHeldFS(), newHeldFS(), make(chan error)
	srv, err := nfsserver.New(nfsserver.Options{Exports: []nfsserver.Export{{Name: "/held", FS: held}, {Name: "/plain", FS: memfs.New(memfs.Options{})},
		{Name: "/late", Open: func() (nfsserver.FS, error) { return late, <-answers }}}})
	if err != nil {
		t.Fatalf("nfsserver.New: %v", err)
	}
	defer srv.Close()
	s := newService(srv, Options{})
	defer s.Close()
	s.graceEnd.Store(new(time.Now().Add(time.Hour)))
	s.sweep(time.Now())
	if n := held.ends.Load(); n != 0 {
		t.Errorf("EndGrace is called %d times in the grace period", n)
	}
	s.graceEnd.Store(nil)
	s.sweep(time.Now())
	if held.ends.Load() == 0 {
		t.Error("EndGrace is never called")
	}
	answers <- nil
	must.Become(t, "EndGrace for the export opened later", func() bool {
		s.sweep(time.Now())
		return late.ends.Load() > 0
	})
}
