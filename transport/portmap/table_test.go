// The Table by itself, and as a served program.

package portmap

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"os"
	"slices"
	"testing"

	"github.com/nfsrdma/nfsrdma/transport"
	"github.com/nfsrdma/nfsrdma/xdr"
	"github.com/nfsrdma/nfsrdma/xdr/rpcbind"
)

func TestBindings(t *testing.T) {
	for _, c := range []struct {
		at   string
		want []rpcbind.Binding
	}{
		{"192.0.2.1:2049", []rpcbind.Binding{{Prog: 1, Vers: 3, Netid: "tcp", Addr: "192.0.2.1.8.1"}}},
		{"0.0.0.0:2049", []rpcbind.Binding{{Prog: 1, Vers: 3, Netid: "tcp", Addr: "0.0.0.0.8.1"}}},
		{"[fe80::1%eth0]:2049", []rpcbind.Binding{{Prog: 1, Vers: 3, Netid: "tcp6", Addr: "fe80::1.8.1"}}},
		{"[::]:2049", []rpcbind.Binding{{Prog: 1, Vers: 3, Netid: "tcp", Addr: "0.0.0.0.8.1"}, {Prog: 1, Vers: 3, Netid: "tcp6", Addr: "::.8.1"}}},
	} {
		if got := Bindings(1, 3, "tcp", netip.MustParseAddrPort(c.at)); !slices.Equal(got, c.want) {
			t.Errorf("%s: %v, want %v", c.at, got, c.want)
		}
	}
}

func TestTable(t *testing.T) {
	own := rpcbind.Binding{Prog: 100003, Vers: 3, Netid: "tcp", Addr: "0.0.0.0.8.1"}
	table := NewTable([]rpcbind.Binding{own})
	set := func(b rpcbind.Binding, want bool) {
		t.Helper()
		if got := table.set(&b, "7"); got != want {
			t.Errorf("set %v: %v", b, got)
		}
	}
	set(own, true) // unchanged
	set(rpcbind.Binding{Prog: 100003, Vers: 3, Netid: "tcp", Addr: "0.0.0.0.8.2"}, false)
	if table.unset(100003, 3, "", superuser) {
		t.Error("somebody has taken out what is not his")
	}
	set(rpcbind.Binding{Prog: 7, Vers: 2, Netid: "udp6", Addr: "::.1.0"}, true)
	set(rpcbind.Binding{Prog: 7, Vers: 4, Netid: "udp6", Addr: "::.2.0"}, true)
	for _, b := range []rpcbind.Binding{
		{Prog: 8, Netid: "sctp", Addr: "0.0.0.0.1.1"}, {Prog: 8, Netid: "tcp", Addr: "::.1.1"}, {Prog: 8, Netid: "tcp6", Addr: "0.0.0.0.1.1"},
		{Prog: 8, Netid: "tcp", Addr: "/run/x"}, {Prog: 8, Netid: "tcp", Addr: "0.0.0.0.0.0"}, {Prog: 8, Addr: "0.0.0.0.1.1"},
	} {
		set(b, false)
	}
	for _, c := range []struct {
		vers  uint32
		exact bool
		port  uint16 // 0: none
	}{{2, true, 256}, {4, true, 512}, {3, true, 0}, {3, false, 256}, {9, false, 256}} {
		if at, ok := table.find(service{7, c.vers, "udp6"}, c.exact); ok != (c.port != 0) || at.Port() != c.port {
			t.Errorf("version %d, exact %v: %v, %v", c.vers, c.exact, at, ok)
		}
	}
	for _, c := range []struct {
		vers         uint32
		netid, owner string
		want         bool
	}{{2, "", "8", false}, {2, "udp6", "7", true}, {2, "", "7", false}, {4, "", superuser, true}} {
		if done := table.unset(7, c.vers, c.netid, c.owner); done != c.want {
			t.Errorf("UNSET of version %d over %q by %s: %v, want %v", c.vers, c.netid, c.owner, done, c.want)
		}
	}
	for i := range uint32(maxRows + 10) {
		set(rpcbind.Binding{Prog: 1000 + i, Vers: 1, Netid: "tcp", Addr: "0.0.0.0.1.1"}, i < maxRows-1)
	}
}

// serveTable serves a Table over TCP and UDP.
func serveTable(t testing.TB, table *Table, owner transport.Owner) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatalf("net.Listen: %v", err)
	}
	s := transport.NewServer(transport.ServerConfig{Owner: func(local, remote netip.AddrPort) transport.Owner { return owner }}, table.Programs()...)
	done := make(chan error, 1)
	go func() { done <- s.ServeTCP(l) }()
	t.Cleanup(func() {
		if err := errors.Join(s.Shutdown(context.Background())); err != nil {
			t.Errorf("close: %v", err)
		}
		<-done
	})
	return l.Addr().String()
}

type asker struct {
	t testing.TB
	c *transport.Client
}

func ask(t testing.TB, addr string) asker {
	t.Helper()
	c, err := transport.DialTCP(context.Background(), addr, transport.ClientConfig{})
	if err != nil {
		t.Fatalf("transport.DialTCP: %v", err)
	}
	t.Cleanup(func() { c.Close() })
	return asker{t, c}
}

func (a asker) call(vers, proc uint32, args xdr.Marshaler, res xdr.Unmarshaler) {
	a.t.Helper()
	p := transport.Proc{Prog: rpcbind.Program, Vers: vers, Proc: proc, Name: "test", MaxReply: 1 << 16}
	if err := a.c.Call(context.Background(), &p, args, res, nil, 0); err != nil {
		a.t.Errorf("version %d, procedure %d: %v", vers, proc, err)
	}
}

type none struct{}

func (none) EncodeXDR(*xdr.Encoder) {}
func (none) DecodeXDR(*xdr.Decoder) {}

func TestPrograms(t *testing.T) {
	table := NewTable(append(Bindings(100003, 3, "tcp", netip.MustParseAddrPort("[::]:2049")), Bindings(100003, 3, "rdma", netip.MustParseAddrPort("[::]:20049"))...))
	root := ask(t, serveTable(t, table, transport.Owner{Kind: transport.OwnerLocal}))
	for vers := uint32(2); vers <= 4; vers++ {
		root.call(vers, rpcbind.ProcNull, none{}, none{})
	}
	// Version 2 as NFS clients use it, and its replies for missing programs.
	var port rpcbind.PortRes
	for _, c := range []struct {
		m    rpcbind.Mapping
		want uint32
	}{{rpcbind.Mapping{Prog: 100003, Vers: 3, Prot: rpcbind.TCP}, 2049}, {rpcbind.Mapping{Prog: 100003, Vers: 4, Prot: rpcbind.TCP}, 2049},
		{rpcbind.Mapping{Prog: 100003, Vers: 3, Prot: rpcbind.UDP}, 0}, {rpcbind.Mapping{Prog: 100004, Vers: 3, Prot: rpcbind.TCP}, 0}} {
		if root.call(2, rpcbind.ProcGetport, &c.m, &port); port.Port != c.want {
			t.Errorf("%+v: port %d", c.m, port.Port)
		}
	}
	var done rpcbind.BoolRes
	root.call(2, rpcbind.ProcSet, &rpcbind.Mapping{Prog: 100024, Vers: 1, Prot: rpcbind.UDP, Port: 700}, &done)
	root.call(3, rpcbind.ProcSet, &rpcbind.Binding{Prog: 100024, Vers: 1, Netid: "udp6", Addr: "::.2.188"}, &done)
	var dump rpcbind.DumpRes
	if root.call(2, rpcbind.ProcDump, none{}, &dump); !slices.Equal(dump.Mappings, []rpcbind.Mapping{{Prog: 100003, Vers: 3, Prot: rpcbind.TCP, Port: 2049}, {Prog: 100024, Vers: 1, Prot: rpcbind.UDP, Port: 700}}) {
		t.Errorf("DUMP: %v", dump.Mappings)
	}
	var list rpcbind.ListRes
	if root.call(4, rpcbind.ProcDump, none{}, &list); len(list.Bindings) != 6 || list.Bindings[1] != (rpcbind.Binding{Prog: 100003, Vers: 3, Netid: "rdma6", Addr: "::.78.81", Owner: superuser}) {
		t.Errorf("DUMP: %v", list.Bindings)
	}
	var addr rpcbind.AddrRes
	for _, c := range []struct {
		proc uint32
		b    rpcbind.Binding
		want string
	}{
		{rpcbind.ProcGetaddr, rpcbind.Binding{Prog: 100003, Vers: 3, Netid: "rdma", Addr: "192.0.2.7.0.111"}, "192.0.2.7.78.81"},
		{rpcbind.ProcGetaddr, rpcbind.Binding{Prog: 100003, Vers: 3, Netid: "tcp6", Addr: "192.0.2.7.0.111"}, "::.8.1"},
		// by the call's transport
		{rpcbind.ProcGetaddr, rpcbind.Binding{Prog: 100003, Vers: 4}, "0.0.0.0.8.1"},
		{rpcbind.ProcGetversaddr, rpcbind.Binding{Prog: 100003, Vers: 4}, ""},
		{rpcbind.ProcGetversaddr, rpcbind.Binding{Prog: 100003, Vers: 3}, "0.0.0.0.8.1"},
	} {
		if root.call(4, c.proc, &c.b, &addr); addr.Addr != c.want {
			t.Errorf("%d %+v: %q, want %q", c.proc, c.b, addr.Addr, c.want)
		}
	}
	var now rpcbind.TimeRes
	if root.call(4, rpcbind.ProcGettime, none{}, &now); now.Seconds == 0 {
		t.Error("GETTIME: 1970")
	}
	root.call(2, rpcbind.ProcUnset, &rpcbind.Mapping{Prog: 100024, Vers: 1}, &done)
	root.call(4, rpcbind.ProcUnset, &rpcbind.Binding{Prog: 100024, Vers: 1, Netid: "udp6"}, &done)
	if root.call(2, rpcbind.ProcUnset, &rpcbind.Mapping{Prog: 100003, Vers: 3}, &done); done.OK || len(table.list()) != 4 {
		t.Errorf("%v, %v", done, table.list())
	}
}

// A caller other than local root and the server's user changes nothing.
func TestOthersChangeNothing(t *testing.T) {
	for _, owner := range []transport.Owner{{Kind: transport.OwnerRemote}, {}, {Kind: transport.OwnerLocal, UID: uint32(os.Geteuid()) + 1}} {
		table := NewTable(nil)
		table.set(&rpcbind.Binding{Prog: 9, Vers: 1, Netid: "tcp", Addr: "0.0.0.0.1.1"}, superuser)
		other := ask(t, serveTable(t, table, owner))
		done := rpcbind.BoolRes{OK: true}
		other.call(2, rpcbind.ProcSet, &rpcbind.Mapping{Prog: 7, Vers: 1, Prot: rpcbind.TCP, Port: 7}, &done)
		is := done.OK
		other.call(4, rpcbind.ProcSet, &rpcbind.Binding{Prog: 7, Vers: 1, Netid: "tcp", Addr: "0.0.0.0.1.1", Owner: "0"}, &done)
		is = is || done.OK
		other.call(2, rpcbind.ProcUnset, &rpcbind.Mapping{Prog: 9, Vers: 1}, &done)
		is = is || done.OK
		other.call(4, rpcbind.ProcUnset, &rpcbind.Binding{Prog: 9, Vers: 1, Owner: superuser}, &done)
		if is || done.OK {
			t.Errorf("%v: a change succeeded", owner)
		}
		if list := table.list(); len(list) != 1 {
			t.Errorf("%v: programs %v, want 1", owner, list)
		}
	}
}
