// The frequent procedures allocate nothing.

package nfsserver_test

import (
	"net"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nfsrdma/nfsrdma/nfsserver"
	"github.com/nfsrdma/nfsrdma/nfsserver/exports"
	"github.com/nfsrdma/nfsrdma/nfsserver/memfs"
	"github.com/nfsrdma/nfsrdma/transport"
	"github.com/nfsrdma/nfsrdma/xdr"
	"github.com/nfsrdma/nfsrdma/xdr/nfs3"
	"github.com/nfsrdma/nfsrdma/xdr/oncrpc"
)

// TestAllocations runs procedures as the dispatcher does, without a connection.
func TestAllocations(t *testing.T) {
	eachFS(t, func(c *client, h *host) {
		f, written := c.file(c.root, "f", 0o644), c.file(c.root, "written", 0o644)
		time.Sleep(100 * time.Millisecond) // osfs caches nothing about a file that has just changed
		procs := h.srv.Programs()[0].Procs
		for proc, args := range map[uint32]xdr.Marshaler{
			nfs3.ProcGetattr: &nfs3.GetattrArgs{FH: f},
			nfs3.ProcAccess:  &nfs3.AccessArgs{FH: f, Access: nfs3.AccessAll},
			nfs3.ProcLookup:  &nfs3.LookupArgs{Dir: c.root, Name: []byte("f")},
			nfs3.ProcWrite:   &nfs3.WriteArgs{FH: written, Count: 8192, Data: make([]byte, 8192)},
		} {
			e := xdr.NewEncoder(nil)
			args.EncodeXDR(e)
			msg, items := e.Bytes(), e.Items()
			buf := make([]byte, 0, 512)
			call := transport.Call{Cred: root, Args: xdr.NewDecoder(nil), Res: xdr.NewEncoder(nil)}
			run := func() {
				call.Args.Reset(msg, items)
				call.Res.Reset(buf)
				if err := procs[proc].Run(&call); err != nil || call.Res.Bytes()[3] != 0 {
					t.Fatalf("%s: %v, %x", procs[proc].Name, err, call.Res.Bytes())
				}
			}
			run()
			if n := testing.AllocsPerRun(100, run); n != 0 {
				t.Errorf("%s: %v allocations", procs[proc].Name, n)
			}
		}
	})
}

// TestRulesAllocateNothing: calls allocate nothing when a connection's rights are cached and its
// users are known.
func TestRulesAllocateNothing(t *testing.T) {
	h := serve(t, nfsserver.Options{Squash: remote, Exports: ruled(t, "/x 10.0.0.0/8 127.0.0.0/8(rw,insecure)\n/y *\n")})
	e := xdr.NewEncoder(nil)
	(&nfs3.GetattrArgs{FH: h.srv.RootHandle("/x")}).EncodeXDR(e)
	buf := make([]byte, 0, 512)
	call := transport.Call{Cred: root, Remote: &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)}, Memo: new(atomic.Value), Args: xdr.NewDecoder(nil), Res: xdr.NewEncoder(nil)}
	program := h.srv.Programs()[0]
	proc := &program.Procs[nfs3.ProcGetattr]
	users := uint32(0)
	run := func() {
		users++
		call.Cred.UID = users % 2 * 1000 // several users, because users are counted too
		call.Args.Reset(e.Bytes(), nil)
		call.Res.Reset(buf)
		if st := program.Authorize(&call); st != oncrpc.AuthOK {
			t.Fatal(st)
		}
		if err := proc.Run(&call); err != nil || call.Res.Bytes()[3] != 0 {
			t.Fatalf("%v, %x", err, call.Res.Bytes())
		}
	}
	if n := testing.AllocsPerRun(100, run); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// BenchmarkRules measures GETATTR with and without rules, below the connection.
func BenchmarkRules(b *testing.B) {
	for name, rules := range map[string]string{"none": "", "network": "/x 10.0.0.0/8 127.0.0.0/8(rw,insecure)"} {
		b.Run(name, func(b *testing.B) {
			list := []nfsserver.Export{{Name: "/x", FS: memfs.New(memfs.Options{})}}
			if rules != "" {
				f, err := exports.Parse("exports", []byte(rules))
				if err != nil {
					b.Fatalf("exports.Parse: %v", err)
				}
				list[0].Rules = f.Exports[0]
			}
			srv, err := nfsserver.New(nfsserver.Options{Exports: list, Squash: nfsserver.Squash{TrustLocal: true}})
			if err != nil {
				b.Fatalf("nfsserver.New: %v", err)
			}
			defer srv.Close()
			e := xdr.NewEncoder(nil)
			(&nfs3.GetattrArgs{FH: srv.RootHandle("/x")}).EncodeXDR(e)
			buf := make([]byte, 0, 512)
			call := transport.Call{Cred: root, Remote: &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)}, Memo: new(atomic.Value), Args: xdr.NewDecoder(nil), Res: xdr.NewEncoder(nil)}
			program := srv.Programs()[0]
			proc := &program.Procs[nfs3.ProcGetattr]
			for b.Loop() {
				call.Args.Reset(e.Bytes(), nil)
				call.Res.Reset(buf)
				program.Authorize(&call)
				if err := proc.Run(&call); err != nil {
					b.Fatalf("Run: %v", err)
				}
			}
		})
	}
}
