// The rig of the session's tests: a server of one export in memory, over RDMA and TCP.

package session

import (
	"context"
	"net"
	"os"
	"testing"
	"time"

	"github.com/nfsrdma/nfsrdma/cmd/internal/portprobe"
	"github.com/nfsrdma/nfsrdma/nfsserver"
	"github.com/nfsrdma/nfsrdma/nfsserver/memfs"
	"github.com/nfsrdma/nfsrdma/rnic"
	"github.com/nfsrdma/nfsrdma/rnic/iwarp"
	"github.com/nfsrdma/nfsrdma/transport"
)

// TestMain lets ports answer late, as they do on a busy machine.
func TestMain(m *testing.M) {
	portprobe.Wait = 5 * time.Minute
	os.Exit(m.Run())
}

// serve exports memory as /mem, and returns the beginnings of its URLs.
func serve(t *testing.T) (rdma, tcp string) {
	t.Helper()
	squash := nfsserver.Squash{All: true, UID: uint32(os.Geteuid()), GID: uint32(os.Getegid())}
	srv, err := nfsserver.New(nfsserver.Options{Squash: squash, AsyncNames: true, Exports: []nfsserver.Export{
		{Name: "/mem", FS: memfs.New(memfs.Options{UID: squash.UID, GID: squash.GID})},
	}})
	if err != nil {
		t.Fatal(err)
	}
	rpc := transport.NewServer(transport.ServerConfig{}, srv.Programs()...)
	dev := iwarp.Open(rnic.DeviceConfig{})
	rl, err := dev.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	tl, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
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
		srv.Close()
	})
	return "nfsrdma://" + rl.Addr().String(), "nfs://" + tl.Addr().String()
}
