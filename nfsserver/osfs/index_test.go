// The index of inodes, and the walk that fills it.

package osfs

import (
	"errors"
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"github.com/nfsrdma/nfsrdma/nfsserver"
	"github.com/nfsrdma/nfsrdma/test/must"
	"golang.org/x/sync/errgroup"
)

// TestWalkFindsWhatTheIndexCannotHold: a tree is much larger than the index. After a restart every
// handle still leads to its file, also when many are used at once.
func TestWalkFindsWhatTheIndexCannotHold(t *testing.T) {
	dir := t.TempDir()
	refs := map[string]nfsserver.Ref{}
	f := newFS(t, dir, Options{noKernelHandles: true})
	f.index.max = 20
	for d := range 10 {
		sub := fmt.Sprint("d", d)
		at, _, err := f.Mkdir(me, f.Root(), sub, &nfsserver.SetAttr{Mask: nfsserver.SetMode, Mode: 0o755})
		must.Succeed(t, err)
		for i := range 20 {
			name := fmt.Sprint(i)
			refs[filepath.Join(sub, name)] = createFile(t, f, at, name, filepath.Join(sub, name))
		}
	}
	f.Close()
	f = newFS(t, dir, Options{noKernelHandles: true})
	f.index.max = 20
	var g errgroup.Group
	g.SetLimit(16)
	for path, r := range refs {
		g.Go(func() error {
			b := make([]byte, 64)
			n, err := f.ReadAt(me, r, b, 0)
			for errors.Is(err, nfsserver.ErrBusy) { // a client would retry
				time.Sleep(time.Millisecond)
				n, err = f.ReadAt(me, r, b, 0)
			}
			if err != nil || string(b[:n]) != path {
				return fmt.Errorf("the handle of %s reads %q, %w", path, b[:n], err)
			}
			return nil
		})
	}
	must.Succeed(t, g.Wait())
	f.index.mu.Lock()
	defer f.index.mu.Unlock()
	if n := len(f.index.hints); n > 20 {
		t.Errorf("the index holds %d hints, more than 20", n)
	}
}

// TestRemovedIsNotLookedFor: the handle of a file that this server has removed is stale without a
// walk.
func TestRemovedIsNotLookedFor(t *testing.T) {
	f := newFS(t, t.TempDir(), Options{noKernelHandles: true})
	r := createFile(t, f, f.Root(), "x", "x")
	f.cache.closeAll()
	must.Succeed(t, f.Remove(me, f.Root(), "x"))
	f.index.walk.debt, f.index.walk.asOf = time.Hour, time.Now() // makes the index refuse walks
	mustStale(t, f, r, "removed")
}
