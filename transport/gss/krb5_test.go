// Kerberos 5 end to end: our client and server in a realm of an MIT KDC, over TCP and RDMA.

package gss_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/nfsrdma/nfsrdma/rnic"
	"github.com/nfsrdma/nfsrdma/rnic/iwarp"
	"github.com/nfsrdma/nfsrdma/test/machine/realm"
	"github.com/nfsrdma/nfsrdma/test/must"
	"github.com/nfsrdma/nfsrdma/transport"
	"github.com/nfsrdma/nfsrdma/transport/gss"
	"github.com/nfsrdma/nfsrdma/transport/gss/krb5"
	"github.com/nfsrdma/nfsrdma/xdr"
	"github.com/nfsrdma/nfsrdma/xdr/oncrpc"
)

const (
	krbProg   = 0x20000a30
	krbCaller = 1 // the caller's principal and flavor
	krbRead   = 2
	krbWrite  = 3
)

// krbProgram returns a program that answers CALLER with the caller, and READ and WRITE with items.
func krbProgram() *transport.Program {
	data := make([]byte, 1<<20)
	for i := range data {
		data[i] = byte(i * 13)
	}
	return &transport.Program{Name: "KRB", Number: krbProg, Version: 1, Procs: []transport.Procedure{
		{Name: "NULL", Inline: true, Idempotent: true, Run: func(*transport.Call) error { return nil }},
		{Name: "CALLER", Inline: true, Idempotent: true, Run: func(c *transport.Call) error {
			c.Res.String(fmt.Sprint(c.Cred.Principal, " ", c.Cred.UID, " ", c.Cred.Flavor))
			return nil
		}},
		{Name: "READ", Idempotent: true, Run: func(c *transport.Call) error {
			b := c.Buffer(int(c.Args.Uint32()))
			copy(b, data)
			c.Res.Item(b)
			return c.ArgsErr()
		}},
		{Name: "WRITE", Idempotent: true, ArgItem: true, Run: func(c *transport.Call) error {
			b := c.Args.Item(2 << 20)
			c.Res.Uint32(crc32.ChecksumIEEE(b))
			return c.ArgsErr()
		}},
	}}
}

type str struct{ s string }

func (s *str) DecodeXDR(d *xdr.Decoder) { s.s = d.String(200) }

type word struct{ v uint32 }

func (w *word) EncodeXDR(e *xdr.Encoder) { e.Uint32(w.v) }
func (w *word) DecodeXDR(d *xdr.Decoder) { w.v = d.Uint32() }

type item struct{ b []byte }

func (i *item) EncodeXDR(e *xdr.Encoder) { e.Item(i.b) }
func (i *item) DecodeXDR(d *xdr.Decoder) { i.b = d.Item(2 << 20) }

func krbCall(ctx context.Context, c *transport.Client, as *transport.Auth, proc uint32, args xdr.Marshaler, res xdr.Unmarshaler, sink []byte) error {
	p := transport.Proc{Prog: krbProg, Vers: 1, Proc: proc, Name: "krb", MaxReply: 256}
	return c.CallAs(ctx, as, &p, args, res, sink, 0)
}

// serveKrb serves krbProgram over TCP and RDMA until the test ends.
func serveKrb(t testing.TB, keytab string) (tcp, rdma string) {
	t.Helper()
	acceptor, err := krb5.NewAcceptor(krb5.AcceptorOptions{Keytab: keytab})
	must.Succeed(t, err)
	uids := map[string]uint32{"alice@EXAMPLE.TEST": 1001, "bob@EXAMPLE.TEST": 1002}
	flavor := gss.NewServer(gss.ServerConfig{Acceptor: acceptor, Map: func(principal string) (transport.Cred, bool) {
		uid, ok := uids[principal]
		return transport.Cred{UID: uid}, ok
	}})
	s := transport.NewServer(transport.ServerConfig{Security: []transport.SecurityFlavor{flavor}}, krbProgram())
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must.Succeed(t, err)
	dev := iwarp.Open(rnic.DeviceConfig{})
	rl, err := dev.Listen("tcp", "127.0.0.1:0")
	must.Succeed(t, err)
	var all sync.WaitGroup
	all.Go(func() { _ = s.ServeTCP(l) })
	all.Go(func() { _ = s.ServeRDMA(dev, rl) })
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		if err := s.Shutdown(ctx); err != nil {
			t.Errorf("Shutdown: %v", err)
		}
		all.Wait()
	})
	return l.Addr().String(), rl.Addr().String()
}

// TestKerberos: two users make calls with each service, over each network and with each enctype.
func TestKerberos(t *testing.T) {
	for _, enctype := range []string{realm.AES128SHA1, realm.AES256SHA1, realm.AES128SHA2, realm.AES256SHA2} {
		t.Run(enctype, func(t *testing.T) {
			r := realm.New(t, realm.Options{Enctypes: []string{enctype}})
			for _, user := range []string{"alice", "bob", "carol"} {
				r.AddPrincipal(user, user)
			}
			r.AddPrincipal("nfs/localhost", "")
			conf, err := krb5.LoadConfig(r.Conf())
			must.Succeed(t, err)
			caches := map[string]*krb5.Credentials{}
			for _, user := range []string{"alice", "bob", "carol"} {
				caches[user] = conf.Cache(r.Kinit(user, user), -1)
			}
			tcp, rdma := serveKrb(t, r.Keytab("nfs/localhost"))
			users := func() *gss.Client {
				return gss.NewClient(gss.ClientConfig{Initiator: func(_ context.Context, user string) (gss.Initiator, error) {
					return caches[user].Initiator("nfs", "localhost"), nil
				}})
			}
			overTCP, err := transport.DialTCP(t.Context(), tcp, transport.ClientConfig{})
			must.Succeed(t, err)
			defer overTCP.Close()
			overRDMA, err := transport.DialRDMA(t.Context(), iwarp.Open(rnic.DeviceConfig{}), rdma, transport.ClientConfig{})
			must.Succeed(t, err)
			defer overRDMA.Close()
			for _, c := range []*transport.Client{overTCP, overRDMA} {
				g := users()
				for i, service := range []transport.Service{transport.ServiceNone, transport.ServiceIntegrity, transport.ServicePrivacy} {
					flavor := oncrpc.FlavorKrb5 + oncrpc.Flavor(i)
					checkKrb(t, c, g.Auth("alice", service), fmt.Sprint("alice@EXAMPLE.TEST 1001 ", flavor))
					checkKrb(t, c, g.Auth("bob", service), fmt.Sprint("bob@EXAMPLE.TEST 1002 ", flavor))
				}
				var refused *transport.AuthError
				if err := krbCall(t.Context(), c, g.Auth("carol", 1), krbCaller, nil, &str{}, nil); !errors.As(err, &refused) {
					t.Errorf("carol, whom the server does not know: %v, want an AuthError", err)
				}
				g.Close(t.Context(), c)
			}
		})
	}
}

// checkKrb makes each kind of call.
func checkKrb(t *testing.T, c *transport.Client, as *transport.Auth, who string) {
	t.Helper()
	var got str
	if err := krbCall(t.Context(), c, as, krbCaller, nil, &got, nil); err != nil || got.s != who {
		t.Errorf("CALLER: %q, %v, want %q", got.s, err, who)
	}
	for _, size := range []int{1, 17, 4096, 1 << 20} {
		sink, want := make([]byte, size), make([]byte, size)
		for i := range want {
			want[i] = byte(i * 13)
		}
		var read item
		if err := krbCall(t.Context(), c, as, krbRead, &word{uint32(size)}, &read, sink); err != nil || !bytes.Equal(read.b, want) {
			t.Errorf("READ of %d as %s: %v, right bytes: %v", size, who, err, bytes.Equal(read.b, want))
		}
		var sum word
		if err := krbCall(t.Context(), c, as, krbWrite, &item{want}, &sum, nil); err != nil || sum.v != crc32.ChecksumIEEE(want) {
			t.Errorf("WRITE of %d as %s: %v, right sum: %v", size, who, err, sum.v == crc32.ChecksumIEEE(want))
		}
	}
}

// TestKerberosTicketEnds: tickets of seconds end in the middle of calls; the client gets new ones.
func TestKerberosTicketEnds(t *testing.T) {
	r := realm.New(t, realm.Options{Life: 4 * time.Second})
	r.AddPrincipal("alice", "alice")
	r.AddPrincipal("nfs/localhost", "")
	conf, err := krb5.LoadConfig(r.Conf())
	must.Succeed(t, err)
	keytab := r.Keytab("alice") // so that the client can log in by itself
	credentials := conf.Keytab(keytab, "alice")
	_, _, err = credentials.Principal(t.Context())
	must.Succeed(t, err)
	tcp, _ := serveKrb(t, r.Keytab("nfs/localhost"))
	c, err := transport.DialTCP(t.Context(), tcp, transport.ClientConfig{})
	must.Succeed(t, err)
	defer c.Close()
	started := 0
	g := gss.NewClient(gss.ClientConfig{Initiator: func(context.Context, string) (gss.Initiator, error) {
		started++
		return credentials.Initiator("nfs", "localhost"), nil
	}})
	as := g.Auth("alice", transport.ServiceIntegrity)
	calls := 0
	for end := time.Now().Add(9 * time.Second); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
		var got str
		if err := krbCall(t.Context(), c, as, krbCaller, nil, &got, nil); err != nil {
			t.Fatalf("call %d with the context %d: %v", calls, started, err)
		}
		calls++
	}
	if started < 2 {
		t.Errorf("%d contexts in nine seconds of %d calls, want two or more", started, calls)
	}
}

// BenchmarkKerberos compares the flavors in one run: a call as short as GETATTR, and a READ.
func BenchmarkKerberos(b *testing.B) {
	r := realm.New(b, realm.Options{Enctypes: []string{realm.AES256SHA1}})
	r.AddPrincipal("alice", "alice")
	r.AddPrincipal("nfs/localhost", "")
	conf, err := krb5.LoadConfig(r.Conf())
	must.Succeed(b, err)
	credentials := conf.Cache(r.Kinit("alice", "alice"), -1)
	tcp, rdma := serveKrb(b, r.Keytab("nfs/localhost"))
	overTCP, err := transport.DialTCP(b.Context(), tcp, transport.ClientConfig{})
	must.Succeed(b, err)
	defer overTCP.Close()
	overRDMA, err := transport.DialRDMA(b.Context(), iwarp.Open(rnic.DeviceConfig{}), rdma, transport.ClientConfig{})
	must.Succeed(b, err)
	defer overRDMA.Close()
	g := gss.NewClient(gss.ClientConfig{Initiator: func(context.Context, string) (gss.Initiator, error) {
		return credentials.Initiator("nfs", "localhost"), nil
	}})
	flavors := []struct {
		name string
		as   *transport.Auth
	}{{"sys", transport.NewAuth(transport.SysCred())}, {"krb5", g.Auth("alice", 1)}, {"krb5i", g.Auth("alice", 2)}, {"krb5p", g.Auth("alice", 3)}}
	for _, n := range []struct {
		name string
		c    *transport.Client
	}{{"TCP", overTCP}, {"RDMA", overRDMA}} {
		for _, f := range flavors {
			b.Run(n.name+"/CALLER/"+f.name, func(b *testing.B) {
				b.ReportAllocs()
				var got str
				for b.Loop() {
					must.Succeed(b, krbCall(b.Context(), n.c, f.as, krbCaller, nil, &got, nil))
				}
			})
		}
		for _, f := range flavors {
			b.Run(n.name+"/READ-1M/"+f.name, func(b *testing.B) {
				b.SetBytes(1 << 20)
				sink, size, got := make([]byte, 1<<20), &word{1 << 20}, &item{}
				for b.Loop() {
					must.Succeed(b, krbCall(b.Context(), n.c, f.as, krbRead, size, got, sink))
				}
			})
		}
	}
}
