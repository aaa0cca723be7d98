// The rig of the command tests: the program in-process, servers over RDMA and TCP.

package main

import (
	"bytes"
	"context"
	"net"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nfsrdma/nfsrdma/cmd/internal/bench"
	"github.com/nfsrdma/nfsrdma/cmd/internal/child"
	"github.com/nfsrdma/nfsrdma/cmd/internal/doctor"
	"github.com/nfsrdma/nfsrdma/cmd/internal/jsontest"
	"github.com/nfsrdma/nfsrdma/cmd/internal/portprobe"
	"github.com/nfsrdma/nfsrdma/nfsserver"
	"github.com/nfsrdma/nfsrdma/nfsserver/memfs"
	"github.com/nfsrdma/nfsrdma/nfsserver/osfs"
	"github.com/nfsrdma/nfsrdma/rnic"
	"github.com/nfsrdma/nfsrdma/rnic/iwarp"
	"github.com/nfsrdma/nfsrdma/transport"
)

// TestMain lets the test binary be the child processes of commands. Time limits are longer than a
// user's, for a busy machine.
func TestMain(m *testing.M) {
	if slices.Contains(os.Environ(), child.Env) {
		main()
		return
	}
	completeTimeout, doctor.Slow, portprobe.Wait, bench.UDPOverdue = time.Minute, 60, 5*time.Minute, time.Minute
	os.Exit(m.Run())
}

// serve exports memory as /mem and a directory as /dir. It returns how their URLs begin:
// nfsrdma://host:port and nfs://host:port.
func serve(t testing.TB) (rdma, tcp string) {
	t.Helper()
	return serveDir(t, t.TempDir())
}

// serveDir is like serve, with the caller's directory as /dir.
func serveDir(t testing.TB, dir string) (rdma, tcp string) {
	t.Helper()
	tree, err := osfs.New(dir, osfs.Options{})
	if err != nil {
		t.Fatalf("New: %v", err)
	}
	squash := nfsserver.Squash{All: true, UID: uint32(os.Geteuid()), GID: uint32(os.Getegid())}
	mem := memfs.New(memfs.Options{UID: squash.UID, GID: squash.GID})
	srv, err := nfsserver.New(nfsserver.Options{Squash: squash, AsyncNames: true, Exports: []nfsserver.Export{
		{Name: "/mem", FS: mem}, {Name: "/dir", FS: tree},
	}})
	if err != nil {
		t.Fatalf("New: %v", err)
	}
	t.Cleanup(func() { srv.Close() })
	return servePrograms(t, srv.Programs()...)
}

// servePrograms serves any programs over RDMA and TCP.
func servePrograms(t testing.TB, programs ...*transport.Program) (rdma, tcp string) {
	t.Helper()
	rpc := transport.NewServer(transport.ServerConfig{}, programs...)
	dev := iwarp.Open(rnic.DeviceConfig{})
	rl, err := dev.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatalf("Listen: %v", err)
	}
	tl, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatalf("net.Listen: %v", err)
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
	return "nfsrdma://" + rl.Addr().String(), "nfs://" + tl.Addr().String()
}

// both runs a test over each transport; base is how the server's URLs begin.
func both(t *testing.T, f func(t *testing.T, base string)) {
	rdma, tcp := serve(t)
	for name, base := range map[string]string{"rdma": rdma, "tcp": tcp} {
		t.Run(name, func(t *testing.T) { f(t, base) })
	}
}

// nfs runs the program, fails the test if the program fails, and returns its output.
func nfs(t *testing.T, args ...string) string {
	t.Helper()
	out, errOut, code := try(t, args...)
	if code != 0 {
		t.Fatalf("nfsrdma %s: exit code %d\n%s", strings.Join(args, " "), code, errOut)
	}
	return out
}

func try(t *testing.T, args ...string) (out, errOut string, code int) {
	t.Helper()
	var o, e bytes.Buffer
	code = run(t.Context(), args, strings.NewReader(""), &o, &e)
	if slices.Contains(args, "--json") {
		jsontest.Documented(t, "../../docs", "nfsrdma", args, o.String())
	}
	return o.String(), e.String(), code
}
