// Client and server together: services, renewal, expiry, retransmission, and their limits.

package gss

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"math/rand/v2"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nfsrdma/nfsrdma/test/conformance"
	"github.com/nfsrdma/nfsrdma/test/must"
	"github.com/nfsrdma/nfsrdma/transport"
	"github.com/nfsrdma/nfsrdma/xdr/oncrpc"
)

var bg = context.Background()

// users returns a Client of contexts for the rig's realm.
func (r *rig) users() *Client { return NewClient(ClientConfig{Initiator: r.realm.initiator}) }

// count calls COUNT.
func count(c *transport.Client, as *transport.Auth, arg uint32) (uint32, error) {
	out := words{0}
	err := c.CallAs(bg, as, testProc(tCount), words{arg}, &out, nil, 0)
	return out[0], err
}

func add(ctx context.Context, c *transport.Client, as *transport.Auth) error {
	out := words{0}
	if err := c.CallAs(ctx, as, testProc(tAdd), words{40, 2}, &out, nil, 0); err != nil {
		return err
	}
	if out[0] != 42 {
		return fmt.Errorf("40 + 2 is %d", out[0])
	}
	return nil
}

// TestConversation: small calls and large items arrive with each service over each network.
func TestConversation(t *testing.T) {
	conformance.Proves(t, "R2203-009", "R2203-010", "R2203-027", "R2203-053", "R2203-060", "R2203-061", "R2203-063")
	overEach(t, func(t *testing.T, n network) {
		r := newRig(t, n, nil)
		c := r.client(transport.ClientConfig{})
		g := r.users()
		for i, service := range services {
			as := g.Auth("alice", service)
			if err := add(bg, c, as); err != nil {
				t.Fatalf("ADD: %v", err)
			}
			if got, _ := r.last(); got.Principal != "alice@TEST" || got.Flavor != oncrpc.FlavorKrb5+oncrpc.Flavor(i) {
				t.Errorf("service %d: the server sees %+v", service, got)
			}
			for _, size := range []int{0, 1, 3, 1000, 5000, 70001, 1 << 20} {
				data := make([]byte, size)
				fill(data)
				checkItems(t, c, as, data)
			}
			var refused *transport.AuthError
			if err := c.CallAs(bg, as, testProc(tWeak), nil, nil, nil, 0); !errors.As(err, &refused) || refused.Stat != oncrpc.AuthTooWeak {
				t.Errorf("WEAK: %v, want AUTH_TOOWEAK", err)
			}
			if err := c.CallAs(bg, as, testProc(tFail), nil, nil, nil, 0); !errors.Is(err, transport.ErrSystem) {
				t.Errorf("FAIL: %v, want ErrSystem", err)
			}
			if err := c.CallAs(bg, as, testProc(tNull), nil, nil, nil, 0); err != nil {
				t.Errorf("NULL: %v", err)
			}
			if err := c.CallAs(bg, as, testProc(tProcs), nil, nil, nil, 0); !errors.Is(err, transport.ErrProcUnavail) {
				t.Errorf("an unknown procedure: %v, want ErrProcUnavail", err)
			}
			short := make([]byte, 100)
			if err := c.CallAs(bg, as, testProc(tRead), words{200}, &readRes{}, short, 0); !errors.Is(err, transport.ErrNoRoom) {
				t.Errorf("an item longer than its sink: %v, want ErrNoRoom", err)
			}
		}
		if f := r.gss.Figures(); f.Contexts != 1 || f.Created != 1 {
			t.Errorf("figures %+v, want one context for all services", f)
		}
		g.Close(bg, c)
		if f := r.gss.Figures(); f.Contexts != 0 {
			t.Errorf("%d contexts after Close, want none", f.Contexts)
		}
	})
}

// checkItems writes and reads data as an item.
func checkItems(t *testing.T, c *transport.Client, as *transport.Auth, data []byte) {
	t.Helper()
	out := words{0, 0}
	if err := c.CallAs(bg, as, testProc(tWrite), &writeArgs{data}, &out, nil, 0); err != nil {
		t.Fatalf("WRITE of %d: %v", len(data), err)
	}
	if want := (words{uint32(len(data)), crc32.ChecksumIEEE(data)}); out[0] != want[0] || out[1] != want[1] {
		t.Errorf("WRITE: %v, want %v", out, want)
	}
	sink := make([]byte, len(data)+8)
	var res readRes
	if err := c.CallAs(bg, as, testProc(tRead), words{uint32(len(data))}, &res, sink, 0); err != nil {
		t.Fatalf("READ of %d: %v", len(data), err)
	}
	if !bytes.Equal(res.data, data) || len(data) > 0 && &res.data[0] != &sink[0] {
		t.Errorf("READ of %d: wrong bytes, or not in the sink", len(data))
	}
}

// TestConfigAuth: an Auth in the ClientConfig serves Call.
func TestConfigAuth(t *testing.T) {
	overEach(t, func(t *testing.T, n network) {
		r := newRig(t, n, nil)
		c := r.client(transport.ClientConfig{Auth: r.users().Auth("carol", transport.ServiceIntegrity), Probe: true})
		if err := add(bg, c, nil); err != nil {
			t.Fatalf("ADD: %v", err)
		}
		if got, _ := r.last(); got.Principal != "carol@TEST" {
			t.Errorf("principal %q, want carol@TEST", got.Principal)
		}
	})
}

// TestLegs: a context is created with two to four exchanges, and nothing of its creation remains.
func TestLegs(t *testing.T) {
	conformance.Proves(t, "R2203-011", "R2203-014", "R2203-022", "R2203-023", "R2203-024")
	overEach(t, func(t *testing.T, n network) {
		for legs := 2; legs <= 4; legs++ {
			r := newRig(t, n, func(r *rig, _ *ServerConfig, _ *transport.ServerConfig) { r.realm.legs = legs })
			c := r.client(transport.ClientConfig{})
			if err := add(bg, c, r.users().Auth("alice", 1)); err != nil {
				t.Errorf("%d exchanges: %v", legs, err)
			}
			if f := r.gss.Figures(); f.Contexts != 1 || r.gss.half.len() != 0 {
				t.Errorf("%d exchanges: %+v, %d in creation, want 1 and 0", legs, f, r.gss.half.len())
			}
		}
	})
}

// TestDisagreement: a creation fails if one end is complete before the other, or after too many
// exchanges.
func TestDisagreement(t *testing.T) {
	conformance.Proves(t, "R2203-024")
	for _, row := range []struct{ server, client int }{{2, 1}, {1, 2}, {maxLegs + 1, maxLegs + 1}, {maxLegs + 1, maxLegs + 2}} {
		r := newRig(t, tcp, func(r *rig, _ *ServerConfig, _ *transport.ServerConfig) { r.realm.legs = row.server })
		other := newFakeRealm()
		other.legs = row.client
		c := r.client(transport.ClientConfig{})
		g := NewClient(ClientConfig{Initiator: other.initiator})
		var user *UserError
		if err := add(bg, c, g.Auth("alice", 1)); !errors.As(err, &user) || user.User != "alice" || !strings.Contains(err.Error(), "complete") {
			t.Errorf("%+v: %v", row, err)
		}
	}
}

// forget removes all contexts from the server.
func (r *rig) forget() {
	r.gss.contexts.mu.Lock()
	defer r.gss.contexts.mu.Unlock()
	for _, x := range r.gss.contexts.byHandle {
		r.gss.contexts.drop(x)
	}
}

// TestRenewal: a server that has forgotten the contexts costs each call one repetition, not its
// result; the new context is made once.
func TestRenewal(t *testing.T) {
	conformance.Proves(t, "R2203-048")
	overEach(t, func(t *testing.T, n network) {
		r := newRig(t, n, nil)
		c := r.client(transport.ClientConfig{})
		g := r.users()
		for i, service := range services {
			r.forget()
			got, err := count(c, g.Auth("alice", service), 1)
			if err != nil || got != uint32(i+1) {
				t.Errorf("COUNT after the server has forgotten: %d, %v, want %d", got, err, i+1)
			}
		}
		r.forget()
		before := r.realm.starts.Load()
		var all sync.WaitGroup
		for range 50 {
			all.Go(func() {
				if err := add(bg, c, g.Auth("alice", 1)); err != nil {
					t.Errorf("one of many calls: %v", err)
				}
			})
		}
		all.Wait()
		if made := r.realm.starts.Load() - before; made != 1 {
			t.Errorf("%d contexts made for 50 calls, want 1", made)
		}
	})
}

// TestRefreshAndExpiry: a context is replaced before its end; if it has ended at the server alone,
// the client replaces it after CTXPROBLEM.
func TestRefreshAndExpiry(t *testing.T) {
	conformance.Proves(t, "R2203-052")
	var server, client atomic.Int64
	at := func(offset *atomic.Int64) func() time.Time {
		return func() time.Time { return time.Now().Add(time.Duration(offset.Load())) }
	}
	r := newRig(t, tcp, func(r *rig, g *ServerConfig, _ *transport.ServerConfig) {
		g.now, r.realm.now = at(&server), at(&server)
		r.realm.life = 10 * time.Minute
	})
	c := r.client(transport.ClientConfig{})
	g := NewClient(ClientConfig{Initiator: r.realm.initiator, now: at(&client)})
	as := g.Auth("alice", transport.ServicePrivacy)
	call := func(what string, contexts int32) {
		t.Helper()
		if err := add(bg, c, as); err != nil {
			t.Errorf("%s: %v", what, err)
		}
		if got := r.realm.starts.Load(); got != contexts {
			t.Errorf("%s: %d contexts made, want %d", what, got, contexts)
		}
	}
	forward := func(d time.Duration, clocks ...*atomic.Int64) {
		for _, c := range clocks {
			c.Add(int64(d))
		}
	}
	call("the first", 1)
	forward(8*time.Minute, &server, &client)
	call("in time", 1)
	forward(90*time.Second, &server, &client)
	call("a minute before the end", 2)
	call("with the new context", 2)
	forward(11*time.Minute, &server)
	call("with a ticket that has expired for the server only", 3)
	forward(11*time.Minute, &client)
	forward(30*time.Minute, &server, &client)
	call("after the end", 4)
	// A refresh that fails leaves the old context in use.
	failure := errors.New("no answer from the KDC")
	r.realm.fails.Store(&failure)
	forward(9*time.Minute+30*time.Second, &server, &client)
	call("with a failed refresh", 5)
	call("without another one at once", 5)
	forward(time.Minute, &server, &client)
	var user *UserError
	if err := add(bg, c, as); !errors.As(err, &user) || !errors.Is(err, failure) || err.Error() != "RPCSEC_GSS for alice: no ticket: no answer from the KDC" {
		t.Errorf("after the end without a ticket: %v", err)
	}
	starts := r.realm.starts.Load()
	_ = add(bg, c, as)
	if got := r.realm.starts.Load(); got != starts {
		t.Error("a failure is tried again at once")
	}
	forward(2*failureAge, &server, &client)
	r.realm.fails.Store(nil)
	call("with tickets again", starts+1)
}

// TestManyUsers: users with one connection have a context each, made once.
func TestManyUsers(t *testing.T) {
	overEach(t, func(t *testing.T, n network) {
		r := newRig(t, n, func(r *rig, _ *ServerConfig, _ *transport.ServerConfig) { r.realm.slow = 20 * time.Millisecond })
		c := r.client(transport.ClientConfig{})
		g := r.users()
		const users, calls = 20, 20
		var all sync.WaitGroup
		for u := range users {
			for range calls {
				all.Go(func() {
					if err := add(bg, c, g.Auth(fmt.Sprint("user", u), services[u%3])); err != nil {
						t.Errorf("user %d: %v", u, err)
					}
				})
			}
		}
		all.Wait()
		if f := r.gss.Figures(); f.Contexts != users || r.realm.starts.Load() != users {
			t.Errorf("%+v, %d started, want %d", f, r.realm.starts.Load(), users)
		}
	})
}

// TestCreatorGivesUp: when the call that creates a context is canceled, a waiting one creates it.
func TestCreatorGivesUp(t *testing.T) {
	r := newRig(t, tcp, func(r *rig, _ *ServerConfig, _ *transport.ServerConfig) { r.realm.slow = 50 * time.Millisecond })
	c := r.client(transport.ClientConfig{})
	g := r.users()
	ctx, cancel := context.WithCancel(bg)
	first := make(chan error, 1)
	go func() { first <- add(ctx, c, g.Auth("alice", 1)) }()
	must.Become(t, "a creation", func() bool { return r.realm.starts.Load() == 1 })
	second := make(chan error, 1)
	go func() { second <- add(bg, c, g.Auth("alice", 1)) }()
	cancel()
	if err := <-first; !errors.Is(err, context.Canceled) {
		t.Errorf("the canceled call: %v, want Canceled", err)
	}
	if err := <-second; err != nil {
		t.Errorf("the waiting call: %v", err)
	}
}

// TestRefusedUsers: errors name user and cause.
func TestRefusedUsers(t *testing.T) {
	r := newRig(t, tcp, nil)
	c := r.client(transport.ClientConfig{})
	noCreds := NewClient(ClientConfig{Initiator: func(context.Context, string) (Initiator, error) { return nil, errors.New("no cache") }})
	wrong := newFakeRealm()
	wrong.key = []byte("of another realm")
	for _, row := range []struct {
		g    *Client
		user string
		want string
	}{
		{r.users(), "mallory", "RPCSEC_GSS for mallory: the server refuses this user: its log says why: rpc: credentials refused (AUTH_FAILED)"},
		{noCreds, "alice", "RPCSEC_GSS for alice: no credentials: no cache"},
		{NewClient(ClientConfig{Initiator: wrong.initiator}), "alice",
			"RPCSEC_GSS for alice: the server refuses the context: the token is defective (GSS major 0x90000, minor 0x8)"},
	} {
		if err := add(bg, c, row.g.Auth(row.user, 1)); err == nil || err.Error() != row.want {
			t.Errorf("%v, want %s", err, row.want)
		}
	}
	plain := transport.NewServer(transport.ServerConfig{}, r.program())
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must.Succeed(t, err)
	go plain.ServeTCP(l)
	defer plain.Shutdown(bg)
	c, err = transport.DialTCP(bg, l.Addr().String(), transport.ClientConfig{})
	must.Succeed(t, err)
	defer c.Close()
	want := "RPCSEC_GSS for alice: the server does not accept RPCSEC_GSS: rpc: credentials refused (AUTH_REJECTEDCRED)"
	if err := add(bg, c, r.users().Auth("alice", 1)); err == nil || err.Error() != want {
		t.Errorf("a server without RPCSEC_GSS: %v, want %s", err, want)
	}
}

// TestNumbersEnd: before MAXSEQ a new context takes over, in the middle of concurrent calls.
func TestNumbersEnd(t *testing.T) {
	conformance.Proves(t, "R2203-030")
	r := newRig(t, tcp, nil)
	c := r.client(transport.ClientConfig{})
	g := NewClient(ClientConfig{Initiator: r.realm.initiator, firstSeq: maxSeq - 10})
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for range 10 {
				if err := add(bg, c, g.Auth("alice", transport.ServiceIntegrity)); err != nil {
					t.Errorf("ADD: %v", err)
				}
			}
		})
	}
	all.Wait()
	if got := r.realm.starts.Load(); got != 8 {
		t.Errorf("%d contexts for 80 calls with 10 numbers each, want 8", got)
	}
}

// TestSchedules: random calls of several users are made while contexts are forgotten, expire and
// are destroyed, and connections are cut. Each call ends well, and non-idempotent ones run once.
func TestSchedules(t *testing.T) {
	overEach(t, func(t *testing.T, n network) {
		r := newRig(t, n, nil)
		close(r.hold)
		const workers, calls = 12, 60
		g := r.users()
		c := r.client(transport.ClientConfig{})
		var all sync.WaitGroup
		for w := range workers {
			all.Go(func() {
				rng := rand.New(rand.NewPCG(31, uint64(w)))
				for i := range calls {
					as := g.Auth(fmt.Sprint("user", rng.IntN(3)), services[rng.IntN(3)])
					_, err := count(c, as, uint32(w*1000+i))
					for err != nil && contextRefused(err) { // two were forgotten within one call
						_, err = count(c, as, uint32(w*1000+i))
					}
					if err != nil {
						t.Errorf("COUNT: %v", err)
					}
				}
			})
		}
		stop := make(chan struct{})
		var disturb sync.WaitGroup
		disturb.Go(func() {
			for {
				select {
				case <-stop:
					return
				case <-time.After(15 * time.Millisecond):
					r.forget()
				}
			}
		})
		all.Wait()
		close(stop)
		disturb.Wait()
		if got := r.runs.Load(); got != workers*calls {
			t.Errorf("%d calls ran, want %d", got, workers*calls)
		}
	})
}
