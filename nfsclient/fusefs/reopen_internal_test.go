// Files kept open for repeated opens, with a server that does not answer.

package fusefs

import (
	"context"
	"fmt"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/hanwen/go-fuse/v2/fuse"

	"github.com/nfsrdma/nfsrdma/nfsclient"
	"github.com/nfsrdma/nfsrdma/nfsserver"
	"github.com/nfsrdma/nfsrdma/nfsserver/memfs"
	"github.com/nfsrdma/nfsrdma/test/machine"
	"github.com/nfsrdma/nfsrdma/transport"
)

// A silencedConn drops what the peer sends while silent is locked.
type silencedConn struct {
	net.Conn
	silent *sync.RWMutex
}

func (c silencedConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	c.silent.RLock()
	defer c.silent.RUnlock()
	return n, err
}

// withoutKernel returns a file system without a kernel. Its server answers unless silent is locked.
func withoutKernel(t *testing.T, silent *sync.RWMutex) *fileSystem {
	t.Helper()
	srv, err := nfsserver.New(nfsserver.Options{
		Exports: []nfsserver.Export{{Name: "/export", FS: memfs.New(memfs.Options{Mode: 0o777})}},
		Squash:  nfsserver.Squash{NoRootSquash: true, TrustLocal: true},
	})
	if err != nil {
		t.Fatalf("nfsserver.New: %v", err)
	}
	l, err := net.Listen("tcp", fmt.Sprint("127.0.0.1:", machine.Port(t)))
	if err != nil {
		t.Fatalf("listen: %v", err)
	}
	rpc := transport.NewServer(transport.ServerConfig{}, srv.Programs()...)
	go rpc.ServeTCP(l)
	t.Cleanup(func() { _ = rpc.Shutdown(context.Background()) })
	client, err := nfsclient.Dial(t.Context(), l.Addr().String(), nfsclient.Options{
		Transport: nfsclient.TCP, CallTimeout: transport.Hard, RetryTimeout: time.Hour,
		Dial: func(ctx context.Context, network, addr string) (net.Conn, error) {
			conn, err := new(net.Dialer).DialContext(ctx, network, addr)
			return silencedConn{conn, silent}, err
		},
	})
	if err != nil {
		t.Fatalf("dial: %v", err)
	}
	t.Cleanup(func() { _ = client.Close() })
	fs, err := client.Mount(t.Context(), "/export")
	if err != nil {
		t.Fatalf("mount: %v", err)
	}
	var opt Options
	if err := opt.setDefaults(); err != nil {
		t.Fatalf("set defaults: %v", err)
	}
	f, err := newFileSystem(t.Context(), fs, opt)
	if err != nil {
		t.Fatalf("new file system: %v", err)
	}
	return f
}

// keepOne opens a file for a thread that may open it again.
func keepOne(f *fileSystem, name string) *node {
	n := f.table.enter(handleOf(name), f.table.root, name, 0)
	f.table.open(n)
	f.reopens.keep(new(fuse.Caller), &reopenFile{n: n, who: &caller{client: f.client}})
	return n
}

// The end of a mount does not wait for a silent server to remove the hidden name of a file that is
// kept open.
func TestKeptFilesEndWithoutTheServer(t *testing.T) {
	var silent sync.RWMutex
	f := withoutKernel(t, &silent)
	silent.Lock()
	defer silent.Unlock()
	n := keepOne(f, hiddenPrefix+"000000000000000000000001")
	f.table.hideOpen(n)
	f.reopens.stop()
	if f.table.isOpen(n) {
		t.Error("the file counts as open after the end")
	}
}

// Threads that cannot be distinguished leave no file open forever.
func TestThreadKeepsOneFile(t *testing.T) {
	f := withoutKernel(t, new(sync.RWMutex))
	kept := make([]*node, 10)
	var wg sync.WaitGroup
	for i := range kept {
		wg.Go(func() { kept[i] = keepOne(f, fmt.Sprint(i)) })
	}
	wg.Wait()
	f.reopens.stop()
	for i, n := range kept {
		if f.table.isOpen(n) {
			t.Errorf("file %d counts as open after the end", i)
		}
	}
}

// The reply for an absent name has no node, even if an earlier attempt of the request found one.
func TestAbsentNameHasNoNode(t *testing.T) {
	f := withoutKernel(t, new(sync.RWMutex))
	f.opt.LookupCache = LookupAll
	defer f.stop()
	h, out := header(fuse.Caller{}, rootID), fuse.EntryOut{NodeId: rootID}
	if st := f.Lookup(nil, &h, "absent", &out); st != fuse.OK || out.NodeId != 0 {
		t.Errorf("got %v and node %d, want success and none", st, out.NodeId)
	}
}
