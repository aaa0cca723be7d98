// Real traffic: messages between Linux's NFS/RDMA client and server decode completely and encode to
// the same bytes.

package chunks_test

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"os"
	"strings"
	"testing"

	"github.com/nfsrdma/nfsrdma/chunks"
	"github.com/nfsrdma/nfsrdma/xdr"
	"github.com/nfsrdma/nfsrdma/xdr/nfs3"
	"github.com/nfsrdma/nfsrdma/xdr/oncrpc"
)

// An exchange is one call and its reply as sent, and the bytes written by the server into the Reply
// chunk. Lines of testdata/linux.txt:
//
//	call  HEADER-AND-PAYLOAD
//	reply HEADER-AND-PAYLOAD [REPLY-CHUNK]
type exchange struct{ call, reply, long []byte }

func exchanges(t *testing.T) (list []exchange) {
	text, err := os.ReadFile("testdata/linux.txt")
	if err != nil {
		t.Fatalf("ReadFile: %v", err)
	}
	for line := range strings.Lines(string(text)) {
		f := strings.Fields(line)
		var b [2][]byte
		for i, s := range f[1:] {
			if b[i], err = hex.DecodeString(s); err != nil {
				t.Fatalf("DecodeString: %v", err)
			}
		}
		if f[0] == "call" {
			list = append(list, exchange{call: b[0]})
		} else {
			x := &list[len(list)-1]
			x.reply, x.long = b[0], b[1]
		}
	}
	return list
}

type message interface {
	xdr.Marshaler
	xdr.Unmarshaler
}

// types returns arguments and result for each procedure.
var types = [nfs3.NumProcs]func() (args, res message){
	nfs3.ProcNull:        func() (message, message) { return &nothing{}, &nothing{} },
	nfs3.ProcGetattr:     func() (message, message) { return &nfs3.GetattrArgs{}, &nfs3.GetattrRes{} },
	nfs3.ProcSetattr:     func() (message, message) { return &nfs3.SetattrArgs{}, &nfs3.SetattrRes{} },
	nfs3.ProcLookup:      func() (message, message) { return &nfs3.LookupArgs{}, &nfs3.LookupRes{} },
	nfs3.ProcAccess:      func() (message, message) { return &nfs3.AccessArgs{}, &nfs3.AccessRes{} },
	nfs3.ProcReadlink:    func() (message, message) { return &nfs3.ReadlinkArgs{}, &nfs3.ReadlinkRes{} },
	nfs3.ProcRead:        func() (message, message) { return &nfs3.ReadArgs{}, &nfs3.ReadRes{} },
	nfs3.ProcWrite:       func() (message, message) { return &nfs3.WriteArgs{}, &nfs3.WriteRes{} },
	nfs3.ProcCreate:      func() (message, message) { return &nfs3.CreateArgs{}, &nfs3.CreateRes{} },
	nfs3.ProcMkdir:       func() (message, message) { return &nfs3.MkdirArgs{}, &nfs3.MkdirRes{} },
	nfs3.ProcSymlink:     func() (message, message) { return &nfs3.SymlinkArgs{}, &nfs3.SymlinkRes{} },
	nfs3.ProcMknod:       func() (message, message) { return &nfs3.MknodArgs{}, &nfs3.MknodRes{} },
	nfs3.ProcRemove:      func() (message, message) { return &nfs3.RemoveArgs{}, &nfs3.RemoveRes{} },
	nfs3.ProcRmdir:       func() (message, message) { return &nfs3.RmdirArgs{}, &nfs3.RmdirRes{} },
	nfs3.ProcRename:      func() (message, message) { return &nfs3.RenameArgs{}, &nfs3.RenameRes{} },
	nfs3.ProcLink:        func() (message, message) { return &nfs3.LinkArgs{}, &nfs3.LinkRes{} },
	nfs3.ProcReaddir:     func() (message, message) { return &nfs3.ReaddirArgs{}, &nfs3.ReaddirRes{} },
	nfs3.ProcReaddirplus: func() (message, message) { return &nfs3.ReaddirplusArgs{}, &nfs3.ReaddirplusRes{} },
	nfs3.ProcFsstat:      func() (message, message) { return &nfs3.FsstatArgs{}, &nfs3.FsstatRes{} },
	nfs3.ProcFsinfo:      func() (message, message) { return &nfs3.FsinfoArgs{}, &nfs3.FsinfoRes{} },
	nfs3.ProcPathconf:    func() (message, message) { return &nfs3.PathconfArgs{}, &nfs3.PathconfRes{} },
	nfs3.ProcCommit:      func() (message, message) { return &nfs3.CommitArgs{}, &nfs3.CommitRes{} },
}

// A nothing stands for NULL's arguments or result, which have no bytes.
type nothing struct{}

func (*nothing) EncodeXDR(*xdr.Encoder) {}
func (*nothing) DecodeXDR(*xdr.Decoder) {}

// split parses a header's lists and returns the bytes after them; the lists must encode to the same
// bytes.
func split(t *testing.T, l *chunks.Lists, b []byte) []byte {
	t.Helper()
	rest, err := l.Parse(b[chunks.FixedSize:])
	if err != nil {
		t.Fatalf("%x: %v", b, err)
	}
	if lists := b[chunks.FixedSize : len(b)-len(rest)]; !bytes.Equal(l.Append(nil), lists) || l.Size() != len(lists) {
		t.Fatalf("%x: lists encode as %x", b, l.Append(nil))
	}
	return rest
}

// check decodes all of head and body from stream and encodes them again.
func check(t *testing.T, stream []byte, items []xdr.Item, head, body message) {
	t.Helper()
	var d xdr.Decoder
	d.Reset(stream, items)
	head.DecodeXDR(&d)
	body.DecodeXDR(&d)
	if d.Err() != nil || d.Remaining() != 0 || d.ItemsLeft() != 0 {
		t.Fatalf("%T: %v, %d bytes and %d items left\n%x", body, d.Err(), d.Remaining(), d.ItemsLeft(), stream)
	}
	e := xdr.NewEncoder(nil)
	head.EncodeXDR(e)
	body.EncodeXDR(e)
	m := chunks.Message{Stream: e.Bytes(), Items: e.Items()}
	var reduced chunks.ItemSet
	if len(items) > 0 {
		reduced = 1
	}
	if got := bytes.Join(m.Gather(nil, reduced), nil); !bytes.Equal(got, stream) {
		t.Fatalf("%T encodes as\n%x, was\n%x", body, got, stream)
	}
}

// reduced returns a call's items with invented content.
func reduced(t *testing.T, l *chunks.Lists, stream int) []xdr.Item {
	t.Helper()
	rc := l.ReadChunks()
	items, err := chunks.Place(nil, rc, stream)
	if err != nil {
		t.Fatalf("Place: %v", err)
	}
	for i := range items {
		items[i].Data = make([]byte, rc[i].Len())
	}
	return items
}

// TestLinux: each message in testdata/linux.txt decodes completely and encodes to the same bytes.
// The reply returns its call's chunks, no reply exceeds the limit in its binding, and each Position
// equals Message.Position.
func TestLinux(t *testing.T) {
	seen := map[string]bool{}
	for _, x := range exchanges(t) {
		var offered, returned chunks.Lists
		payload := split(t, &offered, x.call)
		if binary.BigEndian.Uint32(payload[12:]) != nfs3.Program {
			continue
		}
		proc := binary.BigEndian.Uint32(payload[20:])
		b := &nfs3.Bindings[proc]
		seen[b.Name] = true
		args, res := types[proc]()
		items := reduced(t, &offered, len(payload))
		var call oncrpc.CallHeader
		check(t, payload, items, &call, args)
		if len(items) > 0 {
			m := chunks.Message{Stream: payload, Items: items}
			if !b.ArgItem || m.Position(0) != offered.Read[0].Position {
				t.Errorf("%s: Position %d, ours %d", b.Name, offered.Read[0].Position, m.Position(0))
			}
		}
		var sys oncrpc.AuthSys
		if call.Cred.Flavor == oncrpc.FlavorSys {
			if err := sys.Parse(call.Cred.Body); err != nil {
				t.Errorf("%s: credential %x: %v", b.Name, call.Cred.Body, err)
			}
		}

		stream := split(t, &returned, x.reply)
		if len(x.long) > 0 {
			n, err := returned.Reply.Returned(offered.Reply)
			if stream = x.long; err != nil || n != uint64(len(stream)) {
				t.Errorf("%s: Reply chunk of %d bytes: %d, %v", b.Name, len(stream), n, err)
			}
		}
		items = nil
		if len(offered.Write) > 0 {
			n, err := returned.Write[0].Returned(offered.Write[0])
			if err != nil || !b.ResItem {
				t.Errorf("%s: Write chunk: %v", b.Name, err)
			}
			if n > 0 {
				items = []xdr.Item{{Off: xdr.AnyOffset, Data: make([]byte, n)}}
			}
		}
		check(t, stream, items, &oncrpc.ReplyHeader{}, res)
		if b.Grows == nfs3.GrowsNot && len(stream) > oncrpc.ReplySize+b.MaxReply {
			t.Errorf("%s: reply of %d bytes, bound %d", b.Name, len(stream), b.MaxReply)
		}
	}
	if len(seen) != 21 { // all except FSSTAT
		t.Errorf("only %d procedures: %v", len(seen), seen)
	}
}
