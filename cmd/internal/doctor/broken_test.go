// Broken configurations: the advice fixes each, and lists no step that is already done.

package doctor

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"strings"
	"testing"

	"github.com/nfsrdma/nfsrdma/cmd/internal/portprobe"
	"github.com/nfsrdma/nfsrdma/nfsclient"
	"github.com/nfsrdma/nfsrdma/test/machine"
	"github.com/nfsrdma/nfsrdma/transport"
	"github.com/nfsrdma/nfsrdma/xdr/mount3"
)

// TestServerThatWantsReservedPorts: a server that requires reserved ports admits root, whose
// connections use them like a mount's.
func TestServerThatWantsReservedPorts(t *testing.T) {
	if !machine.Apart(t) { // elsewhere all reserved ports can be in use for a while
		return
	}
	programs, _ := tree(t, me(), false)
	secure := withProc(programs, mount3.Program, mount3.ProcMnt, func(old func(*transport.Call) error, c *transport.Call) error {
		if a, ok := c.Remote.(*net.TCPAddr); ok && a.Port < 1024 {
			return old(c)
		}
		res := mount3.MntRes{Status: mount3.ErrAcces}
		res.EncodeXDR(c.Res)
		return nil
	})
	_, tcp := serve(t, secure...)
	examine(t, Options{TCP: true, TCPPort: tcp, RDMAPort: machine.Port(t)}, true, map[string]wanted{mntCheck: {OK, "/m"}})
}

// TestAdviceToBeLetIn: the advice depends on the export's list, and on the port.
func TestAdviceToBeLetIn(t *testing.T) {
	const root, add, nat = "run as root", "add this host", "is among the clients"
	for _, c := range []struct {
		groups   []string
		reserved bool
		rdma     bool
		want     string // parts of the advice
		not      string // parts that the advice must not have
	}{
		{nil, true, false, nat, add + "|" + root},
		{nil, false, false, root, add},
		{nil, false, true, nat, add + "|" + root},
		{[]string{"*"}, false, false, root, add},
		{[]string{"192.0.2.0/24"}, true, false, nat, add + "|" + root},
		{[]string{"192.0.2.0/24(rw)"}, false, false, root, add},
		{[]string{"192.0.2.7"}, true, true, nat, add + "|" + root},
		{[]string{"192.0.2.8", "198.51.100.0/24"}, true, false, add + "|192.0.2.7", root + "|" + nat},
		{[]string{"192.0.2.8"}, false, false, add + "|" + root, nat},
		{[]string{"192.0.2.8"}, false, true, add, root + "|" + nat},
		{[]string{"pc.example.org"}, true, false, add, root + "|" + nat},
		{[]string{"pc.example.org"}, false, false, add + "|if it is not there|" + root, nat},
		{[]string{"pc.example.org", "192.0.2.7"}, false, false, root, add},
		{[]string{"@group", "192.0.2.8"}, true, false, add, root},
	} {
		cu := newCheckup(Options{Host: "h"})
		cu.local, cu.reserved = netip.MustParseAddr("192.0.2.7"), func() bool { return c.reserved }
		cu.export, cu.exports = "/a", []mount3.Export{{Dir: "/a", Groups: c.groups}}
		cu.mount = new(transport.Client)
		if c.rdma {
			cu.rdma = cu.mount
		}
		got := cu.refusalAdvice(mount3.ErrAcces)
		for part := range strings.SplitSeq(c.want, "|") {
			if !strings.Contains(got, part) {
				t.Errorf("exported to %v, reserved port %v, RDMA %v: %s; want %s", c.groups, c.reserved, c.rdma, got, part)
			}
		}
		for part := range strings.SplitSeq(c.not, "|") {
			if strings.Contains(got, part) {
				t.Errorf("exported to %v, reserved port %v, RDMA %v: %s; is so already: %s", c.groups, c.reserved, c.rdma, got, part)
			}
		}
	}
	cu := newCheckup(Options{Host: "h"})
	cu.reserved = func() bool { return false }
	cu.mount = new(transport.Client)
	if got := cu.authAdvice(&transport.AuthError{Stat: 5}); !strings.Contains(got, root) {
		t.Errorf("credentials refused, without a reserved port: %s; want %s", got, root)
	}
	if got := cu.statusAdvice(&nfsclient.StatusError{Status: 13}); !strings.Contains(got, root) {
		t.Errorf("NFS refused, without a reserved port: %s; want %s", got, root)
	}
}

// TestServerOnLoopbackAlone: the advice for a server that listens only on 127.0.0.1 is not to start
// one.
func TestServerOnLoopbackAlone(t *testing.T) {
	const serve, alone, where = "serve it", "on 127.0.0.1 alone: start it with --addr 192.0.2.7", "have it listen at 192.0.2.7"
	for _, c := range []struct {
		addr, local string
		listens     bool
		want, not   string
	}{
		{"192.0.2.7", "192.0.2.7", true, alone, serve},
		{"192.0.2.7", "192.0.2.7", false, serve, alone},
		{"192.0.2.7", "192.0.2.1", true, where, alone},
		{"127.0.0.1", "127.0.0.1", false, serve, where},
	} {
		cu := newCheckup(Options{Host: c.addr, Dial: func(_ context.Context, _, addr string) (net.Conn, error) {
			if c.listens && addr == "127.0.0.1:20049" {
				a, _ := net.Pipe()
				return a, nil
			}
			return nil, errors.New("refused")
		}})
		cu.addr, cu.local = c.addr, netip.MustParseAddr(c.local)
		got := cu.closedAdvice(t.Context(), portprobe.Refused, 20049, serve)
		if !strings.Contains(got, c.want) || strings.Contains(got, c.not) {
			t.Errorf("%s from %s, listens on loopback %v: %s; want %q, not %q", c.addr, c.local, c.listens, got, c.want, c.not)
		}
	}
}

// A narrow is a connection on a path that loses packets above a size: after the first such packet
// nothing arrives.
type narrow struct {
	net.Conn
	most, segment int
	lost          bool
}

func (n *narrow) Write(p []byte) (int, error) {
	n.lost = n.lost || min(len(p), n.segment) > n.most
	if n.lost {
		n.Conn.Close() // as TCP closes after some minutes without an answer
		return len(p), nil
	}
	return n.Conn.Write(p)
}

// narrowPath dials on a path that passes packets with a payload of up to most bytes, with TCP
// segments of up to segment bytes.
func narrowPath(most, segment int) portprobe.Dialer {
	return func(ctx context.Context, network, addr string) (net.Conn, error) {
		c, err := new(net.Dialer).DialContext(ctx, network, addr)
		if err != nil {
			return nil, err
		}
		return &narrow{Conn: c, most: most, segment: segment}, nil
	}
}

// TestPathThatLosesLargePackets: a path that loses large packets fails, though all small calls
// pass.
func TestPathThatLosesLargePackets(t *testing.T) {
	programs, _ := tree(t, me(), false)
	rdma, tcp := serve(t, programs...)
	for name, o := range map[string]Options{
		"TCP":  {TCP: true, TCPPort: tcp, RDMAPort: machine.Port(t)},
		"RDMA": {TCPPort: machine.Port(t), RDMAPort: rdma},
	} {
		t.Run(name, func(t *testing.T) {
			o.Dial = narrowPath(960, 1460)
			o.Segmented = func(n int) portprobe.Dialer { return narrowPath(960, n) }
			examine(t, o, false, map[string]wanted{latencyCheck: {OK, "NULL"}, pathCheck: {Fail, "packets of 840 bytes pass, and larger ones are lost"}})
			o.Segmented = func(int) portprobe.Dialer { return narrowPath(100, 1460) }
			examine(t, o, true, map[string]wanted{pathCheck: {Warn, "in packets of any size"}})
			o.Dial = narrowPath(1460, 1460)
			examine(t, o, true, map[string]wanted{pathCheck: {OK, "a call of 8 KiB passes"}})
		})
	}
}

// TestRoCEOfAServerOfIWARP: an iWARP-only server is not reported as unreachable over RoCE.
func TestRoCEOfAServerOfIWARP(t *testing.T) {
	programs, _ := tree(t, me(), false)
	rdma, tcp := serve(t, programs...)
	examine(t, Options{RDMAPort: rdma, TCPPort: tcp, Provider: nfsclient.RoCE}, false, map[string]wanted{portRDMA: {Fail, "it speaks iWARP there"}})
}
