// A Mapper with Debian's rpcbind and with our Table, and broadcasts by rpcbind.

package portmap

import (
	"context"
	"errors"
	"net/netip"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/nfsrdma/nfsrdma/test/machine"
	"github.com/nfsrdma/nfsrdma/test/must"
	"github.com/nfsrdma/nfsrdma/transport"
	"github.com/nfsrdma/nfsrdma/xdr"
	"github.com/nfsrdma/nfsrdma/xdr/rpcbind"
)

const (
	addProg = 0x20000a12
	addVers = 7
)

// serveAdd serves a program with ADD as procedure 1 over UDP, and over TCP at the same port.
func serveAdd(t *testing.T, addr string) netip.AddrPort {
	t.Helper()
	tcp, err := transport.Listen(addr)
	must.Succeed(t, err)
	at := netip.MustParseAddrPort(tcp.Addr().String())
	udp, err := transport.ListenUDP(at.String())
	must.Succeed(t, err)
	null := func(*transport.Call) error { return nil }
	add := func(c *transport.Call) error {
		a, b := c.Args.Uint32(), c.Args.Uint32()
		if err := c.ArgsErr(); err != nil {
			return err
		}
		c.Res.Uint32(a + b)
		return nil
	}
	s := transport.NewServer(transport.ServerConfig{}, &transport.Program{Name: "ADD", Number: addProg, Version: addVers,
		Procs: []transport.Procedure{{Name: "NULL", Run: null}, {Name: "ADD", Run: add}}})
	done := make(chan error, 2)
	go func() { done <- s.ServeTCP(tcp) }()
	go func() { done <- s.ServeUDP(udp) }()
	t.Cleanup(func() {
		if err := errors.Join(s.Shutdown(context.Background())); err != nil {
			t.Errorf("Shutdown: %v", err)
		}
		<-done
		<-done
	})
	return at
}

// numbers are arguments or results.
type numbers []uint32

func (n numbers) EncodeXDR(e *xdr.Encoder) {
	for _, v := range n {
		e.Uint32(v)
	}
}

func (n numbers) DecodeXDR(d *xdr.Decoder) {
	for i := range n {
		n[i] = d.Uint32()
	}
}

var addProc = transport.Proc{Prog: addProg, Vers: addVers, Proc: 1, Name: "ADD", MaxReply: 4}

// wantAddr fails unless a Mapper's answer is want; "": not registered.
func wantAddr(t *testing.T, m *Mapper, netid, want string) {
	t.Helper()
	at, err := m.Addr(context.Background(), addProg, addVers, netid)
	got := at.String()
	if errors.Is(err, ErrNotRegistered) {
		got, err = "", nil
	}
	if err != nil || got != want {
		t.Errorf("over %s, version %d: %s is at %q, %v; want %q", m.net, m.vers.Load(), netid, got, err, want)
	}
}

// wantPort fails unless the program has that port over the Mapper's own transport.
func wantPort(t *testing.T, m *Mapper, want uint16) {
	t.Helper()
	if port, err := m.Port(context.Background(), addProg, addVers); err != nil || port != want {
		t.Errorf("over %s at %v, version %d: port %d, %v; want %d", m.net, m.host, m.vers.Load(), port, err, want)
	}
}

// TestMapperWithRpcbind: Debian's rpcbind takes, returns and forgets registrations, by each version
// and over each transport; its rpcinfo finds and calls our server over UDP.
func TestMapperWithRpcbind(t *testing.T) {
	if !machine.Apart(t, "rpcbind", "rpcinfo") {
		return
	}
	defer startRpcbind(t)()
	ctx := context.Background()
	at := serveAdd(t, "127.0.0.1:0")
	port := netip.AddrPortFrom(netip.IPv6Unspecified(), at.Port())
	all := append(Bindings(addProg, addVers, "udp", port), Bindings(addProg, addVers, "tcp", port)...)
	local, err := DialLocal(ctx)
	must.Succeed(t, err)
	defer local.Close()
	for i := range all {
		must.Succeed(t, local.Set(ctx, &all[i]))
	}
	if err := local.Set(ctx, &rpcbind.Binding{Prog: addProg, Vers: addVers, Netid: "udp", Addr: "0.0.0.0.1.1"}); !errors.Is(err, ErrRefused) {
		t.Errorf("SET at a second address: %v, want %v", err, ErrRefused)
	}
	v4, v6 := at.String(), netip.AddrPortFrom(netip.IPv6Loopback(), at.Port()).String()
	for _, c := range []struct {
		network, addr string
		vers          uint32
		udp, tcp      string
		udp6          string
	}{
		{"udp", "127.0.0.1", 4, v4, v4, port.String()}, {"udp", "127.0.0.1", 3, v4, v4, port.String()}, {"udp", "127.0.0.1:111", 2, v4, v4, ""},
		{"tcp", "127.0.0.1", 4, v4, v4, port.String()}, {"tcp", "127.0.0.1:111", 2, v4, v4, ""},
		{"tcp", "::1", 2, "0.0.0.0:" + v4[10:], "0.0.0.0:" + v4[10:], ""},
		{"udp", "::1", 4, "0.0.0.0:" + v4[10:], "0.0.0.0:" + v4[10:], v6}, {"tcp", "[::1]:111", 3, "0.0.0.0:" + v4[10:], "0.0.0.0:" + v4[10:], v6},
	} {
		m, err := Dial(ctx, c.network, c.addr, transport.ClientConfig{})
		must.Succeed(t, err)
		m.vers.Store(c.vers)
		wantAddr(t, m, "udp", c.udp)
		wantAddr(t, m, "tcp", c.tcp)
		wantAddr(t, m, "udp6", c.udp6)
		wantAddr(t, m, "rdma", "")
		wantPort(t, m, at.Port())
		m.Close()
	}
	byName, err := transport.DialTCP(ctx, "localhost:111", transport.ClientConfig{})
	must.Succeed(t, err)
	defer byName.Close()
	wantPort(t, New(byName, "tcp"), at.Port())
	must.Succeed(t, local.Unset(ctx, &all[3]))
	six, err := Dial(ctx, "tcp", "::1", transport.ClientConfig{})
	must.Succeed(t, err)
	defer six.Close()
	wantPort(t, six, at.Port())
	if port, err := six.Port(ctx, addProg+1, addVers); !errors.Is(err, ErrNotRegistered) {
		t.Errorf("a program that is not there: port %d, %v; want %v", port, err, ErrNotRegistered)
	}
	out, err := exec.Command("rpcinfo", "-T", "udp", "127.0.0.1", "536873490", "7").CombinedOutput()
	if err != nil || !strings.Contains(string(out), "ready and waiting") {
		t.Errorf("rpcinfo: %v, %s", err, out)
	}
	must.Succeed(t, local.Unset(ctx, &all[0]))

	// Version 2 over loopback: SET, and UNSET of all transports.
	old, err := dialLocal(ctx, t.TempDir()+"/none")
	must.Succeed(t, err)
	defer old.Close()
	old.vers.Store(rpcbind.Version)
	wantAddr(t, old, "udp", "")
	must.Succeed(t, old.Set(ctx, &all[0]))
	wantAddr(t, old, "udp", v4)
	must.Succeed(t, old.Unset(ctx, &all[0]))
	wantAddr(t, old, "udp", "")
	wantAddr(t, old, "tcp", "")
	if err := old.Set(ctx, &all[1]); !errors.Is(err, ErrRefused) {
		t.Errorf("SET of udp6 by version 2: %v, want %v", err, ErrRefused)
	}
}

// TestBroadcastByRpcbind: rpcbind forwards our broadcast's calls to our server, and the replies to
// us. It also answers a plain broadcast.
func TestBroadcastByRpcbind(t *testing.T) {
	if !machine.Apart(t, "rpcbind", "rpcinfo", "ip") {
		return
	}
	for _, args := range []string{"link add v0 type veth peer name v1", "addr add 192.0.2.1/24 broadcast + dev v0", "link set v0 up", "link set v1 up"} {
		if out, err := exec.Command("ip", strings.Fields(args)...).CombinedOutput(); err != nil {
			t.Fatalf("ip %s: %v, %s", args, err, out)
		}
	}
	defer startRpcbind(t, "-r")()
	ctx := context.Background()
	at := serveAdd(t, "0.0.0.0:0")
	local, err := DialLocal(ctx)
	must.Succeed(t, err)
	defer local.Close()
	for _, b := range Bindings(addProg, addVers, "udp", at) {
		must.Succeed(t, local.Set(ctx, &b))
	}
	to, err := transport.BroadcastAddrs(rpcbind.Port)
	must.Succeed(t, err)
	must.Equal(t, "broadcast addresses", len(to), 1)
	must.Equal(t, "broadcast address", to[0].String(), "192.0.2.255:111")
	for vers := uint32(rpcbind.Version); vers <= rpcbind.Version4; vers++ {
		sum := numbers{0}
		var found netip.AddrPort
		ctx, cancel := context.WithTimeout(ctx, time.Minute)
		err := Broadcast(ctx, &transport.Broadcast{To: to}, vers, &addProc, numbers{40, 2}, sum, func(at netip.AddrPort) bool {
			found = at
			return false
		})
		cancel()
		if err != nil || sum[0] != 42 || found.Port() != at.Port() {
			t.Errorf("version %d: sum %d of %v, %v; want 42 of port %d", vers, sum[0], found, err, at.Port())
		}
	}
	// Plain broadcast: GETPORT of all port mappers.
	var port rpcbind.PortRes
	getport := &transport.Proc{Prog: rpcbind.Program, Vers: 2, Proc: rpcbind.ProcGetport, Name: "GETPORT", MaxReply: 4}
	ask := &rpcbind.Mapping{Prog: addProg, Vers: addVers, Prot: rpcbind.UDP}
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	err = (&transport.Broadcast{To: to}).Call(ctx, getport, ask, &port, func(netip.AddrPort) bool { return false })
	if err != nil || port.Port != uint32(at.Port()) {
		t.Errorf("GETPORT by broadcast: %d, %v; want %d", port.Port, err, at.Port())
	}
}

// TestMapperFallsBack: the newest version of an old port mapper is used, over UDP and TCP.
func TestMapperFallsBack(t *testing.T) {
	table := NewTable(append(Bindings(addProg, addVers, "udp", netip.MustParseAddrPort("0.0.0.0:700")), Bindings(addProg, addVers, "tcp", netip.MustParseAddrPort("0.0.0.0:701"))...))
	for newest := rpcbind.Version; newest <= rpcbind.Version4; newest++ {
		s := transport.NewServer(transport.ServerConfig{}, table.Programs()[:newest-1]...)
		tcp, err := transport.Listen("127.0.0.1:0")
		must.Succeed(t, err)
		udp, err := transport.ListenUDP(tcp.Addr().String())
		must.Succeed(t, err)
		done := make(chan error, 2)
		go func() { done <- s.ServeTCP(tcp) }()
		go func() { done <- s.ServeUDP(udp) }()
		for _, network := range []string{"udp", "tcp"} {
			m, err := Dial(context.Background(), network, tcp.Addr().String(), transport.ClientConfig{})
			must.Succeed(t, err)
			wantAddr(t, m, "udp", "127.0.0.1:700")
			wantAddr(t, m, "tcp", "127.0.0.1:701")
			wantAddr(t, m, "tcp6", "")
			must.Equal(t, "version", m.vers.Load(), uint32(newest))
			all, err := m.Dump(context.Background())
			if err != nil || len(all) != 2 {
				t.Errorf("DUMP of version %d over %s: %v, %v; want 2", newest, network, all, err)
			}
			m.Close()
		}
		if err := s.Shutdown(context.Background()); err != nil {
			t.Errorf("Shutdown: %v", err)
		}
		<-done
		<-done
	}
}

// TestForwardedResults: replies of CALLIT that do not decode are refused.
func TestForwardedResults(t *testing.T) {
	good := map[uint32]xdr.Marshaler{
		2: &rpcbind.CallRes{Port: 700, Results: []byte{0, 0, 0, 7}},
		3: &rpcbind.RemoteRes{Addr: "192.0.2.1.2.188", Results: []byte{0, 0, 0, 7}},
	}
	for vers, m := range good {
		e := xdr.NewEncoder(nil)
		m.EncodeXDR(e)
		for n := range e.Bytes() {
			f := forwarded{vers: vers, res: numbers{0}}
			d := xdr.NewDecoder(e.Bytes()[:n])
			if f.DecodeXDR(d); d.Err() == nil {
				t.Errorf("version %d: %d of %d bytes are taken", vers, n, e.Len())
			}
		}
		f := forwarded{vers: vers, res: numbers{0}}
		d := xdr.NewDecoder(e.Bytes())
		if f.DecodeXDR(d); d.Err() != nil || f.at.Port() != 700 || f.res.(numbers)[0] != 7 {
			t.Errorf("version %d: %v, %v, %v", vers, f.at, f.res, d.Err())
		}
	}
}
