// An independent client, go-nfs-client, against the server over TCP.

package nfsserver_test

import (
	"bytes"
	"context"
	"io"
	"net"
	"os"
	"testing"

	"github.com/nfsrdma/nfsrdma/nfsserver"
	"github.com/nfsrdma/nfsrdma/test/machine"
	"github.com/nfsrdma/nfsrdma/transport"
	gonfs "github.com/vmware/go-nfs-client/nfs"
	"github.com/vmware/go-nfs-client/nfs/rpc"
)

// TestGoNFSClient uses all operations that go-nfs-client has.
func TestGoNFSClient(t *testing.T) {
	if !machine.Apart(t) {
		return
	}
	for name, mk := range map[string]func(*testing.T) nfsserver.FS{"memfs": memory, "osfs": disk} {
		t.Run(name, func(t *testing.T) { useGoNFS(t, mountGoNFS(t, mk(t))) })
	}
}

func useGoNFS(t *testing.T, target *gonfs.Target) {
	if _, err := target.Mkdir("d", 0o755); err != nil {
		t.Fatalf("Mkdir: %v", err)
	}
	data := bytes.Repeat([]byte("all work and no play "), 10000)
	w, err := target.OpenFile("/d/f", 0o644)
	if err != nil {
		t.Fatalf("OpenFile: %v", err)
	}
	if n, err := io.Copy(w, bytes.NewReader(data)); err != nil || n != int64(len(data)) {
		t.Fatalf("write: %d, %v", n, err)
	}
	if err := w.Close(); err != nil {
		t.Fatalf("Close: %v", err)
	}
	r, err := target.Open("/d/f")
	if err != nil {
		t.Fatalf("Open: %v", err)
	}
	if got, err := io.ReadAll(r); err != nil || !bytes.Equal(got, data) {
		t.Errorf("read: %d bytes, %v", len(got), err)
	}
	if st, _, err := target.Lookup("/d/f"); err != nil || st.Size() != int64(len(data)) {
		t.Errorf("lookup: %v, %v", st, err)
	}
	for i := range 100 {
		if _, err := target.Create("/d/"+string(rune('A'+i%26))+string(rune('a'+i/26)), 0o600); err != nil {
			t.Fatalf("Create: %v", err)
		}
	}
	if list, err := target.ReadDirPlus("/d"); err != nil || len(list) != 103 {
		t.Errorf("readdirplus: %d names, %v", len(list), err)
	}
	if _, _, err := target.Lookup("/d/nothing"); !os.IsNotExist(err) {
		t.Errorf("lookup of nothing: %v", err)
	}
	if err := target.RmDir("/d"); err == nil {
		t.Error("rmdir of a full directory: no error")
	}
	if err := target.RemoveAll("/d"); err != nil {
		t.Errorf("remove all: %v", err)
	}
	if list, err := target.ReadDirPlus("/"); err != nil || len(list) != 2 {
		t.Errorf("readdirplus: %d names, %v", len(list), err)
	}
}

// portmapHost is the server's address for go-nfs-client, which always queries a port mapper at port
// 111 there.
const portmapHost = "127.0.0.1"

// portmapper returns a program that answers GETPORT (RFC 1833 §3.2) with one port for all programs.
func portmapper(port int) *transport.Program {
	getport := func(c *transport.Call) error {
		for range 4 {
			c.Args.Uint32()
		}
		c.Res.Uint32(uint32(port))
		return c.ArgsErr()
	}
	return &transport.Program{Name: "portmap", Number: 100000, Version: 2, Procs: []transport.Procedure{3: {Name: "GETPORT", Run: getport, Idempotent: true}}}
}

// mountGoNFS serves fs at portmapHost and mounts it with go-nfs-client.
func mountGoNFS(t *testing.T, fs nfsserver.FS) *gonfs.Target {
	t.Helper()
	pm, err := net.Listen("tcp", portmapHost+":111")
	if err != nil {
		t.Fatalf("net.Listen: %v", err)
	}
	srv, err := nfsserver.New(nfsserver.Options{Squash: believeAll, Exports: []nfsserver.Export{{Name: "/x", FS: fs}}})
	if err != nil {
		t.Fatalf("nfsserver.New: %v", err)
	}
	svc, err := srv.Start(nfsserver.Listen{TCP: portmapHost + ":0"})
	if err != nil {
		t.Fatalf("Start: %v", err)
	}
	names := transport.NewServer(transport.ServerConfig{}, portmapper(svc.TCPAddr.(*net.TCPAddr).Port))
	go names.ServeTCP(pm)
	t.Cleanup(func() {
		names.Shutdown(context.Background())
		svc.Shutdown(context.Background())
		srv.Close()
	})
	m, err := gonfs.DialMount(portmapHost)
	if err != nil {
		t.Fatalf("gonfs.DialMount: %v", err)
	}
	t.Cleanup(func() { m.Close() })
	target, err := m.Mount("/x", rpc.NewAuthUnix("test", 0, 0).Auth())
	if err != nil {
		t.Fatalf("Mount: %v", err)
	}
	t.Cleanup(func() { target.Close() })
	return target
}
