// The rig: servers of memory or a directory, over RDMA and TCP.

package nfsclient_test

import (
	"context"
	"iter"
	"net"
	"os"
	"testing"
	"time"

	"github.com/nfsrdma/nfsrdma/nfsclient"
	"github.com/nfsrdma/nfsrdma/nfsserver"
	"github.com/nfsrdma/nfsrdma/nfsserver/memfs"
	"github.com/nfsrdma/nfsrdma/nfsserver/osfs"
	"github.com/nfsrdma/nfsrdma/rnic"
	"github.com/nfsrdma/nfsrdma/rnic/iwarp"
	"github.com/nfsrdma/nfsrdma/transport"
)

const exportName = "/export/one"

// serveTrees serves file trees and returns the addresses for RDMA and TCP.
func serveTrees(t testing.TB, exports ...nfsserver.Export) (rdma, tcp string) {
	t.Helper()
	squash := nfsserver.Squash{All: true, UID: uint32(os.Geteuid()), GID: uint32(os.Getegid())}
	srv, err := nfsserver.New(nfsserver.Options{Exports: exports, Squash: squash, AsyncNames: true})
	if err != nil {
		t.Fatalf("nfsserver.New: %v", err)
	}
	rdma, tcp = servePrograms(t, srv.Programs()...)
	t.Cleanup(func() { srv.Close() })
	return rdma, tcp
}

// servePrograms serves any programs and returns the addresses for RDMA and TCP.
func servePrograms(t testing.TB, programs ...*transport.Program) (rdma, tcp string) {
	t.Helper()
	rpc := transport.NewServer(transport.ServerConfig{}, programs...)
	dev := iwarp.Open(rnic.DeviceConfig{})
	rl, err := dev.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatalf("listen: %v", err)
	}
	tl, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatalf("listen: %v", err)
	}
	done := make(chan struct{}, 2)
	go func() { rpc.ServeRDMA(dev, rl); done <- struct{}{} }()
	go func() { rpc.ServeTCP(tl); done <- struct{}{} }()
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		rpc.Shutdown(ctx)
		<-done
		<-done
	})
	return rl.Addr().String(), tl.Addr().String()
}

// dial connects over a transport; the connection ends with the test.
func dial(t testing.TB, tr nfsclient.Transport, rdma, tcp string, opt nfsclient.Options) *nfsclient.Client {
	t.Helper()
	addr := rdma
	if tr == nfsclient.TCP {
		addr = tcp
	}
	opt.Transport = tr
	c, err := nfsclient.Dial(t.Context(), addr, opt)
	if err != nil {
		t.Fatalf("dial: %v", err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

// each runs a test over every transport and kind of tree.
func each(t *testing.T, f func(t *testing.T, fsys *nfsclient.FS)) {
	for _, tr := range []nfsclient.Transport{nfsclient.RDMA, nfsclient.TCP} {
		for _, kind := range []string{"memfs", "osfs"} {
			t.Run(tr.String()+"/"+kind, func(t *testing.T) {
				t.Parallel()
				f(t, mountNew(t, tr, kind, nfsclient.Options{}))
			})
		}
	}
}

// mountNew mounts a new empty tree.
func mountNew(t testing.TB, tr nfsclient.Transport, kind string, opt nfsclient.Options) *nfsclient.FS {
	t.Helper()
	var tree nfsserver.FS
	if kind == "osfs" {
		o, err := osfs.New(t.TempDir(), osfs.Options{})
		if err != nil {
			t.Fatalf("osfs.New: %v", err)
		}
		tree = o
	} else {
		tree = memfs.New(memfs.Options{UID: uint32(os.Geteuid()), GID: uint32(os.Getegid())})
	}
	rdma, tcp := serveTrees(t, nfsserver.Export{Name: exportName, FS: tree})
	fsys, err := dial(t, tr, rdma, tcp, opt).Mount(t.Context(), exportName)
	if err != nil {
		t.Fatalf("mount: %v", err)
	}
	return fsys
}

// mountDir mounts a directory of this machine over TCP.
func mountDir(t testing.TB, dir string) *nfsclient.FS {
	t.Helper()
	tree, err := osfs.New(dir, osfs.Options{})
	if err != nil {
		t.Fatalf("osfs.New: %v", err)
	}
	rdma, tcp := serveTrees(t, nfsserver.Export{Name: exportName, FS: tree})
	fsys, err := dial(t, nfsclient.TCP, rdma, tcp, nfsclient.Options{}).Mount(t.Context(), exportName)
	if err != nil {
		t.Fatalf("mount: %v", err)
	}
	return fsys
}

// names yields the names in an FS's root, sorted.
func names(t testing.TB, fsys *nfsclient.FS) iter.Seq[string] {
	list, err := fsys.ReadDir(t.Context(), "/")
	if err != nil {
		t.Fatalf("read dir: %v", err)
	}
	return func(yield func(string) bool) {
		for _, e := range list {
			if !yield(e.Name()) {
				return
			}
		}
	}
}
