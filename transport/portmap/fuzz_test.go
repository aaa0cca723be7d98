// Arbitrary calls of the port mapper's programs.

package portmap

import (
	"context"
	"net/netip"
	"slices"
	"testing"

	"github.com/nfsrdma/nfsrdma/transport"
	"github.com/nfsrdma/nfsrdma/xdr"
	"github.com/nfsrdma/nfsrdma/xdr/rpcbind"
)

// rawArgs are arguments in wire form, and rawResults accept any.
type rawArgs []byte

func (a rawArgs) EncodeXDR(e *xdr.Encoder) { e.Raw(a) }

type rawResults struct{}

func (rawResults) DecodeXDR(*xdr.Decoder) {}

// steps makes the calls of a script: version, procedure, number of argument words, arguments.
func steps(script []byte, call func(vers, proc uint32, args []byte)) {
	for len(script) >= 3 {
		vers, proc, n := uint32(script[0]%3)+2, uint32(script[1]%16), min(4*int(script[2]), len(script)-3)
		call(vers, proc, script[3:3+n])
		script = script[3+n:]
	}
}

// FuzzPrograms: after any calls, by local root or another caller, the port mapper still answers,
// and the server's own registrations are unchanged. Other callers change nothing, and the number of
// programs stays bounded.
func FuzzPrograms(f *testing.F) {
	seed := func(vers, proc uint32, args xdr.Marshaler) []byte {
		e := xdr.NewEncoder(nil)
		args.EncodeXDR(e)
		return append([]byte{byte(vers - 2), byte(proc), byte((e.Len() + 3) / 4)}, e.Bytes()...)
	}
	mapping := &rpcbind.Mapping{Prog: 7, Vers: 1, Prot: rpcbind.TCP, Port: 7}
	binding := &rpcbind.Binding{Prog: 100003, Vers: 3, Netid: "tcp", Addr: "192.0.2.7.0.111", Owner: superuser}
	for _, root := range []bool{true, false} {
		for proc := range uint32(13) {
			f.Add(root, slices.Concat(seed(2, proc, mapping), seed(3, proc, binding), seed(4, proc, binding), seed(2, rpcbind.ProcDump, none{}), seed(4, rpcbind.ProcDump, none{})))
		}
	}
	own := Bindings(100003, 3, "tcp", netip.MustParseAddrPort("[::]:2049"))
	// One connection for all scripts of an owner, because ports are few.
	table := NewTable(nil)
	askers := map[bool]asker{}
	for root, kind := range map[bool]transport.OwnerKind{true: transport.OwnerLocal, false: transport.OwnerRemote} {
		askers[root] = ask(f, serveTable(f, table, transport.Owner{Kind: kind}))
	}
	f.Fuzz(func(t *testing.T, root bool, script []byte) {
		table.mu.Lock()
		clear(table.rows)
		table.mu.Unlock()
		table.Add(own)
		a := asker{t, askers[root].c}
		steps(script, func(vers, proc uint32, args []byte) {
			p := transport.Proc{Prog: rpcbind.Program, Vers: vers, Proc: proc, Name: "any", MaxReply: 1 << 20}
			// An error is a reply, too.
			_ = a.c.Call(context.Background(), &p, rawArgs(args), rawResults{}, nil, 0)
		})
		a.call(2, rpcbind.ProcNull, none{}, none{})
		list := table.list()
		if len(list) > maxRows {
			t.Errorf("%d programs, want at most %d", len(list), maxRows)
		}
		if !root && len(list) != len(own) {
			t.Errorf("%d programs after calls by others, want %d", len(list), len(own))
		}
		for _, b := range own {
			b.Owner = superuser
			if !slices.Contains(list, b) {
				t.Errorf("%v is gone: %v", b, list)
			}
		}
	})
}
