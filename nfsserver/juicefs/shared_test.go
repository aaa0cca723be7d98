// Several servers of one volume: the clients of each see changes made at the other, and handles are
// valid at both.

package juicefs

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"sync"
	"syscall"
	"testing"

	"github.com/nfsrdma/nfsrdma/nfsclient"
	"github.com/nfsrdma/nfsrdma/nfsserver"
	"github.com/nfsrdma/nfsrdma/xdr/nfs3"
)

// A side is one of two servers of a volume, with a client.
type side struct {
	fs   *FS
	c    *nfsclient.Client
	root nfs3.FH // the root's handle, as this server returns it
}

// TestTwoServers serves one volume with two servers.
func TestTwoServers(t *testing.T) {
	onServices(t, func(t *testing.T, url string) {
		var sides [2]*side
		for i := range sides {
			f := openShared(t, Options{Meta: url})
			addr, end := serve(t, f)
			t.Cleanup(end)
			c, _ := mount(t, addr)
			root, err := c.MountHandle(t.Context(), "/vol")
			if err != nil {
				t.Fatalf("MountHandle: %v", err)
			}
			sides[i] = &side{f, c, root}
		}
		a, b := sides[0], sides[1]
		// the root of a new volume belongs to user root
		if err := a.fs.Setattr(nfsserver.Cred{}, a.fs.Root(), &nfsserver.SetAttr{Mask: nfsserver.SetMode, Mode: 0o777}); err != nil {
			t.Fatalf("Setattr: %v", err)
		}
		t.Run("handles", func(t *testing.T) { sharedHandles(t, a, b) })
		t.Run("contents", func(t *testing.T) { sharedContents(t, a, b) })
		t.Run("verifiers", func(t *testing.T) { sharedVerifiers(t, a, b) })
		t.Run("names", func(t *testing.T) { sharedNames(t, a, b) })
		t.Run("locks", func(t *testing.T) { sharedLocks(t, a, b) })
		t.Run("before", func(t *testing.T) { sharedBefore(t, a) })
	})
}

// create makes a file and returns its handle.
func (s *side) create(t *testing.T, name string) nfs3.FH {
	t.Helper()
	made, err := s.c.Create(t.Context(), s.root, name, nfs3.Guarded, nfs3.Sattr{SetMode: true, Mode: 0o666}, nfs3.Verf{})
	if err != nil {
		t.Fatalf("Create: %v", err)
	}
	return made.FH
}

func sharedHandles(t *testing.T, a, b *side) {
	if a.root != b.root {
		t.Error("the root has another handle at the other server")
	}
	fh := a.create(t, "handle")
	if at, err := b.c.Getattr(t.Context(), fh); err != nil || at.Type != nfs3.TypeReg {
		t.Errorf("a handle of one server, at the other: %+v, %v", at, err)
	}
	if err := b.c.Remove(t.Context(), a.root, "handle"); err != nil {
		t.Errorf("Remove: %v", err)
	}
	if _, err := a.c.Getattr(t.Context(), fh); !errors.Is(err, nfs3.ErrStale) {
		t.Errorf("removed at the other server: %v", err)
	}
}

// sharedContents checks: after a COMMIT, or a WRITE with FILE_SYNC, the next READ at the other
// server has the data.
func sharedContents(t *testing.T, a, b *side) {
	fh := a.create(t, "contents")
	got := make([]byte, 100)
	for i := range 30 {
		from, to := a, b
		if i%2 == 1 {
			from, to = b, a
		}
		want := fmt.Sprintf("version %3d", i)
		how := nfs3.FileSync
		if i%3 == 0 {
			how = nfs3.Unstable
		}
		w, err := from.c.Write(t.Context(), fh, []byte(want), 0, how)
		if err == nil && how == nfs3.Unstable {
			var verf nfs3.Verf
			if verf, err = from.c.Commit(t.Context(), fh, 0, 0); verf != w.Verf {
				t.Error("the verifier has changed")
			}
		}
		if err != nil {
			t.Fatal(err)
		}
		if n, _, err := to.c.Read(t.Context(), fh, got, 0); err != nil || string(got[:n]) != want {
			t.Fatalf("READ at the other server: %q, %v, want %q", got[:n], err, want)
		}
	}
}

// sharedVerifiers checks: a client that has written at one server, and commits at another, must
// write again.
func sharedVerifiers(t *testing.T, a, b *side) {
	fh := a.create(t, "verifier")
	w, err := a.c.Write(t.Context(), fh, []byte("x"), 0, nfs3.Unstable)
	if err != nil {
		t.Fatalf("Write: %v", err)
	}
	verf, err := b.c.Commit(t.Context(), fh, 0, 0)
	if err != nil || verf == w.Verf {
		t.Errorf("COMMIT at the other server: %v, verifiers %x and %x", err, w.Verf, verf)
	}
}

// sharedNames checks: if several calls make or rename the same name at both servers, one succeeds.
// Both servers see the outcome at once.
func sharedNames(t *testing.T, a, b *side) {
	for i := range 20 {
		name := fmt.Sprint("made-", i)
		var made [2]bool
		var wg sync.WaitGroup
		for k, s := range []*side{a, b} {
			wg.Go(func() {
				_, err := s.c.Create(context.Background(), s.root, name, nfs3.Guarded, nfs3.Sattr{SetMode: true, Mode: 0o666}, nfs3.Verf{})
				if made[k] = err == nil; err != nil && !errors.Is(err, fs.ErrExist) {
					t.Error(err)
				}
			})
		}
		wg.Wait()
		if made[0] == made[1] {
			t.Fatalf("%s: made at one server %v, at the other %v", name, made[0], made[1])
		}
		if err := a.c.Rename(t.Context(), a.root, name, a.root, "target"); err != nil {
			t.Fatalf("Rename: %v", err)
		}
		old, err := b.c.Lookup(t.Context(), b.root, "target")
		if err != nil {
			t.Fatalf("Lookup: %v", err)
		}
		now, err := a.c.Lookup(t.Context(), a.root, "target")
		if err != nil || now.FH != old.FH {
			t.Errorf("after RENAME the servers find two files: %v", err)
		}
		if _, err := b.c.Lookup(t.Context(), b.root, name); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s after RENAME: %v", name, err)
		}
	}
}

// sharedLocks checks: a lock that one server holds for its clients is refused to the other server.
func sharedLocks(t *testing.T, a, b *side) {
	a.create(t, "locked")
	open := func(s *side) nfsserver.FileLocks {
		t.Helper()
		r, _, err := s.fs.Lookup(me, s.fs.Root(), "locked")
		if err != nil {
			t.Fatalf("Lookup: %v", err)
		}
		l, err := s.fs.OpenLocks(r)
		if err != nil {
			t.Fatalf("OpenLocks: %v", err)
		}
		t.Cleanup(func() { l.Close() })
		return l
	}
	la, lb := open(a), open(b)
	if err := la.Set(0, 9, nfsserver.Exclusive); err != nil {
		t.Fatalf("Set: %v", err)
	}
	if err := lb.Set(5, 20, nfsserver.Shared); !errors.Is(err, syscall.EAGAIN) {
		t.Errorf("a lock that another server holds: %v", err)
	}
	start, end, of, err := lb.Test(5, 20, nfsserver.Shared)
	if err != nil || of != nfsserver.Exclusive {
		t.Errorf("Test: %v, %v, want an exclusive lock", of, err)
	}
	if start != 0 || end != 9 {
		t.Errorf("Test: %d to %d, want 0 to 9", start, end)
	}
	if err := lb.Set(10, 20, nfsserver.Exclusive); err != nil {
		t.Errorf("bytes beside it: %v", err)
	}
	if err := la.Set(0, 9, nfsserver.Unlocked); err != nil {
		t.Fatalf("Set: %v", err)
	}
	if err := lb.Set(5, 20, nfsserver.Shared); err != nil {
		t.Errorf("after it was released: %v", err)
	}
}

// sharedBefore checks: replies omit a directory's attributes from before a change, because the
// other server may have changed it in between.
func sharedBefore(t *testing.T, a *side) {
	args := nfs3.MkdirArgs{Where: nfs3.DirOpArgs{Dir: a.root, Name: []byte("before")}, Attr: nfs3.Sattr{SetMode: true, Mode: 0o755}}
	var res nfs3.MkdirRes
	if err := a.c.Do(t.Context(), nfs3.ProcMkdir, &args, &res, &res.Status, nil, 0); err != nil {
		t.Fatalf("Do: %v", err)
	}
	if res.DirWcc.Before.Present || !res.DirWcc.After.Present {
		t.Errorf("%+v", res.DirWcc)
	}
}

// A volume in a directory has only one server, which makes all changes, so it is not shared.
func TestVolumeInDirectoryIsNotShared(t *testing.T) {
	f := openNew(t, Local{})
	defer closeFS(t, f)
	if f.Info().Shared {
		t.Error("shared")
	}
}
