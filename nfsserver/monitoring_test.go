// How a server describes its clients and exports, and how it drains.

package nfsserver_test

import (
	"context"
	"net"
	"slices"
	"testing"
	"time"

	"github.com/nfsrdma/nfsrdma/nfsserver"
	"github.com/nfsrdma/nfsrdma/rnic"
	"github.com/nfsrdma/nfsrdma/rnic/iwarp"
	"github.com/nfsrdma/nfsrdma/transport"
	"github.com/nfsrdma/nfsrdma/xdr/nfs3"
)

// of returns the only client in a list that uses a provider.
func of(t *testing.T, list []nfsserver.Client, provider string) nfsserver.Client {
	t.Helper()
	list = slices.DeleteFunc(slices.Clone(list), func(c nfsserver.Client) bool { return c.Provider != provider })
	if len(list) != 1 {
		t.Fatalf("%d connections of provider %q", len(list), provider)
	}
	return list[0]
}

// TestClients: connections are listed with their traffic, exports and users, with rules and
// without. Ended connections stay in the counters.
func TestClients(t *testing.T) {
	h := serve(t, nfsserver.Options{Squash: believeAll, Exports: []nfsserver.Export{{Name: "/plain", FS: memory(t)},
		{Name: "/ruled", FS: memory(t), Rules: rules(t, "/ruled *(rw,insecure,no_root_squash)")},
		{Name: "/other", FS: memory(t), Rules: rules(t, "/other 10.0.0.1(rw)")}}})
	begin := time.Now()
	tcp, rdma := h.dial(user), h.dialRDMA(root)
	tcp.mount("/plain")
	rdma.mount("/ruled")
	f := rdma.file(rdma.root, "f", 0o666)
	for range 8 {
		rdma.want("WRITE", rdma.write(f, 0, string(make([]byte, 1<<18)), nfs3.Unstable).Status, nfs3.OK)
	}
	tcp.mnt("/other") // this mount is refused
	for i, cred := range []transport.Cred{root, {}, user} {
		getattr := transport.Proc{Prog: nfs3.Program, Vers: nfs3.Version, Proc: nfs3.ProcGetattr, Name: "GETATTR", MaxReply: 4 << 10}
		for range i + 2 {
			var res nfs3.GetattrRes
			if err := tcp.rpc.CallAs(t.Context(), transport.NewAuth(cred), &getattr, &nfs3.GetattrArgs{FH: tcp.root}, &res, nil, 0); err != nil {
				t.Fatalf("CallAs: %v", err)
			}
		}
	}

	list, ended := h.svc.Clients()
	if ended != (transport.Traffic{}) {
		t.Errorf("moved by connections that have ended: %+v", ended)
	}
	wantTCPClient(t, of(t, list, ""), begin)
	wantRDMAClient(t, of(t, list, "iwarp"))

	if err := h.svc.Replace([]nfsserver.Export{{Name: "/ruled", Rules: rules(t, "/ruled *(ro,insecure) 10.0.0.1")}}); err != nil {
		t.Fatalf("Replace: %v", err)
	}
	list, _ = h.svc.Clients()
	if c := of(t, list, ""); len(c.Exports) != 0 || len(c.Users) != 3 {
		t.Errorf("an export that went is used: %v; its users are %v", c.Exports, c.Users)
	}
	before := of(t, list, "iwarp")
	rdma.rpc.Close()
	for end := time.Now().Add(time.Minute); len(list) > 1 && time.Now().Before(end); time.Sleep(time.Millisecond) {
		list, ended = h.svc.Clients()
	}
	if len(list) != 1 || ended != before.Traffic {
		t.Errorf("%d connections, moved by those that have ended: %+v, want %+v", len(list), ended, before.Traffic)
	}
}

// wantTCPClient checks the TCP connection of TestClients, which was opened after begin.
func wantTCPClient(t *testing.T, c nfsserver.Client, begin time.Time) {
	t.Helper()
	if !slices.Equal(c.Exports, []string{"/plain"}) || c.RDMA != nil {
		t.Errorf("over TCP: exports %v, RDMA %+v, want /plain and none", c.Exports, c.RDMA)
	}
	if c.Calls < 2 || c.In < 80 || c.Out < 48 {
		t.Errorf("over TCP: %+v, want at least 2 calls, 80 bytes in and 48 out", c.Traffic)
	}
	if c.Opened.Before(begin.Add(-time.Minute)) {
		t.Errorf("opened %v, want about %v", c.Opened, begin)
	}
	if c.Idle < 0 || c.Idle > time.Since(begin)+time.Minute {
		t.Errorf("idle for %v, want at most the test's time", c.Idle)
	}
	users := slices.Clone(c.Users)
	for i := range users {
		if i > 0 {
			users[i].Idle = 0
		}
	}
	if want := []nfsserver.User{{UID: 1000, Flavor: 1, Calls: c.Calls - 5, Idle: c.Idle}, {Anonymous: true, Calls: 3}, {Flavor: 1, Calls: 2}}; !slices.Equal(users, want) {
		t.Errorf("users %+v, want %+v", users, want)
	}
	if c.OtherCalls != 0 {
		t.Errorf("%d calls of other users, want 0", c.OtherCalls)
	}
}

// wantRDMAClient checks the RDMA connection of TestClients.
func wantRDMAClient(t *testing.T, c nfsserver.Client) {
	t.Helper()
	// the NULL call at the start of an RDMA connection does not count
	if len(c.Users) != 1 {
		t.Fatalf("over RDMA: users %+v, want 1", c.Users)
	}
	if u := c.Users[0]; u.UID != 0 || u.Calls != c.Calls-1 {
		t.Errorf("over RDMA: user %+v, want uid 0 with %d calls", u, c.Calls-1)
	}
	if !slices.Equal(c.Exports, []string{"/ruled"}) {
		t.Errorf("over RDMA: exports %v, want /ruled", c.Exports)
	}
	if c.Calls < 10 || c.Out > 8<<10 {
		t.Errorf("over RDMA: %+v, want at least 10 calls and at most 8 KiB out", c.Traffic)
	}
	if c.In < 8<<18 || c.In > 9<<18 {
		t.Errorf("over RDMA: %d bytes in, want %d to %d", c.In, 8<<18, 9<<18)
	}
	i := c.RDMA
	if i == nil {
		t.Fatal("over RDMA: no parameters")
	}
	if i.Granted != 128 || i.InUse < 0 || i.InUse > 1 {
		t.Errorf("RDMA: %d credits in use of %d, want 0 or 1 of 128", i.InUse, i.Granted)
	}
	if got := [3]bool{i.PrivateData, i.CRC, i.Thresholds.Invalidate}; got != [3]bool{true, true, true} {
		t.Errorf("RDMA: private data, CRC and remote invalidation %v, want all", got)
	}
}

// TestExportsInForce: the list has the rules in force, and whether file systems answer.
func TestExportsInForce(t *testing.T) {
	hung := make(chan struct{})
	h := serve(t, nfsserver.Options{Exports: []nfsserver.Export{{Name: "/plain", FS: memory(t)},
		{Name: "/ruled", FS: memory(t), ReadOnly: true, Rules: rules(t, "/ruled 10.0.0.0/8(rw,async,all_squash,no_acl,anonuid=7,crossmnt) *(ro,crossmnt)")},
		{Name: "/late", Open: func() (nfsserver.FS, error) { <-hung; return memory(t), nil }}}})
	defer close(hung)
	list := h.svc.Exports(time.Minute)
	if len(list) != 3 {
		t.Fatalf("%+v", list)
	}
	for i, open := range []bool{true, true, false} {
		if e := list[i]; e.Open != open || e.Answers != open || e.Err != nil {
			t.Errorf("%s: open %v, answers %v, error %v, want %v twice and none", e.Name, e.Open, e.Answers, e.Err, open)
		}
	}
	for i, want := range []string{"* rw,sync,insecure,root_squash", "10.0.0.0/8 ro,async,secure,root_squash,all_squash,no_acl,anonuid=7,anongid=65534"} {
		if r := list[i].Rules; len(r) != i+1 || r[0].Spec+" "+r[0].Options.String() != want {
			t.Errorf("%s: rules %+v, want %d, the first %q", list[i].Name, r, i+1, want)
		}
	}
	if !list[1].Whole.CrossMounts {
		t.Errorf("%s: no crossmnt", list[1].Name)
	}
}

// TestDrain: a drained server refuses new clients on all transports. Connected clients continue,
// also with new connections. When draining is undone, the server accepts all clients again.
func TestDrain(t *testing.T) {
	h := serve(t, nfsserver.Options{Squash: believeAll, Exports: []nfsserver.Export{{Name: "/plain", FS: memory(t)}}})
	old := h.dialFrom("127.0.0.1", user)
	for _, c := range old {
		c.mount("/plain")
	}
	h.svc.Drain(true)
	if !h.svc.Draining() {
		t.Error("the server does not say that it is drained")
	}
	refused := func() (n int) {
		for _, over := range []string{"tcp", "rdma"} {
			if h.calls("127.0.0.2", over) != nil {
				n++
			}
		}
		return n
	}
	if n := refused(); n != 2 {
		t.Errorf("a new client is refused over %d transports of 2", n)
	}
	for name, c := range old {
		c.want("GETATTR over "+name, c.getattr(c.root).Status, nfs3.OK)
	}
	for name, c := range h.dialFrom("127.0.0.1", user) {
		c.mount("/plain")
		c.want("GETATTR over another connection, "+name, c.getattr(c.root).Status, nfs3.OK)
	}
	h.svc.Drain(false)
	if n := refused(); n != 0 || h.svc.Draining() {
		t.Errorf("after it was undone a new client is refused over %d transports", n)
	}
}

// calls connects from an address and makes a call.
func (h *host) calls(from, over string) error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	d := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(from)}}
	cfg := transport.ClientConfig{Cred: user, Dial: d.DialContext, MaxRetries: -1}
	var rpc *transport.Client
	var err error
	if over == "tcp" {
		rpc, err = transport.DialTCP(ctx, h.svc.TCPAddr.String(), cfg)
	} else {
		rpc, err = transport.DialRDMA(ctx, iwarp.Open(rnic.DeviceConfig{Dial: d.DialContext}), h.svc.RDMAAddr.String(), cfg)
	}
	if err != nil {
		return err
	}
	defer rpc.Close()
	return rpc.Call(ctx, &transport.Proc{Prog: nfs3.Program, Vers: nfs3.Version, Name: "NULL"}, nil, nil, nil, 0)
}
