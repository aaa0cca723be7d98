// Another project's NFS client, over TCP, sees our client's writes over RDMA, and the other way
// round.

package stack

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"sync/atomic"
	"testing"

	gonfs "github.com/vmware/go-nfs-client/nfs"
	gorpc "github.com/vmware/go-nfs-client/nfs/rpc"
	"github.com/vmware/go-nfs-client/nfs/util"

	"github.com/nfsrdma/nfsrdma/nfsclient"
	"github.com/nfsrdma/nfsrdma/test/machine"
	"github.com/nfsrdma/nfsrdma/test/stack/rig"
	"github.com/nfsrdma/nfsrdma/transport"
	"github.com/nfsrdma/nfsrdma/xdr/rpcbind"
)

// portMapper answers GETPORT with the port of the NFS server at host: the
// client finds servers in no other way.
func portMapper(t *testing.T, host string) (setPort func(string)) {
	t.Helper()
	l, err := net.Listen("tcp", host+":111")
	if err != nil {
		t.Fatalf("net.Listen: %v", err)
	}
	var port atomic.Uint32
	prog := &transport.Program{Name: "portmap", Number: 100000, Version: 2, Procs: []transport.Procedure{
		rpcbind.ProcGetport: {Name: "GETPORT", Inline: true, Idempotent: true, Run: func(c *transport.Call) error {
			var m rpcbind.Mapping
			m.DecodeXDR(c.Args)
			c.Res.Uint32(port.Load())
			return c.ArgsErr()
		}},
	}}
	srv := transport.NewServer(transport.ServerConfig{}, prog)
	done := make(chan error, 1)
	go func() { done <- srv.ServeTCP(l) }()
	t.Cleanup(func() {
		srv.Shutdown(bg)
		<-done
	})
	return func(addr string) {
		a, err := netip.ParseAddrPort(addr)
		if err != nil {
			t.Fatalf("netip.ParseAddrPort: %v", err)
		}
		port.Store(uint32(a.Port()))
	}
}

// independent mounts the export of a new server with both clients.
func independent(t *testing.T, dir string) (ours *nfsclient.FS, theirs *gonfs.Target) {
	t.Helper()
	util.DefaultLogger.SetDebug(false)
	const host = "127.0.0.1"
	setPort := portMapper(t, host)
	s := rig.Start(t, rig.Config{Dir: dir, Host: host})
	setPort(s.TCP)
	m, err := gonfs.DialMount(host)
	if err != nil {
		t.Fatalf("DialMount: %v", err)
	}
	t.Cleanup(func() { m.Close() })
	v, err := m.Mount(rig.Export, gorpc.NewAuthUnix("independent", uint32(os.Geteuid()), uint32(os.Getegid())).Auth())
	if err != nil {
		t.Fatalf("Mount: %v", err)
	}
	t.Cleanup(func() { v.Close() })
	return s.Mount(t, nfsclient.Options{}), v
}

// drain reads a file of the other client to its end.
func drain(f *gonfs.File) ([]byte, error) {
	defer f.Close()
	b := make([]byte, 0, 2<<20)
	for {
		n, err := f.Read(b[len(b):min(len(b)+70_000, cap(b))])
		b = b[:len(b)+n]
		if err == io.EOF {
			return b, nil
		}
		if err != nil {
			return b, err
		}
	}
}

func TestIndependentClient(t *testing.T) {
	if !machine.Apart(t) {
		return
	}
	for _, dir := range []bool{false, true} {
		t.Run(map[bool]string{false: "memfs", true: "osfs"}[dir], func(t *testing.T) {
			rig.NoLeaks(t)
			top := ""
			if dir {
				top = t.TempDir()
			}
			ours, theirs := independent(t, top)
			for _, n := range sizes {
				ourWrite(t, ours, theirs, n)
				theirWrite(t, ours, theirs, n)
			}
			names(t, ours, theirs)
		})
	}
}

// ourWrite writes by RDMA and lets the other client read.
func ourWrite(t *testing.T, ours *nfsclient.FS, theirs *gonfs.Target, n int) {
	t.Helper()
	name, want := fmt.Sprintf("ours-%d", n), randomBytes(uint64(n), n)
	if err := ours.WriteFile(bg, name, want, 0o640); err != nil {
		t.Fatalf("WriteFile: %v", err)
	}
	info, _, err := theirs.Lookup("/" + name)
	if err != nil || info.Size() != int64(n) {
		t.Fatalf("%s: %v, %v", name, info, err)
	}
	f, err := theirs.Open("/" + name)
	if err != nil {
		t.Fatalf("Open: %v", err)
	}
	if got, err := drain(f); err != nil || !bytes.Equal(got, want) {
		t.Errorf("%s: they read %d bytes, %v", name, len(got), err)
	}
}

// theirWrite lets the other client write and reads by RDMA.
func theirWrite(t *testing.T, ours *nfsclient.FS, theirs *gonfs.Target, n int) {
	t.Helper()
	name, want := fmt.Sprintf("theirs-%d", n), randomBytes(uint64(n)+1, n)
	f, err := theirs.OpenFile("/"+name, 0o644)
	if err != nil {
		t.Fatalf("OpenFile: %v", err)
	}
	for rest := want; len(rest) > 0; {
		m, err := f.Write(rest)
		if err != nil {
			t.Fatalf("f.Write: %v", err)
		}
		rest = rest[m:]
	}
	if err := f.Close(); err != nil {
		t.Fatalf("f.Close: %v", err)
	}
	if got, err := ours.ReadFile(bg, name); err != nil || !bytes.Equal(got, want) {
		t.Errorf("%s: we read %d bytes, %v", name, len(got), err)
	}
}

// names lets each client make and remove names, and the other check.
func names(t *testing.T, ours *nfsclient.FS, theirs *gonfs.Target) {
	t.Helper()
	if err := ours.Symlink(bg, "over/there", "link"); err != nil {
		t.Fatalf("Symlink: %v", err)
	}
	if f, err := theirs.Open("/link"); err != nil {
		t.Errorf("Open: %v", err)
	} else if target, err := f.Readlink(); err != nil || target != "over/there" {
		t.Errorf("they read the link as %q, %v", target, err)
	}
	if _, err := theirs.Mkdir("/dir", 0o755); err != nil {
		t.Fatalf("Mkdir: %v", err)
	}
	for i := range 300 {
		if err := ours.WriteFile(bg, "dir/"+fileName(i), []byte("x"), 0o644); err != nil {
			t.Fatalf("WriteFile: %v", err)
		}
	}
	list, err := theirs.ReadDirPlus("/dir")
	if err != nil || len(list) != 302 {
		t.Fatalf("they list %d names, %v", len(list), err)
	}
	for _, e := range list {
		if e.FileName != "." && e.FileName != ".." && e.Size() != 1 {
			t.Errorf("they see %q with %d bytes", e.FileName, e.Size())
		}
	}
	if err := theirs.RemoveAll("/dir"); err != nil {
		t.Errorf("RemoveAll: %v", err)
	}
	if _, err := ours.Stat(bg, "dir"); err == nil {
		t.Error("they removed the directory and we still see it")
	}
}
