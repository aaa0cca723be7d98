// The interpretation of MPA Replies and of rpcbind's list.

package doctor

import (
	"context"
	"strings"
	"testing"

	"github.com/nfsrdma/nfsrdma/rnic/iwarp/mpa"
	"github.com/nfsrdma/nfsrdma/xdr/nfs3"
	"github.com/nfsrdma/nfsrdma/xdr/rpcbind"
)

// If TCP is requested, problems of RDMA are only warnings.
func TestRepliesOfStartUp(t *testing.T) {
	for name, c := range map[string]struct {
		reply mpa.Frame
		tcp   bool
		want  wanted
	}{
		"unknown":       {mpa.Frame{}, false, wanted{Fail, "that this client does not understand"}},
		"unknown, TCP":  {mpa.Frame{}, true, wanted{Warn, "that this client does not understand"}},
		"rejected":      {mpa.Frame{Rev: 2, Reject: true, HasEnhanced: true}, false, wanted{Fail, "rejects the connection (MPA revision 2"}},
		"rejected, TCP": {mpa.Frame{Rev: 2, Reject: true, HasEnhanced: true}, true, wanted{Warn, "see the server's log"}},
		"old":           {mpa.Frame{Rev: 1, CRC: true}, false, wanted{Fail, "no IRD/ORD block in the Reply (MPA revision 1, CRCs wanted"}},
		"depths":        {mpa.Frame{Rev: 2, HasEnhanced: true, Markers: true, Enhanced: mpa.Enhanced{IRD: 16, ORD: mpa.NotNegotiated}}, false, wanted{Warn, "IRD 16, ORD not negotiated, CRCs left to us, markers wanted, no RFC 8797 private data"}},
	} {
		cu := newCheckup(Options{TCP: c.tcp})
		cu.rdmaPort.Reply = c.reply
		if f := checkStartUp(context.Background(), cu); f.Status != c.want.status || !strings.Contains(f.Text+" → "+f.Advice, c.want.part) {
			t.Errorf("%s: %+v, want %v with %q", name, f, c.want.status, c.want.part)
		}
	}
}

// Only an entry for TCP with a valid port and the exact version counts.
func TestPortsThatRpcbindHas(t *testing.T) {
	list := []rpcbind.Mapping{{Prog: nfs3.Program, Vers: 3, Prot: rpcbind.UDP, Port: 1}, {Prog: nfs3.Program, Vers: 2, Prot: rpcbind.TCP, Port: 2},
		{Prog: nfs3.Program, Vers: 3, Prot: rpcbind.TCP}, {Prog: nfs3.Program, Vers: 3, Prot: rpcbind.TCP, Port: 1 << 16}}
	if p := boundPort(list, nfs3.Program, 3); p != 0 {
		t.Errorf("port %d", p)
	}
	list = append(list, rpcbind.Mapping{Prog: nfs3.Program, Vers: 3, Prot: rpcbind.TCP, Port: 65535})
	if p := boundPort(list, nfs3.Program, 3); p != 65535 {
		t.Errorf("port %d", p)
	}
}
