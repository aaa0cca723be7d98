// Two CMs without a network: the test delivers datagrams by hand.

package cm

import (
	"math/rand/v2"
	"net/netip"
	"testing"

	"github.com/nfsrdma/nfsrdma/rnic/roce/mad"
)

var (
	addrA = netip.MustParseAddr("10.9.0.2")
	addrB = netip.MustParseAddr("10.9.0.1")
	addrC = netip.MustParseAddr("10.9.0.3")

	service = mad.IPService(mad.ProtocolTCP, 20049)
	sidrIP  = mad.IPService(mad.ProtocolUDP, 20049)
)

// A side is one CM under test, with its output.
type side struct {
	t      testing.TB
	cm     *CM
	addr   netip.Addr
	events []Event
	out    []Datagram
}

func newSide(t testing.TB, addr netip.Addr, seed uint64, change ...func(*Config)) *side {
	t.Helper()
	r := rand.New(rand.NewPCG(seed, uint64(addr.As16()[15])))
	cfg := Config{Addr: addr, GUID: 0x505400fffe000000 | uint64(addr.As16()[15]), MTU: 3, Rand: r.Uint64}
	for _, f := range change {
		f(&cfg)
	}
	return &side{t: t, cm: New(cfg), addr: addr}
}

// take collects the CM's output.
func (s *side) take() {
	var d Datagram
	for s.cm.PollSend(&d) {
		s.out = append(s.out, d)
	}
	var e Event
	for s.cm.PollEvent(&e) {
		s.events = append(s.events, e)
	}
}

// sent returns all datagrams sent since the last call.
func (s *side) sent() []Datagram {
	s.take()
	out := s.out
	s.out = nil
	return out
}

// told returns all events since the last call.
func (s *side) told() []Event {
	s.take()
	es := s.events
	s.events = nil
	return es
}

// one expects exactly one event, of the given kind.
func (s *side) one(kind EventKind) Event {
	s.t.Helper()
	es := s.told()
	if len(es) != 1 || es[0].Kind != kind {
		s.t.Fatalf("told %v, want %v", kinds(es), kind)
	}
	return es[0]
}

func kinds(es []Event) (ks []EventKind) {
	for _, e := range es {
		ks = append(ks, e.Kind)
	}
	return ks
}

// says expects exactly one datagram, with the given attribute, and returns it.
func (s *side) says(a mad.Attribute) Datagram {
	s.t.Helper()
	ds := s.sent()
	if len(ds) != 1 || attribute(ds[0]) != a {
		s.t.Fatalf("sent %v, want %v", attributes(ds), a)
	}
	return ds[0]
}

// silent expects no datagram.
func (s *side) silent() {
	s.t.Helper()
	if ds := s.sent(); len(ds) != 0 {
		s.t.Fatalf("sent %v, want nothing", attributes(ds))
	}
}

func attribute(d Datagram) mad.Attribute {
	h, _, err := mad.Parse(d.MAD[:])
	if err != nil {
		panic(err)
	}
	return h.Attribute
}

func attributes(ds []Datagram) (as []mad.Attribute) {
	for _, d := range ds {
		as = append(as, attribute(d))
	}
	return as
}

// hears delivers the other side's datagram, and checks its outcome.
func (s *side) hears(now Instant, from *side, d Datagram, want Drop) {
	s.t.Helper()
	s.hearsFrom(now, from.addr, d, want)
}

func (s *side) hearsFrom(now Instant, from netip.Addr, d Datagram, want Drop) {
	s.t.Helper()
	before := s.cm.Counters().Dropped(want)
	if got := s.cm.Receive(now, from, d.MAD[:]); got != want {
		s.t.Fatalf("%v: %v, want %v", attribute(d), got, want)
	}
	if got := s.cm.Counters(); got.Dropped(want) != before+1 {
		s.t.Fatalf("%v is counted %d times", want, got.Dropped(want)-before)
	}
}

// Both sides' queue pairs.
var (
	qpA = QP{QPN: 0x11, PSN: 0x654321, ResponderResources: 128, AckTimeout: 19, PathMTU: 3, RetryCount: 7}
	qpB = QP{QPN: 0x12, PSN: 0x123456, InitiatorDepth: 128, AckTimeout: 15, RNRRetryCount: 7}
)

func request() Request {
	return Request{Peer: addrB, Service: service, Local: qpA, SourcePort: 0xc001, Private: []byte("hello")}
}

// two returns two sides; b listens.
func two(t testing.TB, change ...func(*Config)) (a, b *side) {
	a, b = newSide(t, addrA, 1, change...), newSide(t, addrB, 2, change...)
	for _, s := range []mad.ServiceID{service, sidrIP} {
		if err := b.cm.Listen(s); err != nil {
			t.Fatalf("Listen: %v", err)
		}
	}
	return a, b
}

// ask brings a connection to Requested.
func ask(t testing.TB, a, b *side, now Instant) (ka, kb *Conn) {
	t.Helper()
	ka, err := a.cm.Connect(now, request())
	if err != nil {
		t.Fatalf("Connect: %v", err)
	}
	b.hears(now, a, a.says(mad.AttrREQ), Accepted)
	return ka, b.one(Requested).Conn
}

// connected returns an established connection.
func connected(t testing.TB, a, b *side, now Instant) (ka, kb *Conn) {
	t.Helper()
	ka, kb = ask(t, a, b, now)
	if err := b.cm.Accept(now, kb, qpB, []byte("welcome")); err != nil {
		t.Fatalf("Accept: %v", err)
	}
	a.hears(now, b, b.says(mad.AttrREP), Accepted)
	a.one(Replied)
	if err := a.cm.Confirm(now, ka, nil); err != nil {
		t.Fatalf("Confirm: %v", err)
	}
	a.one(Established)
	b.hears(now, a, a.says(mad.AttrRTU), Accepted)
	b.one(Established)
	return ka, kb
}
