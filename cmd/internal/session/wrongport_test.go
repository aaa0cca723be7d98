// A port that is another protocol's.

package session

import (
	"context"
	"fmt"
	"net"
	"strings"
	"syscall"
	"testing"

	"github.com/nfsrdma/nfsrdma/nfsclient"
	"github.com/nfsrdma/nfsrdma/test/machine"
	"github.com/nfsrdma/nfsrdma/transport"
)

// Connecting ends as soon as the port is known to be another's, not when its time is over.
func TestConnectingToAWrongPortEnds(t *testing.T) {
	_, tcp := serve(t)
	target, err := nfsclient.ParseTarget("nfsrdma://" + strings.TrimPrefix(tcp, "nfs://") + "/x")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	found := probeLate(ctx, cancel, target)
	<-ctx.Done()
	if hint := found(); !strings.Contains(hint, "ONC RPC over TCP") {
		t.Errorf("%q", hint)
	}
}

// TestRefusedPorts: where the host serves NFS by the other transport at its usual port, the error says so with the path that would work.
func TestRefusedPorts(t *testing.T) {
	rdma, tcp := serve(t)
	rdma, tcp = strings.TrimPrefix(rdma, "nfsrdma://"), strings.TrimPrefix(tcp, "nfs://")
	nobody := fmt.Sprint("127.0.0.1:", machine.Port(t))
	const asked, alone = "connection refused: ", "is the server running, and is this its port?"
	for _, c := range []struct{ arg, usual, listens, want string }{
		{"nfsrdma://h:7/e", "h:2049", tcp, "the host serves NFS over TCP: use nfs://h/e, or have the server serve RDMA"},
		{"nfs://h:7/e", "h:20049", rdma, "the host serves NFS over RDMA: use nfsrdma://h/e, or have the server serve TCP"},
		{"nfsrdma://h:7/e", "h:2049", nobody, alone},
		{"nfs://h:7/e", "h:20049", nobody, alone},
		{"nfsrdma://h:7/e", "h:2049", rdma, alone},
	} {
		dialInstead(t, c.usual, c.listens)
		s := &Session{}
		target, err := s.Target(c.arg)
		if err != nil {
			t.Fatal(err)
		}
		err = s.explainConnect(t.Context(), target, &transport.ConnectError{Service: "nfs", Err: syscall.ECONNREFUSED})
		if got := err.Error(); got != c.arg+": "+asked+c.want {
			t.Errorf("%s, with %s at %s: %q", c.arg, c.listens, c.usual, got)
		}
	}
}

// dialInstead has the port at addr looked at where another is that nobody else has.
func dialInstead(t *testing.T, addr, other string) {
	was := dialPort
	dialPort = func(ctx context.Context, network, to string) (net.Conn, error) {
		if to != addr {
			t.Errorf("%s is looked at, not %s", to, addr)
		}
		return new(net.Dialer).DialContext(ctx, network, other)
	}
	t.Cleanup(func() { dialPort = was })
}
