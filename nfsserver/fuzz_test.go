// Arbitrary arguments to every procedure: an error, never a panic.

package nfsserver_test

import (
	"context"
	"errors"
	"testing"

	"github.com/nfsrdma/nfsrdma/nfsserver"
	"github.com/nfsrdma/nfsrdma/nfsserver/memfs"
	"github.com/nfsrdma/nfsrdma/transport"
	"github.com/nfsrdma/nfsrdma/xdr"
	"github.com/nfsrdma/nfsrdma/xdr/nfs3"
)

// raw is octets as they are.
type raw []byte

func (r raw) EncodeXDR(e *xdr.Encoder)                { e.Raw(r) }
func (r *raw) DecodeXDR(d *xdr.Decoder)               { *r = d.Rest() }
func encoded(m xdr.Marshaler) []byte                  { e := xdr.NewEncoder(nil); m.EncodeXDR(e); return flat(e) }
func fuzzHandle(b []byte) (fh nfs3.FH)                { fh, _ = nfs3.MakeFH(b); return fh }
func fuzzName(fh nfs3.FH) nfs3.DirOpArgs              { return nfs3.DirOpArgs{Dir: fh, Name: []byte("name")} }
func seed(f *testing.F, proc uint32, m xdr.Marshaler) { f.Add(proc, encoded(m)) }

// flat puts the items of a message back in their places.
func flat(e *xdr.Encoder) (out []byte) {
	at := 0
	for _, it := range e.Items() {
		out = append(append(out, e.Bytes()[at:it.Off]...), it.Data...)
		out = append(out, make([]byte, xdr.Pad(len(it.Data)))...)
		at = it.Off
	}
	return append(out, e.Bytes()[at:]...)
}

// FuzzNFSArgs calls the procedures through the dispatcher, over TCP.
func FuzzNFSArgs(f *testing.F) {
	fs := memfs.New(memfs.Options{Limit: 16 << 20})
	srv, err := nfsserver.New(nfsserver.Options{Exports: []nfsserver.Export{{Name: "/x", FS: fs}}})
	if err != nil {
		f.Fatal(err)
	}
	svc, err := srv.Start(nfsserver.Listen{TCP: "127.0.0.1:0"})
	if err != nil {
		f.Fatal(err)
	}
	rpc, err := transport.DialTCP(context.Background(), svc.TCPAddr.String(), transport.ClientConfig{Cred: root})
	if err != nil {
		f.Fatal(err)
	}
	f.Cleanup(func() {
		rpc.Close()
		svc.Shutdown(context.Background())
		srv.Close()
	})
	var m raw
	call := func(prog, proc uint32, args []byte) error {
		p := transport.Proc{Prog: prog, Vers: 3, Proc: proc, MaxReply: 2 << 20}
		return rpc.Call(context.Background(), &p, raw(args), &m, nil, 0)
	}
	if err := call(100005, 1, append([]byte{0, 0, 0, 2}, "/x\x00\x00"...)); err != nil {
		f.Fatal(err)
	}
	// Status, length of the handle, handle.
	fh := fuzzHandle(append([]byte(nil), m[8:8+int(m[7])]...))
	at := fuzzName(fh)
	for _, proc := range []uint32{nfs3.ProcGetattr, nfs3.ProcReadlink, nfs3.ProcFsinfo, nfs3.ProcFsstat, nfs3.ProcPathconf} {
		seed(f, proc, &nfs3.GetattrArgs{FH: fh})
	}
	seed(f, nfs3.ProcSetattr, &nfs3.SetattrArgs{FH: fh, Attr: nfs3.Sattr{SetMode: true, Mode: 0o700}})
	for _, proc := range []uint32{nfs3.ProcLookup, nfs3.ProcRemove, nfs3.ProcRmdir} {
		seed(f, proc, &at)
	}
	seed(f, nfs3.ProcAccess, &nfs3.AccessArgs{FH: fh, Access: nfs3.AccessAll})
	seed(f, nfs3.ProcRead, &nfs3.ReadArgs{FH: fh, Count: 100})
	seed(f, nfs3.ProcCommit, &nfs3.CommitArgs{FH: fh})
	seed(f, nfs3.ProcWrite, &nfs3.WriteArgs{FH: fh, Count: 3, Data: []byte("abc")})
	seed(f, nfs3.ProcCreate, &nfs3.CreateArgs{Where: at})
	seed(f, nfs3.ProcMkdir, &nfs3.MkdirArgs{Where: at})
	seed(f, nfs3.ProcSymlink, &nfs3.SymlinkArgs{Where: at, Path: []byte("target")})
	seed(f, nfs3.ProcMknod, &nfs3.MknodArgs{Where: at, Type: nfs3.TypeFIFO})
	seed(f, nfs3.ProcRename, &nfs3.RenameArgs{From: at, To: at})
	seed(f, nfs3.ProcLink, &nfs3.LinkArgs{FH: fh, Link: at})
	seed(f, nfs3.ProcReaddir, &nfs3.ReaddirArgs{Dir: fh, Count: 4096})
	seed(f, nfs3.ProcReaddirplus, &nfs3.ReaddirplusArgs{Dir: fh, Dircount: 4096, Maxcount: 4096})
	f.Fuzz(func(t *testing.T, proc uint32, args []byte) {
		if len(args) > 1<<20 {
			return
		}
		prog := uint32(nfs3.Program)
		if proc >= 1<<31 {
			prog, proc = 100005, proc-1<<31 // MOUNT, with the high bit
		}
		err := call(prog, proc, args)
		// A panic in a procedure comes out as SYSTEM_ERR.
		if err != nil && !errors.Is(err, transport.ErrGarbageArgs) && !errors.Is(err, transport.ErrProcUnavail) {
			t.Fatalf("procedure %d: %v", proc, err)
		}
	})
}
