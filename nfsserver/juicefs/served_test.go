// A volume served over NFS, as clients see it.

package juicefs

import (
	"bytes"
	"context"
	"fmt"
	"math/rand"
	"sync"
	"testing"

	"github.com/nfsrdma/nfsrdma/nfsclient"
	"github.com/nfsrdma/nfsrdma/nfsserver"
	"github.com/nfsrdma/nfsrdma/xdr/nfs3"
)

// serve exports f as /vol on this machine, over TCP. The server's key is random, but handles use
// the volume's key.
func serve(t *testing.T, f *FS) (addr string, end func()) {
	t.Helper()
	service, end := serveAt(t, f, nfsserver.Listen{TCP: "127.0.0.1:0"})
	return service.TCPAddr.String(), end
}

// serveAt is like serve, at other addresses.
func serveAt(t *testing.T, f *FS, l nfsserver.Listen) (service *nfsserver.Service, end func()) {
	t.Helper()
	s, err := nfsserver.New(nfsserver.Options{Squash: nfsserver.Squash{All: true, UID: me.UID, GID: me.GID, GIDs: me.GIDs}, Exports: []nfsserver.Export{{Name: "/vol", FS: f}}})
	if err != nil {
		t.Fatalf("nfsserver.New: %v", err)
	}
	service, err = s.Start(l)
	if err != nil {
		t.Fatalf("Start: %v", err)
	}
	return service, func() {
		service.Shutdown(t.Context())
		s.Close() // also closes f
	}
}

func mount(t *testing.T, addr string) (*nfsclient.Client, *nfsclient.FS) {
	t.Helper()
	c, err := nfsclient.Dial(context.Background(), addr, nfsclient.Options{Transport: nfsclient.TCP})
	if err != nil {
		t.Fatalf("nfsclient.Dial: %v", err)
	}
	t.Cleanup(func() { c.Close() })
	fs, err := c.Mount(context.Background(), "/vol")
	if err != nil {
		t.Fatalf("Mount: %v", err)
	}
	return c, fs
}

// TestServed: trees that several clients have written are there after a restart, under the same
// handles.
func TestServed(t *testing.T) {
	l := Local{Dir: newDir(t), UID: me.UID, GID: me.GID}
	f := reopen(t, l)
	addr, end := serve(t, f)
	const clients, files = 3, 12
	ctx := context.Background()
	var wg sync.WaitGroup
	for i := range clients {
		_, fs := mount(t, addr)
		wg.Go(func() {
			rnd := rand.New(rand.NewSource(int64(i)))
			dir := fmt.Sprintf("client-%d", i)
			if err := fs.Mkdir(ctx, dir, 0o755); err != nil {
				t.Errorf("Mkdir: %v", err)
			}
			for k := range files {
				b := make([]byte, rnd.Intn(1<<20))
				rnd.Read(b)
				name := fmt.Sprintf("%s/%d", dir, k)
				if err := fs.WriteFile(ctx, name+"~", b, 0o644); err != nil {
					t.Errorf("WriteFile: %v", err)
				}
				if err := fs.Rename(ctx, name+"~", name); err != nil {
					t.Errorf("Rename: %v", err)
				}
			}
		})
	}
	wg.Wait()
	c, _ := mount(t, addr)
	root, err := c.MountHandle(ctx, "/vol")
	if err != nil {
		t.Fatalf("MountHandle: %v", err)
	}
	verf := unstable(t, c, root)
	end()

	addr, end = serve(t, reopen(t, l))
	defer end()
	c, fs := mount(t, addr)
	for i := range clients {
		rnd := rand.New(rand.NewSource(int64(i)))
		list, err := fs.ReadDir(ctx, fmt.Sprintf("client-%d", i))
		if err != nil || len(list) != files {
			t.Errorf("client %d has %d files, %v", i, len(list), err)
		}
		for k := range files {
			want := make([]byte, rnd.Intn(1<<20))
			rnd.Read(want)
			if got, err := fs.ReadFile(ctx, fmt.Sprintf("client-%d/%d", i, k)); err != nil || !bytes.Equal(got, want) {
				t.Errorf("client %d, file %d: %d bytes, want %d, %v", i, k, len(got), len(want), err)
			}
		}
	}
	if again := unstable(t, c, root); again == verf {
		t.Error("the write verifier is the same after a restart, though what was not committed is possibly lost")
	}
}

// unstable writes without a COMMIT, and returns the verifier. It also checks that FILE_SYNC in a
// call gives FILE_SYNC in the reply.
func unstable(t *testing.T, c *nfsclient.Client, root nfs3.FH) nfs3.Verf {
	t.Helper()
	ctx := context.Background()
	made, err := c.Create(ctx, root, "unstable", nfs3.Unchecked, nfs3.Sattr{}, nfs3.Verf{})
	if err != nil {
		t.Fatalf("Create: %v", err)
	}
	w, err := c.Write(ctx, made.FH, []byte("x"), 0, nfs3.Unstable)
	if err != nil || w.Committed != nfs3.Unstable {
		t.Errorf("UNSTABLE: %+v, %v", w, err)
	}
	s, err := c.Write(ctx, made.FH, []byte("y"), 1, nfs3.FileSync)
	if err != nil {
		t.Errorf("FILE_SYNC: %v", err)
	}
	if s.Committed != nfs3.FileSync || s.Verf != w.Verf {
		t.Errorf("FILE_SYNC: committed %v, verifier %x, want FILE_SYNC and %x", s.Committed, s.Verf, w.Verf)
	}
	return w.Verf
}
