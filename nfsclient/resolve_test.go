// Names with several addresses: a Client stays with one of them.

package nfsclient

import (
	"context"
	"net"
	"net/netip"
	"testing"

	"github.com/nfsrdma/nfsrdma/transport"
	"github.com/nfsrdma/nfsrdma/xdr/mount3"
	"github.com/nfsrdma/nfsrdma/xdr/nfs3"
)

// serveAt serves MOUNT and NFS on a port of an address; whose counts the calls.
func serveAt(t *testing.T, addr string, whose *int) string {
	t.Helper()
	null := transport.Procedure{Name: "NULL", Inline: true, Idempotent: true, Run: func(*transport.Call) error { *whose++; return nil }}
	list := transport.Procedure{Name: "EXPORT", Inline: true, Idempotent: true, Run: func(c *transport.Call) error {
		*whose++
		(&mount3.ExportRes{}).EncodeXDR(c.Res)
		return nil
	}}
	procs := make([]transport.Procedure, mount3.ProcExport+1)
	procs[mount3.ProcExport] = list
	s := transport.NewServer(transport.ServerConfig{},
		&transport.Program{Name: "NFS", Number: nfs3.Program, Version: nfs3.Version, Procs: []transport.Procedure{null}},
		&transport.Program{Name: "MOUNT", Number: mount3.Program, Version: mount3.Version, Procs: procs})
	l, err := net.Listen("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() { defer close(done); s.ServeTCP(l) }()
	t.Cleanup(func() { s.Shutdown(context.Background()); <-done })
	return l.Addr().String()
}

// TestOneAddressOfManyIsUsed gives a name three addresses, nobody at the first and a
// server of its own at either of the others, in another order at each look-up.
func TestOneAddressOfManyIsUsed(t *testing.T) {
	var second, third int
	_, port, _ := net.SplitHostPort(serveAt(t, "127.0.0.2:0", &second))
	serveAt(t, "127.0.0.3:"+port, &third)
	lookups := 0
	was := resolve
	defer func() { resolve = was }()
	resolve = func(context.Context, string, string) ([]netip.Addr, error) {
		lookups++
		a, b, c := netip.MustParseAddr("127.0.0.9"), netip.MustParseAddr("127.0.0.2"), netip.MustParseAddr("127.0.0.3")
		if lookups%2 == 0 {
			b, c = c, b
		}
		return []netip.Addr{a, b, c}, nil
	}
	c, err := Dial(t.Context(), "name:"+port, Options{Transport: TCP, Conns: 4})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	for range 8 {
		if err := c.Null(t.Context()); err != nil {
			t.Fatal(err)
		}
		if _, err := c.Exports(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if lookups != 1 || second != 16 || third != 0 {
		t.Errorf("%d look-ups, %d calls at one, %d at the other; want 1, 16, 0", lookups, second, third)
	}
}
