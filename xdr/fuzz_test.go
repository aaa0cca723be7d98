// Arbitrary bytes as each message of the small protocols: ONC RPC, MOUNT, rpcbind.

package xdr_test

import (
	"bytes"
	"testing"

	"github.com/nfsrdma/nfsrdma/xdr"
	"github.com/nfsrdma/nfsrdma/xdr/mount3"
	"github.com/nfsrdma/nfsrdma/xdr/oncrpc"
	"github.com/nfsrdma/nfsrdma/xdr/rpcbind"
)

type message interface {
	xdr.Marshaler
	xdr.Unmarshaler
}

func mk[T any]() message { return any(new(T)).(message) }

// protocols has every message type, in an order that the seeds rely on.
var protocols = []func() message{
	mk[oncrpc.CallHeader], mk[oncrpc.ReplyHeader], mk[oncrpc.OpaqueAuth], mk[oncrpc.AuthSys],
	mk[mount3.PathArgs], mk[mount3.MntRes], mk[mount3.DumpRes], mk[mount3.ExportRes],
	mk[rpcbind.Mapping], mk[rpcbind.PortRes], mk[rpcbind.DumpRes],
}

var protocolSeeds = []struct {
	kind byte
	msg  message
}{
	{0, &oncrpc.CallHeader{XID: 1, Prog: 2, Vers: 3, Proc: 4, Cred: oncrpc.OpaqueAuth{Flavor: oncrpc.FlavorShort, Body: []byte("token")}}},
	{1, &oncrpc.ReplyHeader{XID: 1, Verf: oncrpc.OpaqueAuth{Flavor: oncrpc.FlavorSys, Body: []byte{1, 2}}}},
	{1, &oncrpc.ReplyHeader{XID: 1, Accept: oncrpc.ProgMismatch, Low: 3, High: 4}},
	{1, &oncrpc.ReplyHeader{XID: 1, Accept: oncrpc.GarbageArgs}},
	{1, &oncrpc.ReplyHeader{XID: 1, Denied: true, Low: 2, High: 2}},
	{1, &oncrpc.ReplyHeader{XID: 1, Denied: true, Reject: oncrpc.AuthError, Auth: oncrpc.AuthTooWeak}},
	{2, &oncrpc.OpaqueAuth{Flavor: oncrpc.FlavorGSS, Body: []byte{1}}},
	{3, &oncrpc.AuthSys{Machine: []byte("host5"), UID: 1000, GID: 100, NumGIDs: 2, GIDs: [oncrpc.MaxGIDs]uint32{4, 24}}},
	{4, &mount3.PathArgs{Path: "/a/bc"}},
	{5, &mount3.MntRes{Handle: []byte{1, 2, 3, 4, 5}, Flavors: []uint32{1, 0}}},
	{5, &mount3.MntRes{Status: mount3.ErrAcces}},
	{6, &mount3.DumpRes{Mounts: []mount3.Mount{{Host: "h", Dir: "/x"}, {Host: "i", Dir: "/"}}}},
	{7, &mount3.ExportRes{Exports: []mount3.Export{{Dir: "/x", Groups: []string{"*", "g"}}, {Dir: "/y"}}}},
	{8, &rpcbind.Mapping{Prog: 100003, Vers: 3, Prot: rpcbind.TCP, Port: 2049}},
	{9, &rpcbind.PortRes{Port: 2049}},
	{10, &rpcbind.DumpRes{Mappings: []rpcbind.Mapping{{Prog: 1, Vers: 2, Prot: 3, Port: 4}}}},
}

// FuzzProtocols: the first byte selects the type; a decoded message must encode to bytes that
// decode to the same message.
func FuzzProtocols(f *testing.F) {
	encode := func(to []byte, m message) []byte {
		e := xdr.NewEncoder(to)
		m.EncodeXDR(e)
		return e.Bytes()
	}
	for _, s := range protocolSeeds {
		f.Add(append([]byte{s.kind}, encode(nil, s.msg)...))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		if len(b) == 0 {
			return
		}
		kind, b := protocols[int(b[0])%len(protocols)], b[1:]
		m, back := kind(), kind()
		d := xdr.NewDecoder(b)
		if m.DecodeXDR(d); d.Err() != nil {
			return
		}
		again := encode(nil, m)
		d = xdr.NewDecoder(again)
		if back.DecodeXDR(d); d.Err() != nil || d.Remaining() != 0 || !bytes.Equal(encode(nil, back), again) {
			t.Errorf("%+v, again %+v, %v", m, back, d.Err())
		}
	})
}
