// Real calls and replies: transport header, RPC header, NFSv3 arguments and results, decoded and
// encoded again.

package capture

import (
	"bytes"
	"testing"

	"github.com/nfsrdma/nfsrdma/chunks"
	"github.com/nfsrdma/nfsrdma/rpcrdma"
	"github.com/nfsrdma/nfsrdma/xdr"
	"github.com/nfsrdma/nfsrdma/xdr/nfs3"
	"github.com/nfsrdma/nfsrdma/xdr/oncrpc"
)

// codec is common to every type in a message.
type codec interface {
	xdr.Marshaler
	xdr.Unmarshaler
}

// opaque is data without a type: it is passed through.
type opaque struct{ b []byte }

func (o *opaque) EncodeXDR(e *xdr.Encoder) { e.Raw(o.b) }
func (o *opaque) DecodeXDR(d *xdr.Decoder) { o.b = d.Rest() }

// procs has constructors for the arguments and results of each NFSv3 procedure.
var procs = [nfs3.NumProcs]func() (args, res codec){
	nfs3.ProcNull:        func() (codec, codec) { return new(opaque), new(opaque) },
	nfs3.ProcGetattr:     func() (codec, codec) { return new(nfs3.GetattrArgs), new(nfs3.GetattrRes) },
	nfs3.ProcSetattr:     func() (codec, codec) { return new(nfs3.SetattrArgs), new(nfs3.SetattrRes) },
	nfs3.ProcLookup:      func() (codec, codec) { return new(nfs3.LookupArgs), new(nfs3.LookupRes) },
	nfs3.ProcAccess:      func() (codec, codec) { return new(nfs3.AccessArgs), new(nfs3.AccessRes) },
	nfs3.ProcReadlink:    func() (codec, codec) { return new(nfs3.ReadlinkArgs), new(nfs3.ReadlinkRes) },
	nfs3.ProcRead:        func() (codec, codec) { return new(nfs3.ReadArgs), new(nfs3.ReadRes) },
	nfs3.ProcWrite:       func() (codec, codec) { return new(nfs3.WriteArgs), new(nfs3.WriteRes) },
	nfs3.ProcCreate:      func() (codec, codec) { return new(nfs3.CreateArgs), new(nfs3.CreateRes) },
	nfs3.ProcMkdir:       func() (codec, codec) { return new(nfs3.MkdirArgs), new(nfs3.MkdirRes) },
	nfs3.ProcSymlink:     func() (codec, codec) { return new(nfs3.SymlinkArgs), new(nfs3.SymlinkRes) },
	nfs3.ProcMknod:       func() (codec, codec) { return new(nfs3.MknodArgs), new(nfs3.MknodRes) },
	nfs3.ProcRemove:      func() (codec, codec) { return new(nfs3.RemoveArgs), new(nfs3.RemoveRes) },
	nfs3.ProcRmdir:       func() (codec, codec) { return new(nfs3.RmdirArgs), new(nfs3.RmdirRes) },
	nfs3.ProcRename:      func() (codec, codec) { return new(nfs3.RenameArgs), new(nfs3.RenameRes) },
	nfs3.ProcLink:        func() (codec, codec) { return new(nfs3.LinkArgs), new(nfs3.LinkRes) },
	nfs3.ProcReaddir:     func() (codec, codec) { return new(nfs3.ReaddirArgs), new(nfs3.ReaddirRes) },
	nfs3.ProcReaddirplus: func() (codec, codec) { return new(nfs3.ReaddirplusArgs), new(nfs3.ReaddirplusRes) },
	nfs3.ProcFsstat:      func() (codec, codec) { return new(nfs3.FsstatArgs), new(nfs3.FsstatRes) },
	nfs3.ProcFsinfo:      func() (codec, codec) { return new(nfs3.FsinfoArgs), new(nfs3.FsinfoRes) },
	nfs3.ProcPathconf:    func() (codec, codec) { return new(nfs3.PathconfArgs), new(nfs3.PathconfRes) },
	nfs3.ProcCommit:      func() (codec, codec) { return new(nfs3.CommitArgs), new(nfs3.CommitRes) },
}

func types(call *oncrpc.CallHeader) (args, res codec) {
	if call.Prog == nfs3.Program && call.Vers == nfs3.Version && call.Proc < nfs3.NumProcs {
		return procs[call.Proc]()
	}
	return new(opaque), new(opaque)
}

// TestPrivateData: both kernels send the private data of RFC 8797, with buffers of 4096 bytes.
func TestPrivateData(t *testing.T) {
	for _, c := range conversations(t) {
		request, reply, _, err := c.Startup()
		if err != nil {
			t.Fatalf("Startup: %v", err)
		}
		for _, b := range [][]byte{request.PrivateData, reply.PrivateData} {
			p, ok := rpcrdma.ParsePrivateData(b)
			if got := rpcrdma.AppendPrivateData(nil, p); !ok || !bytes.Equal(got, b) {
				t.Errorf("%s: %x became %x", c.Name, b, got)
			}
			if p.SendSize != 4096 || p.RecvSize != 4096 {
				t.Errorf("%s: %+v", c.Name, p)
			}
		}
	}
}

// TestReencodeRPC: each byte of a Send belongs to its transport header or its RPC message. Each
// byte of a chunk belongs to an item of a message.
func TestReencodeRPC(t *testing.T) {
	seen := map[string]int{}
	for _, c := range conversations(t) {
		rpcs, err := c.RPCs()
		if err != nil {
			t.Fatalf("RPCs: %v", err)
		}
		calls := map[uint32]*oncrpc.CallHeader{}
		for _, r := range rpcs {
			if got := r.Header.Append(nil); !bytes.Equal(got, r.Send[:r.Header.Len]) || r.Header.Size() != len(got) {
				t.Fatalf("%s: packet %d: header\n%x became\n%x", c.Name, r.Packet, r.Send[:r.Header.Len], got)
			}
			var head, body codec
			if r.FromInitiator {
				call := new(oncrpc.CallHeader)
				body, _ = peekCall(t, r, call)
				calls[r.Header.XID], head = call, call
			} else {
				call := calls[r.Header.XID]
				if call == nil {
					t.Fatalf("%s: packet %d: reply to no call", c.Name, r.Packet)
				}
				delete(calls, r.Header.XID)
				_, body = types(call)
				head = new(oncrpc.ReplyHeader)
				seen[name(call)]++
			}
			reencodeMessage(t, c.Name, &r, head, body)
		}
		if len(calls) > 1 { // the last call may have no reply in the capture
			t.Errorf("%s: %d calls without a reply", c.Name, len(calls))
		}
	}
	t.Log(seen)
	for proc, b := range nfs3.Bindings {
		if seen[b.Name] == 0 {
			t.Logf("procedure %d, %s, is in no capture", proc, b.Name)
		}
	}
	for _, name := range []string{"READ", "WRITE", "READLINK", "SYMLINK", "READDIRPLUS", "GETATTR", "LOOKUP", "CREATE", "COMMIT"} {
		if seen[name] == 0 {
			t.Errorf("no %s in the captures", name)
		}
	}
}

func name(call *oncrpc.CallHeader) string {
	if call.Prog == nfs3.Program && call.Proc < nfs3.NumProcs {
		return nfs3.Bindings[call.Proc].Name
	}
	return "another program"
}

// peekCall decodes a call's header, and returns values of the types that follow. It also checks
// that the AUTH_SYS credential, encoded again, has the same bytes.
func peekCall(t *testing.T, r RPC, call *oncrpc.CallHeader) (args, res codec) {
	t.Helper()
	d := xdr.NewDecoder(r.Msg.Stream)
	if call.DecodeXDR(d); d.Err() != nil || call.XID != r.Header.XID {
		t.Fatalf("packet %d: call header: %v", r.Packet, d.Err())
	}
	if call.Cred.Flavor == oncrpc.FlavorSys {
		var a oncrpc.AuthSys
		if err := a.Parse(call.Cred.Body); err != nil {
			t.Fatalf("packet %d: credential: %v", r.Packet, err)
		}
		var e xdr.Encoder
		if a.EncodeXDR(&e); !bytes.Equal(e.Bytes(), call.Cred.Body) {
			t.Fatalf("packet %d: credential %x became %x", r.Packet, call.Cred.Body, e.Bytes())
		}
	}
	return types(call)
}

// reencodeMessage decodes an RPC message and encodes the result. It wants the same bytes, in the
// stream and in the items.
func reencodeMessage(t *testing.T, name string, r *RPC, head, body codec) {
	t.Helper()
	var d xdr.Decoder
	d.Reset(r.Msg.Stream, r.Msg.Items)
	head.DecodeXDR(&d)
	body.DecodeXDR(&d)
	if d.Err() != nil || d.Remaining() != 0 || d.ItemsLeft() != 0 {
		t.Fatalf("%s: packet %d: %T: %v, %d bytes and %d items left", name, r.Packet, body, d.Err(), d.Remaining(), d.ItemsLeft())
	}
	var e xdr.Encoder
	head.EncodeXDR(&e)
	body.EncodeXDR(&e)
	sent := chunks.Message{Stream: r.Msg.Stream, Items: r.Msg.Items}
	for i, item := range sent.Items {
		at := e.Items()[i].Off
		if item.Off != xdr.AnyOffset && item.Off != at {
			t.Errorf("%s: packet %d: %T: item at %d, want %d", name, r.Packet, body, item.Off, at)
		}
		sent.Items[i].Off = at
	}
	got, want := flat(chunks.Message{Stream: e.Bytes(), Items: e.Items()}), flat(sent)
	if !bytes.Equal(got, want) {
		t.Errorf("%s: packet %d: %T:\n%x became\n%x", name, r.Packet, body, want, got)
	}
}

// flat returns the whole message with its items, and their pads, in place.
func flat(m chunks.Message) []byte {
	var out []byte
	from := 0
	for _, item := range m.Items {
		out = append(out, m.Stream[from:item.Off]...)
		out = append(out, item.Data...)
		out = append(out, make([]byte, xdr.Pad(len(item.Data)))...)
		from = item.Off
	}
	return append(out, m.Stream[from:]...)
}
