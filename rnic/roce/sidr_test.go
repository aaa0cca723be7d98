// UC and UD by the connection manager, over loopback.

package roce

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"testing"
	"time"

	"github.com/nfsrdma/nfsrdma/rnic"
	"github.com/nfsrdma/nfsrdma/rnic/roce/cm"
	"github.com/nfsrdma/nfsrdma/rnic/roce/mad"
	"github.com/nfsrdma/nfsrdma/rnic/roce/packet"
)

// meetFor opens a device, and a listener for a service at an unused address.
func meetFor(t testing.TB, s rnic.Service, o Options) *meeting {
	t.Helper()
	if o.Wrap != nil {
		ownPorts(t)
	}
	_, at := hosts(t)
	dev := OpenWith(rnic.DeviceConfig{}, o)
	addr := fmt.Sprintf("%v:%d", at, service)
	l, err := dev.ListenFor(s, "udp", addr)
	if err != nil {
		t.Fatalf("ListenFor: %v", err)
	}
	t.Cleanup(func() { l.Close() })
	return &meeting{l, addr, dev}
}

// TestConnectUC: private data goes both ways, messages flow, and one side's end reaches the
// other.
func TestConnectUC(t *testing.T) {
	m := meetFor(t, rnic.UC, Options{})
	a, b := newSide(t, m.dev, rnic.UC), newSide(t, m.dev, rnic.UC)
	m.join(a, b)
	if !bytes.HasPrefix(a.qp.PrivateData(), []byte("server\x00")) || !bytes.HasPrefix(b.qp.PrivateData(), []byte("client\x00")) {
		t.Errorf("%q, %q", a.qp.PrivateData(), b.qp.PrivateData())
	}
	for _, s := range [][2]*side{{a, b}, {b, a}} {
		data := pattern(50_000, 1)
		got := s[1].recv(1, len(data))
		s[0].post(rnic.SendWR{Op: rnic.OpSend, SGL: [][]byte{data}})
		s[0].good(1)
		if s[1].good(1); !bytes.Equal(got, data) {
			t.Error("what came is not what was sent")
		}
	}
	if err := a.qp.Disconnect(t.Context()); err != nil {
		t.Errorf("Disconnect: %v", err)
	}
	<-b.qp.Done()
	if err := b.qp.Err(); err != io.EOF {
		t.Errorf("Err: %v, want %v", err, io.EOF)
	}
}

// join connects a with the server's b, and exchanges their private data.
func (m *meeting) join(a, b *side) {
	t := a.t
	t.Helper()
	accepted := make(chan error, 1)
	go func() { accepted <- m.accept(t.Context(), b.qp, "server") }()
	if err := m.dev.Connect(t.Context(), a.qp, m.addr, rnic.ConnParams{PrivateData: []byte("client")}); err != nil {
		t.Fatalf("Connect: %v", err)
	}
	if err := <-accepted; err != nil {
		t.Fatalf("accepted: %v", err)
	}
}

func (m *meeting) accept(ctx context.Context, qp *rnic.QP, private string) error {
	r, err := m.l.Accept(ctx)
	if err != nil {
		return err
	}
	return r.Accept(qp, rnic.ConnParams{PrivateData: []byte(private)})
}

// TestResolve: each client gets the same QP, which answers all of them. This also holds if the CM's
// datagrams are lost, duplicated or reordered.
func TestResolve(t *testing.T) {
	t.Run("good wire", func(t *testing.T) { resolveThrice(t, Options{}) })
	t.Run("bad wire", func(t *testing.T) { resolveThrice(t, Options{Wrap: badly(100)}) })
}

func resolveThrice(t *testing.T, o Options) {
	m := meetFor(t, rnic.UD, o)
	b := newSide(t, m.dev, rnic.UD)
	for i := range 3 {
		a := newSide(t, m.dev, rnic.UD)
		m.join(a, b)
		to := a.qp.Peer()
		if to.QPN == 0 || to.QKey != UDPQKey || netip.AddrPortFrom(to.Addr, service).String() != m.addr {
			t.Errorf("%+v", to)
		}
		if !bytes.HasPrefix(a.qp.PrivateData(), []byte("server\x00")) || i == 0 && !bytes.HasPrefix(b.qp.PrivateData(), []byte("client\x00")) {
			t.Errorf("%q, %q", a.qp.PrivateData(), b.qp.PrivateData())
		}
		if o.Wrap == nil {
			pingOnce(t, a, b)
		}
	}
	m.l.Close()
}

// pingOnce sends a datagram to the resolved QP, and one back.
func pingOnce(t *testing.T, a, b *side) {
	t.Helper()
	to := a.qp.Peer()
	got, back := b.recv(1, packet.GRHLen+100), a.recv(1, packet.GRHLen+100)
	a.post(rnic.SendWR{Op: rnic.OpSend, SGL: [][]byte{pattern(100, 1)}, AH: &to})
	a.good(1)
	wc := b.good(1)[0]
	b.post(rnic.SendWR{Op: rnic.OpSend, SGL: [][]byte{got[packet.GRHLen:]}, AH: &rnic.AddressHandle{
		Addr: netip.AddrFrom4([4]byte(got[32:36])), QPN: wc.SrcQP, QKey: UDPQKey}})
	b.good(1)
	if a.good(1); !bytes.Equal(back[packet.GRHLen:], pattern(100, 1)) {
		t.Error("the answer is not what was sent")
	}
}

// TestResolveRefused: Connect of a UD QP fails after a program's refusal, without a listener, for a
// connected service, and without an Accept. Each time the QP is reusable.
func TestResolveRefused(t *testing.T) {
	m := meetFor(t, rnic.UD, Options{})
	a := newSide(t, m.dev, rnic.UD)
	go func() {
		if r, err := m.l.Accept(t.Context()); err == nil {
			r.Reject([]byte("no"))
		}
	}()
	err := m.dev.Connect(t.Context(), a.qp, m.addr, rnic.ConnParams{})
	var r *rnic.RejectError
	if !errors.As(err, &r) || !bytes.HasPrefix(r.PrivateData, []byte("no\x00")) {
		t.Errorf("Connect: %v, want a RejectError with no", err)
	}
	host := netip.MustParseAddrPort(m.addr)
	if err := m.dev.Connect(t.Context(), a.qp, netip.AddrPortFrom(host.Addr(), service+1).String(), rnic.ConnParams{}); !errors.Is(err, errRefused) {
		t.Errorf("Connect: %v, want %v", err, errRefused)
	}
	for _, s := range []rnic.Service{rnic.RC, rnic.UC} {
		if err := m.dev.Connect(t.Context(), newSide(t, m.dev, s).qp, m.addr, rnic.ConnParams{}); !errors.Is(err, errRefused) {
			t.Errorf("%v: %v", s, err)
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if err := m.dev.Connect(ctx, a.qp, m.addr, rnic.ConnParams{}); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("Connect: %v, want %v", err, context.DeadlineExceeded)
	}
	if a.qp.State() != rnic.StateIdle || a.qp.Peer() != (rnic.AddressHandle{}) {
		t.Error(a.qp.State(), a.qp.Peer())
	}
	if err := m.accept(t.Context(), newSide(t, m.dev, rnic.UC).qp, ""); err == nil {
		t.Error("a QP of UC was named to who asks for datagrams")
	}
}

// TestAcceptElsewhere: a QP bound to one address is not returned for a request to another.
func TestAcceptElsewhere(t *testing.T) {
	m := meetFor(t, rnic.UD, Options{})
	_, other := hosts(t)
	b := newSide(t, m.dev, rnic.UD).bind(other)
	b.connect(OutOfBand{})
	accepted := make(chan error, 1)
	go func() { accepted <- m.accept(t.Context(), b.qp, "") }()
	a := newSide(t, m.dev, rnic.UD)
	if err := m.dev.Connect(t.Context(), a.qp, m.addr, rnic.ConnParams{}); err == nil {
		t.Error("connected")
	}
	if err := <-accepted; !errors.Is(err, errOtherAddress) || b.qp.State() != rnic.StateRTS {
		t.Error(err, b.qp.State())
	}
}

// TestWrongTransport: a UC request for an RC listener's service is refused with that reason.
func TestWrongTransport(t *testing.T) {
	m := meet(t, Options{})
	a := newSide(t, m.dev, rnic.UC)
	to := netip.MustParseAddrPort(m.addr)
	e := rnic.EndpointOf(a.qp).(*endpoint)
	b, err := e.p.bindFor(e, to.Addr(), 0)
	if err != nil {
		t.Fatalf("bindFor: %v", err)
	}
	l, err := newCMLink(e, b, &session{})
	if err != nil {
		t.Fatalf("newCMLink: %v", err)
	}
	local := e.local(b, &session{}, 1024)
	b.port.control.do(func(m *cm.CM, at cm.Instant) {
		l.k, err = m.Connect(at, cm.Request{Peer: to.Addr(), Service: mad.IPService(mad.ProtocolTCP, to.Port()), Local: local})
		if err == nil {
			l.k.Owner = l
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	<-l.made
	var r *cm.RejectError
	if !errors.As(l.err, &r) || r.Reason != mad.RejTransport {
		t.Error(l.err)
	}
}

// TestSIDRRequestsAreBounded: unanswered SIDR requests are replaced by new ones, each peer gets at
// most one answer for each, and the listener still works.
func TestSIDRRequestsAreBounded(t *testing.T) {
	_, at := hosts(t)
	dev := OpenWith(rnic.DeviceConfig{MaxHandshakes: 8}, Options{})
	addr := fmt.Sprintf("%v:%d", at, service)
	l, err := dev.ListenFor(rnic.UD, "udp", addr)
	if err != nil {
		t.Fatalf("ListenFor: %v", err)
	}
	defer l.Close()
	m := &meeting{l, addr, dev}
	c := &portOf(t, at).control
	before := c.counters()
	for i := range 1000 {
		q := mad.SIDRREQ{RequestID: uint32(i), PartitionKey: 0xffff, ServiceID: serviceID(rnic.UD, service)}
		from := netip.AddrFrom4([4]byte{127, 63, byte(i >> 8), byte(i)})
		h, err := (&mad.IPCM{Source: netip.AddrPortFrom(from, 1), Destination: at}).Append(nil)
		if err != nil {
			t.Fatalf("Append: %v", err)
		}
		copy(q.PrivateData[:], h)
		b := mad.NewHeader(mad.AttrSIDRREQ, uint64(i))
		c.do(func(m *cm.CM, now cm.Instant) { m.Receive(now, from, q.Append(b.Append(nil))) })
	}
	c.mu.Lock()
	conns := c.cm.Conns()
	c.mu.Unlock()
	n := c.counters()
	if conns > 8 {
		t.Fatalf("conns: %v, want at most %v", conns, 8)
	}
	if n.Sent-before.Sent > 1000 {
		t.Fatalf("n.Sent-before.Sent: %v, want at most %v", n.Sent-before.Sent, 1000)
	}
	if n.Evicted-before.Evicted < 900 {
		t.Fatalf("n.Evicted-before.Evicted: %v, want at least %v", n.Evicted-before.Evicted, 900)
	}
	for range 8 { // the first ones, evicted
		if r, err := l.Accept(t.Context()); err == nil {
			r.Reject(nil)
		}
	}
	b, a := newSide(t, dev, rnic.UD), newSide(t, dev, rnic.UD)
	m.join(a, b)
	pingOnce(t, a, b)
}

// portOf returns an address's open port.
func portOf(t *testing.T, at netip.Addr) *port {
	t.Helper()
	ports.mu.Lock()
	defer ports.mu.Unlock()
	p := ports.all[netip.AddrPortFrom(at, UDPPort)]
	if p == nil {
		t.Fatal("no port")
	}
	return p
}
