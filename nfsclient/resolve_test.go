// Servers with several addresses, of which a Client uses one, and servers that reply JUKEBOX.

package nfsclient

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nfsrdma/nfsrdma/test/machine"
	"github.com/nfsrdma/nfsrdma/transport"
	"github.com/nfsrdma/nfsrdma/xdr/mount3"
	"github.com/nfsrdma/nfsrdma/xdr/nfs3"
)

// serveAt serves MOUNT and NFS at an address and port, and counts the calls in whose.
func serveAt(t *testing.T, addr string, whose *atomic.Int32) string {
	t.Helper()
	null := transport.Procedure{Name: "NULL", Inline: true, Idempotent: true, Run: func(*transport.Call) error { whose.Add(1); return nil }}
	list := transport.Procedure{Name: "EXPORT", Inline: true, Idempotent: true, Run: func(c *transport.Call) error {
		whose.Add(1)
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
		t.Fatalf("listen: %v", err)
	}
	done := make(chan struct{})
	go func() { defer close(done); s.ServeTCP(l) }()
	t.Cleanup(func() { s.Shutdown(context.Background()); <-done })
	return l.Addr().String()
}

// A name has three addresses, in another order at each look-up. The first has no server, and the
// other two have different servers. A Client uses only one.
func TestOneAddressOfManyIsUsed(t *testing.T) {
	var second, third atomic.Int32
	port := strconv.Itoa(machine.Port(t)) // the same port on all three addresses
	serveAt(t, "127.0.0.2:"+port, &second)
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
		t.Fatalf("dial: %v", err)
	}
	defer c.Close()
	for range 8 {
		if err := c.Null(t.Context()); err != nil {
			t.Fatalf("null: %v", err)
		}
		if _, err := c.Exports(t.Context()); err != nil {
			t.Fatalf("exports: %v", err)
		}
	}
	got := [3]int{int(lookups), int(second.Load()), int(third.Load())}
	if want := [3]int{1, 16, 0}; got != want {
		t.Errorf("look-ups, calls at one server and at the other: got %v, want %v", got, want)
	}
}

// Endless JUKEBOX is retried for ten times CallTimeout, then its status is returned.
func TestJukeboxEnds(t *testing.T) {
	procs := make([]transport.Procedure, nfs3.ProcGetattr+1)
	var asked atomic.Int32
	procs[nfs3.ProcGetattr] = transport.Procedure{Name: "GETATTR", Inline: true, Idempotent: true, Run: func(c *transport.Call) error {
		asked.Add(1)
		c.Res.Uint32(uint32(nfs3.ErrJukebox))
		return nil
	}}
	s := transport.NewServer(transport.ServerConfig{}, &transport.Program{Name: "NFS", Number: nfs3.Program, Version: nfs3.Version, Procs: procs})
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatalf("listen: %v", err)
	}
	done := make(chan struct{})
	go func() { defer close(done); s.ServeTCP(l) }()
	defer func() { s.Shutdown(context.Background()); <-done }()
	c, err := Dial(t.Context(), l.Addr().String(), Options{Transport: TCP})
	if err != nil {
		t.Fatalf("dial: %v", err)
	}
	defer c.Close()
	// set after the Dial, so it limits only the retries after JUKEBOX
	c.opt.CallTimeout = 40 * time.Millisecond
	var status *StatusError
	if _, err = c.Getattr(t.Context(), nfs3.FH{}); !errors.As(err, &status) || status.Status != nfs3.ErrJukebox {
		t.Errorf("%v, want NFS3ERR_JUKEBOX", err)
	}
	// calls are made at once and after 50, 150 and 350 ms, or later on a busy machine
	if n := asked.Load(); n < 2 || n > 4 {
		t.Errorf("asked %d times, want 2 to 4", n)
	}
}
