// A scripted peer's RPC calls and expected replies.

package peer

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"sync/atomic"

	"github.com/nfsrdma/nfsrdma/chunks"
	"github.com/nfsrdma/nfsrdma/rnic/iwarp/term"
	"github.com/nfsrdma/nfsrdma/rpcrdma"
	"github.com/nfsrdma/nfsrdma/xdr"
	"github.com/nfsrdma/nfsrdma/xdr/mount3"
	"github.com/nfsrdma/nfsrdma/xdr/nfs3"
	"github.com/nfsrdma/nfsrdma/xdr/oncrpc"
)

// Grant is the default number of credits that a server grants.
const Grant = rpcrdma.DefaultCredits

var xids atomic.Uint32

// XID returns a unique XID.
func XID() uint32 { return 0xc0de0000 + xids.Add(1) }

// Stream returns the bytes of a call with an AUTH_SYS credential, with the items inline.
func Stream(xid, prog, vers, proc uint32, args xdr.Marshaler) []byte {
	sys := oncrpc.AuthSys{Machine: []byte("scripted")}
	body := xdr.NewEncoder(nil)
	sys.EncodeXDR(body)
	h := oncrpc.CallHeader{XID: xid, Prog: prog, Vers: vers, Proc: proc,
		Cred: oncrpc.OpaqueAuth{Flavor: oncrpc.FlavorSys, Body: body.Bytes()}}
	e := xdr.NewEncoder(nil)
	h.EncodeXDR(e)
	if args != nil {
		args.EncodeXDR(e)
	}
	m := chunks.Message{Stream: e.Bytes(), Items: e.Items()}
	return bytes.Join(m.Gather(nil, 0), nil)
}

// Reduced returns the bytes of Stream without the items, and the Position of the first item.
func Reduced(xid, proc uint32, args xdr.Marshaler) (stream []byte, position uint32) {
	e := xdr.NewEncoder(nil)
	args.EncodeXDR(e)
	head := Stream(xid, nfs3.Program, nfs3.Version, proc, nil)
	position = uint32(len(head) + e.Items()[0].Off)
	return append(head, e.Bytes()...), position
}

// NFS returns the bytes of an NFS call.
func NFS(xid, proc uint32, args xdr.Marshaler) []byte {
	return Stream(xid, nfs3.Program, nfs3.Version, proc, args)
}

// Words returns 32-bit words as bytes.
func Words(w ...uint32) (b []byte) {
	for _, v := range w {
		b = binary.BigEndian.AppendUint32(b, v)
	}
	return b
}

// Header returns a call's transport header with the lists added by f.
func Header(xid uint32, proc rpcrdma.Proc, f func(*rpcrdma.Header)) []byte {
	h := rpcrdma.Header{XID: xid, Version: 1, Credits: 32, Proc: proc}
	if f != nil {
		f(&h)
	}
	return h.Append(nil)
}

// Inline returns an RDMA_MSG with a call without chunks.
func Inline(xid uint32, stream []byte) []byte {
	return append(Header(xid, rpcrdma.ProcMsg, nil), stream...)
}

// A Reply is a parsed reply.
type Reply struct {
	rpcrdma.Header
	RPC oncrpc.ReplyHeader // the RPC header, if the reply has one inline
	D   *xdr.Decoder       // after the RPC header
	Raw []byte
}

// Want reads and parses the next message.
func (p *Peer) Want() *Reply {
	p.T.Helper()
	msg, err := p.Next()
	if err != nil {
		p.T.Fatalf("wanted a message: %v", err)
	}
	r := &Reply{Raw: msg}
	if err := r.Header.Parse(msg); err != nil {
		p.T.Fatalf("message %x: %v", msg, err)
	}
	r.D = xdr.NewDecoder(msg[r.Header.Len:])
	if r.Proc == rpcrdma.ProcMsg {
		if r.RPC.DecodeXDR(r.D); r.D.Err() != nil {
			p.T.Fatalf("message %x: %v", msg, r.D.Err())
		}
	}
	return r
}

// WantBytes expects exactly these bytes as the next message.
func (p *Peer) WantBytes(what string, want []byte) {
	p.T.Helper()
	got, err := p.Next()
	if err != nil || !bytes.Equal(got, want) {
		p.T.Fatalf("%s:\ngot  %x, %v\nwant %x", what, got, err, want)
	}
}

// WantErrChunk expects RDMA_ERROR with ERR_CHUNK.
func (p *Peer) WantErrChunk(what string, xid uint32) {
	p.T.Helper()
	p.WantBytes(what, Words(xid, 1, Grant, 4, 2))
}

// WantErrVers expects RDMA_ERROR with ERR_VERS for a call with version vers.
func (p *Peer) WantErrVers(what string, xid, vers uint32) {
	p.T.Helper()
	p.WantBytes(what, Words(xid, vers, Grant, 4, 1, 1, 1))
}

// WantAccept expects an accepted reply with this state.
func (p *Peer) WantAccept(what string, xid uint32, stat oncrpc.AcceptStat) *Reply {
	p.T.Helper()
	r := p.Want()
	if r.Header.XID != xid || r.Proc != rpcrdma.ProcMsg || r.RPC.XID != xid || r.RPC.Denied || r.RPC.Accept != stat {
		p.T.Fatalf("%s: got %+v, want %v of %x", what, r.RPC, stat, xid)
	}
	return r
}

// WantStatus expects an NFS result with this status.
func (p *Peer) WantStatus(what string, xid uint32, st nfs3.Status) *Reply {
	p.T.Helper()
	r := p.WantAccept(what, xid, oncrpc.Success)
	if got := nfs3.Status(r.D.Uint32()); got != st {
		p.T.Fatalf("%s: got %v, want %v", what, got, st)
	}
	return r
}

// WantTerminate expects a Terminate with this code, then the end.
func (p *Peer) WantTerminate(what string, code term.Code) *Terminated {
	p.T.Helper()
	msg, err := p.Next()
	var t *Terminated
	if !errors.As(err, &t) || t.Code != code {
		p.T.Fatalf("%s: got %x, %v, want Terminate %v", what, msg, err, code)
	}
	p.WantEnd(what)
	return t
}

// WantEnd expects the connection to end without further messages.
func (p *Peer) WantEnd(what string) {
	p.T.Helper()
	if msg, err := p.Next(); !errors.Is(err, io.EOF) {
		p.T.Fatalf("%s: got %x, %v, want the end", what, msg, err)
	}
}

// Null calls NULL and expects its reply next, so the connection still works.
func (p *Peer) Null(what string) {
	p.T.Helper()
	xid := XID()
	p.Message(Inline(xid, NFS(xid, nfs3.ProcNull, nil)))
	p.WantAccept(what+": then NULL", xid, oncrpc.Success)
}

// Mount returns the root handle of an export.
func (p *Peer) Mount(export string) (root nfs3.FH) {
	p.T.Helper()
	xid := XID()
	args := mount3.PathArgs{Path: export}
	p.Message(Inline(xid, Stream(xid, mount3.Program, mount3.Version, mount3.ProcMnt, &args)))
	r := p.WantAccept("MNT", xid, oncrpc.Success)
	var res mount3.MntRes
	res.DecodeXDR(r.D)
	if r.D.Err() != nil || res.Status != mount3.OK {
		p.T.Fatal(r.D.Err(), res.Status)
	}
	root, _ = nfs3.MakeFH(res.Handle)
	return root
}

// Create creates a file, or truncates it.
func (p *Peer) Create(dir nfs3.FH, name string) nfs3.FH {
	p.T.Helper()
	xid := XID()
	p.Message(Inline(xid, NFS(xid, nfs3.ProcCreate, &nfs3.CreateArgs{Where: nfs3.DirOpArgs{Dir: dir, Name: []byte(name)}})))
	r := p.WantAccept("CREATE", xid, oncrpc.Success)
	var res nfs3.CreateRes
	res.DecodeXDR(r.D)
	if r.D.Err() != nil || res.Status != nfs3.OK {
		p.T.Fatal(r.D.Err(), res.Status)
	}
	return res.FH.FH
}
