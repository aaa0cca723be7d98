// Bounds: contexts, contexts in creation, chunks, memory for sealed results, allocations.

package gss

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"runtime"
	"testing"
	"time"

	"github.com/nfsrdma/nfsrdma/chunks"
	"github.com/nfsrdma/nfsrdma/rnic"
	"github.com/nfsrdma/nfsrdma/rnic/iwarp"
	"github.com/nfsrdma/nfsrdma/rpcrdma"
	"github.com/nfsrdma/nfsrdma/rpcrdma/mem"
	"github.com/nfsrdma/nfsrdma/test/conformance"
	"github.com/nfsrdma/nfsrdma/test/must"
	"github.com/nfsrdma/nfsrdma/transport"
	"github.com/nfsrdma/nfsrdma/xdr"
	"github.com/nfsrdma/nfsrdma/xdr/oncrpc"
)

func addr(s string) net.Addr { return net.TCPAddrFromAddrPort(netip.MustParseAddrPort(s)) }

// newContext returns a context for the table.
func newContext(i int) *serverContext {
	c := &serverContext{ends: time.Unix(1e10, 0)}
	binary.BigEndian.PutUint64(c.handle[:], uint64(i))
	return c
}

// checkTable checks the table's parts against each other.
func checkTable(t *testing.T, tb *table) {
	t.Helper()
	n := 0
	for _, h := range tb.hosts {
		n += h.list.Len()
		if h.list.Len() == 0 || h.list.Len() > tb.mostPerHost || tb.largest[h.index] != h {
			t.Fatalf("host %v has %d contexts, index %d", h.prefix, h.list.Len(), h.index)
		}
		if tb.largest[0].list.Len() < h.list.Len() {
			t.Fatalf("the largest host has %d contexts, %v has %d", tb.largest[0].list.Len(), h.prefix, h.list.Len())
		}
	}
	if n != len(tb.byHandle) || n > tb.most || len(tb.hosts) != len(tb.largest) {
		t.Fatalf("%d contexts by host, %d by handle, %d and %d hosts", n, len(tb.byHandle), len(tb.hosts), len(tb.largest))
	}
}

// TestMillionContexts: a host that creates a million contexts has no more than its share. Other
// hosts keep their contexts, and it keeps its own contexts in use.
func TestMillionContexts(t *testing.T) {
	conformance.Proves(t, "R2203-064")
	var tb table
	tb.init(16384, 4096, time.Hour)
	now := time.Unix(1e9, 0)
	var others []*serverContext
	for i := range 200 {
		c := newContext(1e9 + i)
		tb.add(c, addr(fmt.Sprintf("10.1.0.%d:1", i)), now)
		others = append(others, c)
	}
	own := newContext(2e9)
	attacker := addr("10.2.0.1:7")
	tb.add(own, attacker, now)
	var before, after runtime.MemStats
	for i := range 1_000_000 {
		if i == 100_000 {
			runtime.GC()
			runtime.ReadMemStats(&before)
		}
		tb.add(newContext(i), attacker, now.Add(time.Duration(i)*time.Millisecond))
		if i%1000 == 0 {
			own.touch(now)
		}
	}
	runtime.GC()
	runtime.ReadMemStats(&after)
	checkTable(t, &tb)
	for i, c := range others {
		if tb.find(c.handle[:]) != c {
			t.Errorf("context %d of another host is gone", i)
		}
	}
	if tb.find(own.handle[:]) != own {
		t.Error("the attacker's context in use is gone")
	}
	if n := tb.len(); n != 200+4096 || tb.evicted != 1_000_001-4096 {
		t.Errorf("%d contexts, %d evicted, want %d and %d", n, tb.evicted, 200+4096, 1_000_001-4096)
	}
	if grown := int64(after.HeapAlloc) - int64(before.HeapAlloc); grown > 4<<20 {
		t.Errorf("memory has grown by %d bytes in 900,000 contexts", grown)
	}
}

// TestFullTable: when all hosts together are at the limit, the host with the most loses.
func TestFullTable(t *testing.T) {
	var tb table
	tb.init(100, 40, time.Hour)
	now := time.Unix(1e9, 0)
	small := newContext(1 << 20)
	tb.add(small, addr("10.0.0.9:1"), now)
	for i := range 5000 {
		tb.add(newContext(i), addr(fmt.Sprintf("10.0.0.%d:1", i%4)), now)
		checkTable(t, &tb)
	}
	if tb.find(small.handle[:]) != small || tb.len() != 100 {
		t.Errorf("%d contexts, the small host's one: %v", tb.len(), tb.find(small.handle[:]))
	}
	six := func(i int) net.Addr { return addr(fmt.Sprintf("[2001:db8:0:1::%x]:1", i)) }
	for i := range 200 { // one /64 is one host
		tb.add(newContext(1<<21+i), six(i+1), now)
	}
	checkTable(t, &tb)
	if h := tb.hosts[transport.HostOf(six(1))]; h.list.Len() < 15 || len(tb.hosts) != 6 {
		t.Errorf("a /64 has %d contexts, and there are %d hosts, want a share and 6", h.list.Len(), len(tb.hosts))
	}
	if tb.remove(small) != true || tb.remove(small) != false || tb.find(small.handle[:]) != nil {
		t.Error("a context is not removed once")
	}
	old := tb.len()
	tb.add(newContext(1<<22), addr("10.9.9.9:1"), now.Add(2*time.Hour)) // all others are idle
	if n := tb.len(); n != 1 {
		t.Errorf("%d contexts of %d after two idle hours, want 1", n, old)
	}
	ended := newContext(1 << 23)
	ended.ends = now.Add(3 * time.Hour)
	tb.add(ended, addr("10.9.9.9:1"), now.Add(2*time.Hour))
	tb.add(newContext(1<<24), addr("10.9.9.9:1"), now.Add(3*time.Hour))
	if tb.find(ended.handle[:]) != nil {
		t.Error("a context with an expired ticket is left")
	}
}

// TestHalfContexts: contexts in creation are bounded in all, for each host and in time, and no call
// can use them.
func TestHalfContexts(t *testing.T) {
	r := newRig(t, tcp, func(r *rig, _ *ServerConfig, _ *transport.ServerConfig) { r.realm.legs = 2 })
	established := r.realm
	p := r.hand()
	var handles [][]byte
	for range 200 {
		init := &fakeInitiator{realm: established, principal: "alice@TEST"}
		token, _ := init.Start(context.Background())
		h, d := p.exchange(p.header(&credential{message: messageInit}, 0), (&initArg{token}).EncodeXDR)
		var res initRes
		if res.DecodeXDR(d); !h.OK() || res.major != ContinueNeeded || h.Verf.Flavor != oncrpc.FlavorNone || len(res.handle) != handleLen {
			t.Fatalf("INIT: %+v, %+v", h, res)
		}
		handles = append(handles, res.handle)
	}
	if n := r.gss.half.len(); n != maxHalfPerHost || r.gss.contexts.len() != 0 {
		t.Errorf("%d contexts in creation, %d established, want %d and 0", n, r.gss.contexts.len(), maxHalfPerHost)
	}
	last := handles[len(handles)-1]
	p.ctx = established.context("alice@TEST", "", false)
	h, d := p.exchange(p.sign(p.header(&credential{seq: 1, service: 1, handle: last}, tAdd)), words{1, 2}.EncodeXDR)
	checkDenied(t, "a call in a context in creation", h, d, oncrpc.GSSCredProblem)
	for i, want := range []uint32{Failure, NoContext} { // a wrong token ends the creation
		var res initRes
		h, d = p.exchange(p.header(&credential{message: messageContinue, handle: last}, 0), (&initArg{established.token("bob@TEST", "0123456789abcdef")}).EncodeXDR)
		if res.DecodeXDR(d); !h.OK() || res.major != want || res.handle != nil {
			t.Errorf("CONTINUE_INIT %d: %+v, %+v, want %#x", i, h, res, want)
		}
	}
}

// TestNoChunks: with a protected body a Write list or a Read chunk is refused with ERR_CHUNK.
func TestNoChunks(t *testing.T) {
	conformance.Proves(t, "R8166-209", "R8166-212")
	r := newRig(t, networks[1], nil)
	conn, err := rpcrdma.Dial(bg, iwarp.Open(rnic.DeviceConfig{}), r.addr, rpcrdma.Config{})
	must.Succeed(t, err)
	defer conn.Close()
	// A context is added to the server without an exchange.
	p := &handPeer{t: t, rig: r, ctx: r.realm.context("alice@TEST", "nonce", false), handle: newHandle()}
	x := &serverContext{protection: protection{r.realm.context("alice@TEST", "nonce", true)}, ends: time.Now().Add(time.Hour), handle: handle(p.handle)}
	r.gss.contexts.add(x, addr("127.0.0.1:1"), time.Now())
	seq := uint32(0)
	do := func(service transport.Service, proc uint32, args func(e *xdr.Encoder), sink []byte, items []xdr.Item) error {
		seq++
		msg := encode(p.data(seq, service, proc), p.args(service, seq, args))
		for i := range items {
			items[i].Off = len(msg)
		}
		k := conn.NewCall()
		defer k.Release()
		k.Msg = chunks.Message{Stream: msg, Items: items}
		k.Sink, k.MaxReply = sink, 400
		err := conn.Do(bg, k)
		if err == nil {
			var h oncrpc.ReplyHeader
			d := xdr.NewDecoder(k.Reply.Stream)
			if h.DecodeXDR(d); !h.OK() {
				t.Errorf("service %d: %+v", service, h)
			}
		}
		return err
	}
	sink := make([]byte, 64<<10)
	data := make([]byte, 64<<10)
	for _, service := range services {
		var want error
		if service.CoversBody() {
			want = rpcrdma.ErrChunk
		}
		if err := do(service, tRead, words{64 << 10}.EncodeXDR, sink, nil); !errors.Is(err, want) {
			t.Errorf("service %d with a Write list: %v, want %v", service, err, want)
		}
		item := []xdr.Item{{Data: data}}
		if err := do(service, tWrite, words{64 << 10}.EncodeXDR, nil, item); !errors.Is(err, want) {
			t.Errorf("service %d with a Read chunk: %v, want %v", service, err, want)
		}
		if err := do(service, tAdd, words{1, 2}.EncodeXDR, nil, nil); err != nil {
			t.Errorf("service %d without chunks: %v", service, err)
		}
	}
	init := xdr.NewEncoder(nil)
	p.header(&credential{message: messageInit}, 0).EncodeXDR(init)
	init.Uint32(64 << 10)
	k := conn.NewCall()
	defer k.Release()
	k.Msg, k.MaxReply = chunks.Message{Stream: init.Bytes(), Items: []xdr.Item{{Off: init.Len(), Data: data}}}, 400
	if err := conn.Do(bg, k); !errors.Is(err, rpcrdma.ErrChunk) {
		t.Errorf("INIT with its token in a Read chunk: %v, want %v", err, rpcrdma.ErrChunk)
	}
}

// TestOverhead: the estimated overhead is enough for verifier and protection, and not much more.
func TestOverhead(t *testing.T) {
	conformance.Proves(t, "R8166-211")
	p := &protection{newFakeRealm().context("a@TEST", "nonce", true)}
	for _, service := range services {
		for n := range 64 {
			s := &transport.Secured{Seq: 9, Service: service}
			e := xdr.NewEncoder(nil)
			if service.CoversBody() {
				p.Reserve(s, e)
			}
			e.Raw(make([]byte, 4*n))
			if service.CoversBody() {
				must.Succeed(t, p.Seal(s, e, 0, nil))
			}
			grown := e.Len() - 4*n + len(p.Verifier(s))
			if most := p.overhead(s); grown > most || grown < most-4 {
				t.Errorf("service %d: %d bytes grow by %d, estimated %d", service, 4*n, grown, most)
			}
		}
	}
}

// TestNoMemoryToSeal: results that cannot be sealed get no reply, and the connection goes on.
func TestNoMemoryToSeal(t *testing.T) {
	conformance.Proves(t, "R2203-059")
	r := newRig(t, tcp, func(_ *rig, _ *ServerConfig, s *transport.ServerConfig) { s.Budget = mem.NewBudget(300 << 10) })
	p := r.handContext("alice")
	msg := encode(p.data(1, transport.ServicePrivacy, tRead), p.args(transport.ServicePrivacy, 1, words{200 << 10}.EncodeXDR))
	p.send(msg)
	h, _ := p.exchange(p.data(2, transport.ServicePrivacy, tAdd), p.args(transport.ServicePrivacy, 2, words{1, 2}.EncodeXDR))
	if !h.OK() {
		t.Errorf("the next call: %+v", h)
	}
	h, _ = p.exchange(p.data(3, transport.ServiceIntegrity, tRead), p.args(transport.ServiceIntegrity, 3, words{200 << 10}.EncodeXDR))
	if !h.OK() {
		t.Errorf("the same with integrity, which needs no memory: %+v", h)
	}
}

// TestAllocations: a call with the service none allocates nothing at either end.
func TestAllocations(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector allocates")
	}
	overEach(t, func(t *testing.T, n network) {
		r := newRig(t, n, nil)
		c := r.client(transport.ClientConfig{})
		as := r.users().Auth("alice", transport.ServiceNone)
		proc, in, out := testProc(tAdd), &words{40, 2}, &words{0}
		call := func() {
			if err := c.CallAs(bg, as, proc, in, out, nil, 0); err != nil {
				t.Fatalf("ADD: %v", err)
			}
		}
		for range 2000 {
			call()
		}
		if got := testing.AllocsPerRun(500, call); got != 0 {
			t.Errorf("%v allocations a call, want none", got)
		}
	})
}

// BenchmarkCall compares credentials in one run.
func BenchmarkCall(b *testing.B) {
	for _, n := range networks {
		b.Run(n.name, func(b *testing.B) {
			r := newRig(b, n, nil)
			c := r.client(transport.ClientConfig{})
			g := r.users()
			for name, as := range map[string]*transport.Auth{"sys": transport.NewAuth(transport.SysCred()), "none": g.Auth("a", 1), "integrity": g.Auth("a", 2), "privacy": g.Auth("a", 3)} {
				b.Run("ADD/"+name, func(b *testing.B) {
					proc, in, out := testProc(tAdd), &words{40, 2}, &words{0}
					b.ReportAllocs()
					for b.Loop() {
						must.Succeed(b, c.CallAs(bg, as, proc, in, out, nil, 0))
					}
				})
				b.Run("READ-1M/"+name, func(b *testing.B) {
					proc, in, res, sink := testProc(tRead), &words{1 << 20}, &readRes{}, make([]byte, 1<<20)
					b.ReportAllocs()
					b.SetBytes(1 << 20)
					for b.Loop() {
						must.Succeed(b, c.CallAs(bg, as, proc, in, res, sink, 0))
					}
				})
			}
		})
	}
}
