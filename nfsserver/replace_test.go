// Replacing exports while clients are active.

package nfsserver_test

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nfsrdma/nfsrdma/internal/tally"
	"github.com/nfsrdma/nfsrdma/nfsserver"
	"github.com/nfsrdma/nfsrdma/nfsserver/exports"
	"github.com/nfsrdma/nfsrdma/xdr/mount3"
	"github.com/nfsrdma/nfsrdma/xdr/nfs3"
)

// A watchedFS reports its Close, and fails later calls.
type watchedFS struct {
	nfsserver.FS
	t      *testing.T
	closed chan struct{}
}

func (w *watchedFS) Close() error {
	close(w.closed)
	return w.FS.Close()
}

func (w *watchedFS) Getattr(r nfsserver.Ref) (nfsserver.Attr, error) {
	select {
	case <-w.closed:
		w.t.Error("GETATTR of a file system that is closed")
	default:
	}
	return w.FS.Getattr(r)
}

// rules returns the only export in a text.
func rules(t *testing.T, text string) *exports.Export {
	t.Helper()
	f, err := exports.Parse("exports", []byte(text))
	if err != nil {
		t.Fatalf("exports.Parse: %v", err)
	}
	return f.Exports[0]
}

// TestReplaceUnderLoad: exports are added, removed, and change their rules. Meanwhile no call on an
// export that stays fails. Each removed file system is closed after its last call.
func TestReplaceUnderLoad(t *testing.T) {
	stay := ruled(t, "/stay *(rw,insecure)\n")
	h := serve(t, nfsserver.Options{Squash: remote, Exports: stay})
	var done atomic.Bool
	var calls atomic.Int64
	var wg sync.WaitGroup
	for name, c := range h.dialFrom("127.0.0.1", user) {
		c.mount("/stay")
		f := c.file(c.root, name+"0", 0o666)
		for i := range 4 {
			wg.Go(func() {
				from, to := fmt.Sprintf("%s-%d", name, i), fmt.Sprintf("%s-%d-moved", name, i)
				for !done.Load() {
					c.want("CREATE", c.create(c.root, from, nfs3.Unchecked, nfs3.Sattr{}, nfs3.Verf{}).Status, nfs3.OK)
					c.want("RENAME", c.rename(c.root, from, c.root, to).Status, nfs3.OK)
					c.want("GETATTR", c.getattr(f).Status, nfs3.OK)
					c.want("WRITE", c.write(f, uint64(i), "x", nfs3.FileSync).Status, nfs3.OK)
					res, _ := c.read(f, 0, 1)
					c.want("READ", res.Status, nfs3.OK)
					c.want("LOOKUP", c.lookup(c.root, to).Status, nfs3.OK)
					calls.Add(6)
				}
			})
		}
	}
	other := h.dialFrom("127.0.0.1", user)["tcp"]
	for i := range 30 {
		seen := calls.Load()
		come := &watchedFS{memory(t), t, make(chan struct{})}
		more := []nfsserver.Export{{Name: "/stay", Rules: rules(t, fmt.Sprintf("/stay *(rw,insecure) 10.0.0.%d(ro)", i))},
			{Name: "/come", FS: come, Rules: rules(t, "/come *(rw,insecure)")}}
		if err := h.svc.Replace(more); err != nil {
			t.Fatalf("Replace more: %v", err)
		}
		other.mount("/come")
		other.want("GETATTR of what came", other.getattr(other.root).Status, nfs3.OK)
		if err := h.svc.Replace([]nfsserver.Export{{Name: "/stay", Rules: rules(t, "/stay *(rw,insecure)")}}); err != nil {
			t.Fatalf("Replace: %v", err)
		}
		other.want("GETATTR of what went", other.getattr(other.root).Status, nfs3.ErrStale)
		<-come.closed
		for calls.Load() == seen {
			time.Sleep(time.Millisecond)
		}
	}
	done.Store(true)
	wg.Wait()
}

// TestReplaceTakesRightsAway: Replace takes rights away at once, from existing connections too.
func TestReplaceTakesRightsAway(t *testing.T) {
	h := serve(t, nfsserver.Options{Squash: remote, Exports: ruled(t, "/x 127.0.0.1(rw,insecure) 127.0.0.2(rw,insecure)")})
	one, two := h.dialFrom("127.0.0.1", user), h.dialFrom("127.0.0.2", user)
	for name := range one {
		one[name].mount("/x")
		f := one[name].file(one[name].root, name, 0o666)
		two[name].mount("/x")
		two[name].want("WRITE", two[name].write(f, 0, "x", nfs3.Unstable).Status, nfs3.OK)
		if err := h.svc.Replace([]nfsserver.Export{{Name: "/x", Rules: rules(t, "/x 127.0.0.1(ro,insecure)")}}); err != nil {
			t.Fatalf("Replace: %v", err)
		}
		one[name].want("WRITE of a client that may now read", one[name].write(f, 0, "x", nfs3.Unstable).Status, nfs3.ErrROFS)
		two[name].want("WRITE of a client that is none any more", two[name].write(f, 0, "x", nfs3.Unstable).Status, nfs3.ErrAcces)
		if err := h.svc.Replace([]nfsserver.Export{{Name: "/x", Rules: rules(t, "/x *(rw,insecure)")}}); err != nil {
			t.Fatalf("Replace: %v", err)
		}
		two[name].want("WRITE of a client that is one again", two[name].write(f, 0, "x", nfs3.Unstable).Status, nfs3.OK)
	}
}

// TestReplaceReopens: handles of a directory stay valid when another FS serves it.
func TestReplaceReopens(t *testing.T) {
	dir := t.TempDir()
	h := serve(t, nfsserver.Options{Squash: remote, Exports: []nfsserver.Export{{Name: "/x", FS: diskAt(t, dir), Rules: rules(t, "/x *(rw,insecure,no_root_squash)")}}})
	c := h.dial(root).mount("/x")
	f := c.file(c.root, "f", 0o644)
	if err := h.svc.Replace([]nfsserver.Export{{Name: "/x", FS: diskAt(t, dir), Rules: rules(t, "/x *(rw,insecure,no_root_squash,crossmnt)")}}); err != nil {
		t.Fatalf("Replace: %v", err)
	}
	c.want("GETATTR", c.getattr(f).Status, nfs3.OK)
	c.want("RENAME", c.rename(c.root, "f", c.root, "g").Status, nfs3.OK)
}

// TestReplaceRefuses: if the list of exports has a mistake, nothing changes.
func TestReplaceRefuses(t *testing.T) {
	h := serve(t, nfsserver.Options{Squash: remote, Exports: ruled(t, "/x *(rw,insecure)")})
	c := h.dial(user).mount("/x")
	for _, list := range [][]nfsserver.Export{nil, {{Name: "x", FS: memory(t)}}, {{Name: "/x"}, {Name: "/y"}}, {{Name: "/x"}, {Name: "/x"}}} {
		if err := h.svc.Replace(list); err == nil {
			t.Errorf("%v was taken", list)
		}
	}
	c.want("GETATTR", c.getattr(c.root).Status, nfs3.OK)
	if st := c.mnt("/y").Status; st != mount3.ErrNoEnt {
		t.Error(st)
	}
}

// A slowFS blocks in GETATTR.
type slowFS struct {
	*watchedFS
	asked, answer chan struct{}
}

func (s *slowFS) Getattr(r nfsserver.Ref) (nfsserver.Attr, error) {
	s.asked <- struct{}{}
	<-s.answer
	return s.watchedFS.Getattr(r)
}

// TestReplaceWaitsForCalls: a removed file system stays open while a call uses it, and nothing else
// waits for that call.
func TestReplaceWaitsForCalls(t *testing.T) {
	slow := &slowFS{&watchedFS{memory(t), t, make(chan struct{})}, make(chan struct{}), make(chan struct{})}
	list := ruled(t, "/stay *(rw,insecure)\n/slow *(rw,insecure)\n")
	list[1].FS = slow
	h := serve(t, nfsserver.Options{Squash: remote, Exports: list})
	c, root := h.dial(user).mount("/stay"), h.srv.RootHandle("/slow")
	done := make(chan nfs3.Status)
	go func() { done <- h.dial(user).getattr(root).Status }()
	<-slow.asked
	if err := h.svc.Replace([]nfsserver.Export{{Name: "/stay", Rules: rules(t, "/stay *(rw,insecure)")}}); err != nil {
		t.Fatalf("Replace: %v", err)
	}
	c.want("GETATTR of what went", c.getattr(root).Status, nfs3.ErrStale)
	c.want("GETATTR of what stays", c.getattr(c.root).Status, nfs3.OK)
	time.Sleep(100 * time.Millisecond) // time for several checks whether the export is in use
	select {
	case <-slow.closed:
		t.Error("closed with a call in it")
	default:
	}
	close(slow.answer)
	if st := <-done; st != nfs3.OK {
		t.Errorf("the call that was under way: %v", st)
	}
	<-slow.closed
}

// A countingFS has counted one decision of the mechanism "guess".
type countingFS struct{ nfsserver.FS }

func (countingFS) Mechanisms() tally.Table { return tally.Table{"guess": {Won: 1}} }

// TestMechanismsOfExports: the sum over all exports includes the decisions of replaced exports,
// each once.
func TestMechanismsOfExports(t *testing.T) {
	export := func() nfsserver.Export {
		return nfsserver.Export{Name: "/a", FS: countingFS{memory(t)}}
	}
	h := serve(t, nfsserver.Options{Squash: remote, Exports: []nfsserver.Export{export(), {Name: "/b", FS: memory(t)}}})
	if got, want := h.svc.Mechanisms()["guess"], (tally.Counts{Won: 1}); got != want {
		t.Errorf("of one that counts: got %+v, want %+v", got, want)
	}
	if err := h.svc.Replace([]nfsserver.Export{export()}); err != nil {
		t.Fatalf("replace the exports: %v", err)
	}
	want := tally.Counts{Won: 2}
	for end := time.Now().Add(100 * time.Millisecond); time.Now().Before(end); time.Sleep(time.Millisecond) {
		// the sum is the same during and after the replaced export's close
		if got := h.svc.Mechanisms()["guess"]; got != want {
			t.Fatalf("of one that counts, and one before it: got %+v, want %+v", got, want)
		}
	}
}
