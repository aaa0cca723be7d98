// Exports of a server with many.

package nfsclient_test

import (
	"context"
	"fmt"
	"net"
	"strings"
	"testing"

	"github.com/nfsrdma/nfsrdma/nfsclient"
	"github.com/nfsrdma/nfsrdma/nfsserver"
	"github.com/nfsrdma/nfsrdma/nfsserver/memfs"
	"github.com/nfsrdma/nfsrdma/transport"
)

// The list of exports has no practical bound, over RDMA and over TCP.
func TestManyExportsAreListed(t *testing.T) {
	const n = 5000
	list := make([]nfsserver.Export, n)
	for i := range list {
		list[i] = nfsserver.Export{Name: fmt.Sprintf("/export/%s/%d", strings.Repeat("long-name", 15), i), FS: memfs.New(memfs.Options{})}
	}
	rdma, tcp := serveTrees(t, list...)
	for _, tr := range []nfsclient.Transport{nfsclient.RDMA, nfsclient.TCP} {
		c := dial(t, tr, rdma, tcp, nfsclient.Options{})
		got, err := c.Exports(t.Context())
		if err != nil || len(got) != n {
			t.Errorf("%v: %d exports, %v; want %d", tr, len(got), err, n)
		}
		if f, err := c.Mount(t.Context(), list[n-1].Name); err != nil || f == nil {
			t.Errorf("%v: mount of the last export: %v", tr, err)
		}
	}
}

// MOUNT calls go to the named host, and NFS calls to the server.
func TestMountHost(t *testing.T) {
	rdma, tcp := serveTrees(t, nfsserver.Export{Name: "/here", FS: memfs.New(memfs.Options{})})
	srv, err := nfsserver.New(nfsserver.Options{Exports: []nfsserver.Export{{Name: "/there", FS: memfs.New(memfs.Options{})}}})
	if err != nil {
		t.Fatalf("nfsserver.New: %v", err)
	}
	l, err := net.Listen("tcp", "127.0.0.2:0")
	if err != nil {
		t.Fatalf("listen: %v", err)
	}
	rpc, done := transport.NewServer(transport.ServerConfig{}, srv.Programs()...), make(chan struct{})
	go func() { rpc.ServeTCP(l); close(done) }()
	t.Cleanup(func() {
		rpc.Shutdown(context.Background())
		<-done
		srv.Close()
	})
	port := l.Addr().(*net.TCPAddr).Port
	for _, tr := range []nfsclient.Transport{nfsclient.RDMA, nfsclient.TCP} {
		c := dial(t, tr, rdma, tcp, nfsclient.Options{MountHost: "127.0.0.2", MountPort: port})
		got, err := c.Exports(t.Context())
		if err != nil {
			t.Errorf("%v: exports: %v", tr, err)
		}
		if len(got) != 1 || got[0].Dir != "/there" {
			t.Errorf("%v: exports %v, want /there", tr, got)
		}
	}
}
