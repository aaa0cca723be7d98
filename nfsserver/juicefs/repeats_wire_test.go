// A client that repeats a call at another server sends the same bytes over a new connection.

package juicefs

import (
	"encoding/binary"
	"io"
	"net"
	"testing"

	"github.com/nfsrdma/nfsrdma/xdr"
	"github.com/nfsrdma/nfsrdma/xdr/nfs3"
	"github.com/nfsrdma/nfsrdma/xdr/oncrpc"
)

// rawCall returns the RPC record of a call as user uid.
func rawCall(xid, uid, proc uint32, args xdr.Marshaler) []byte {
	var cred xdr.Encoder
	(&oncrpc.AuthSys{Machine: []byte("client"), UID: uid, GID: 1000}).EncodeXDR(&cred)
	var e xdr.Encoder
	e.Uint32(0)
	(&oncrpc.CallHeader{XID: xid, Prog: nfs3.Program, Vers: nfs3.Version, Proc: proc,
		Cred: oncrpc.OpaqueAuth{Flavor: oncrpc.FlavorSys, Body: cred.Bytes()}}).EncodeXDR(&e)
	args.EncodeXDR(&e)
	b := e.Bytes()
	binary.BigEndian.PutUint32(b, 1<<31|uint32(len(b)-4)) // marks the last fragment (RFC 5531 §11)
	return b
}

// send sends a record over a new connection, and returns the reply's status.
func send(t *testing.T, addr string, call []byte) nfs3.Status {
	t.Helper()
	c, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatalf("net.Dial: %v", err)
	}
	defer c.Close()
	if _, err := c.Write(call); err != nil {
		t.Fatalf("Write: %v", err)
	}
	var mark [4]byte
	if _, err := io.ReadFull(c, mark[:]); err != nil {
		t.Fatalf("io.ReadFull c: %v", err)
	}
	reply := make([]byte, binary.BigEndian.Uint32(mark[:])&^(1<<31))
	if _, err := io.ReadFull(c, reply); err != nil {
		t.Fatalf("io.ReadFull c: %v", err)
	}
	const header = 24 // bytes: XID, REPLY, accepted, a verifier without a body, SUCCESS
	if len(reply) < header+4 {
		t.Fatalf("reply %x", reply)
	}
	return nfs3.Status(binary.BigEndian.Uint32(reply[header:]))
}

// TestSameBytesAtAnotherServer: a server has executed a call and not replied. Another server then
// answers the repeated call as executed. A call with another XID or user is another call.
func TestSameBytesAtAnotherServer(t *testing.T) {
	f, l := openRecording(t, Local{})
	create(t, f, f.Root(), "f")
	addr, end := serve(t, f)
	c, _ := mount(t, addr)
	root, err := c.MountHandle(t.Context(), "/vol")
	if err != nil {
		t.Fatalf("MountHandle: %v", err)
	}
	at := func(name string) nfs3.DirOpArgs { return nfs3.DirOpArgs{Dir: root, Name: []byte(name)} }
	remove := func(xid, uid uint32) []byte { a := at("f"); return rawCall(xid, uid, nfs3.ProcRemove, &a) }
	mkdir := func(xid uint32) []byte {
		return rawCall(xid, 1000, nfs3.ProcMkdir, &nfs3.MkdirArgs{Where: at("d"), Attr: nfs3.Sattr{SetMode: true, Mode: 0o755}})
	}
	for _, call := range [][]byte{remove(1, 1000), mkdir(2)} {
		if st := send(t, addr, call); st != nfs3.OK {
			t.Fatal(st)
		}
	}
	c.Close()
	top := f.root
	end()
	f = reopen(t, l)
	f.root = top
	addr, end = serve(t, f)
	defer end()
	for _, s := range []struct {
		name string
		call []byte
		want nfs3.Status
	}{
		{"another REMOVE", remove(2, 1000), nfs3.ErrNoEnt}, {"another user's REMOVE", remove(1, 1001), nfs3.ErrNoEnt}, {"another MKDIR", mkdir(1), nfs3.ErrExist},
		{"REMOVE", remove(1, 1000), nfs3.OK}, {"MKDIR", mkdir(2), nfs3.OK},
	} {
		if st := send(t, addr, s.call); st != s.want {
			t.Errorf("%s: %v, want %v", s.name, st, s.want)
		}
	}
}
