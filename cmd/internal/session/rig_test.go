// The rig of the session's tests: a server with one export in memory, over RDMA and TCP.

package session

import (
	"context"
	"os"
	"testing"
	"time"

	"github.com/nfsrdma/nfsrdma/cmd/internal/portprobe"
	"github.com/nfsrdma/nfsrdma/nfsserver"
	"github.com/nfsrdma/nfsrdma/nfsserver/memfs"
)

// TestMain lets ports answer late, as they do on a busy machine.
func TestMain(m *testing.M) {
	portprobe.Wait = 5 * time.Minute
	os.Exit(m.Run())
}

// serve exports memory as /mem, and returns how its URLs begin.
func serve(t *testing.T) (rdma, tcp string) {
	t.Helper()
	squash := nfsserver.Squash{All: true, UID: uint32(os.Geteuid()), GID: uint32(os.Getegid())}
	return serveExport(t, squash, nfsserver.Export{Name: "/mem", FS: memfs.New(memfs.Options{UID: squash.UID, GID: squash.GID})})
}

// serveExport is like serve, with the caller's export and squash.
func serveExport(t *testing.T, squash nfsserver.Squash, x nfsserver.Export) (rdma, tcp string) {
	t.Helper()
	srv, err := nfsserver.New(nfsserver.Options{Squash: squash, AsyncNames: true, Exports: []nfsserver.Export{x}})
	if err != nil {
		t.Fatalf("New: %v", err)
	}
	service, err := srv.Start(nfsserver.Listen{TCP: "127.0.0.1:0", RDMA: "127.0.0.1:0"})
	if err != nil {
		t.Fatalf("srv.Start: %v", err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		service.Shutdown(ctx)
		srv.Close()
	})
	return "nfsrdma://" + service.RDMAAddr.String(), "nfs://" + service.TCPAddr.String()
}
