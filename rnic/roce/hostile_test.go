// Strangers' packets: they change nothing, are counted, and get no answer.

package roce

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"

	"github.com/nfsrdma/nfsrdma/rnic"
	"github.com/nfsrdma/nfsrdma/rnic/roce/core"
	"github.com/nfsrdma/nfsrdma/rnic/roce/mad"
	"github.com/nfsrdma/nfsrdma/rnic/roce/packet"
	"github.com/nfsrdma/nfsrdma/rnic/roce/udp"
	"github.com/nfsrdma/nfsrdma/test/must"
)

// A stranger has its own socket, and all knowledge available to a forger.
type stranger struct {
	t     testing.TB
	wire  udp.Wire
	heard chan int // number of packets received
}

func newStranger(t testing.TB, at netip.Addr) *stranger {
	t.Helper()
	w, err := udp.Open(netip.AddrPortFrom(at, 0))
	if err != nil {
		t.Fatalf("Open: %v", err)
	}
	s := &stranger{t: t, wire: w, heard: make(chan int, 1)}
	go func() {
		all := 0
		for {
			n, err := w.Receive(false)
			if err != nil {
				s.heard <- all
				return
			}
			all += n
		}
	}()
	return s
}

// say sends a packet with a valid ICRC to a RoCE port.
func (s *stranger) say(to netip.Addr, h *packet.Header, payload string) {
	s.t.Helper()
	n := len(append(h.Append(s.wire.Room()[:0]), payload...))
	if err := s.wire.Add(n, packet.Tail{}, netip.AddrPortFrom(to, UDPPort)); err != nil {
		s.t.Fatalf("Add: %v", err)
	}
	if n, _, err := s.wire.Send(); n != 1 || err != nil {
		s.t.Fatal(n, err)
	}
}

// end returns the number of packets that the stranger received.
func (s *stranger) end() int {
	s.wire.Close()
	return <-s.heard
}

// dropped waits until a port has dropped n packets for a reason.
func dropped(t testing.TB, p *port, d core.Drop, n uint64) {
	t.Helper()
	must.Become(t, fmt.Sprintf("%d packets dropped for %v", n, d), func() bool { return p.core.Counters().Dropped(d) >= n })
}

// TestForgedPackets: a stranger with knowledge of QPNs and the next PSN can inject nothing and end
// nothing. This holds even for the peer's own address, which any user on its host can use.
func TestForgedPackets(t *testing.T) {
	m := meet(t, Options{})
	a, b := m.connected(t, rnic.ConnParams{}, rnic.ConnParams{})
	operations(t, a, b, []int{100})
	e := rnic.EndpointOf(b.qp).(*endpoint)
	at := e.bound.Load()
	_, attrs := at.qp.Query()
	buf := b.recv(77, 100)

	other, _ := hosts(t)
	from := map[string]*stranger{"another address": newStranger(t, other), "another port": newStranger(t, attrs.Peer)}
	said := uint64(0)
	// The peer's packet may arrive late, after its acknowledge, but strangers' packets must not
	// count as the peer's.
	heard, alive := e.heard.Load(), true
	for tries := 0; alive && tries < 10; tries++ {
		said += sayAll(from, at, attrs)
		dropped(t, at.port, core.DropAddress, said)
		now := e.heard.Load()
		heard, alive = now, now != heard
	}
	if alive {
		t.Error("strangers keep a connection alive whose peer may be gone")
	}
	_, now := at.qp.Query()
	if now.RQPSN != attrs.RQPSN || at.qp.Ended() != nil {
		t.Errorf("PSN %#x became %#x; %v", attrs.RQPSN, now.RQPSN, at.qp.Ended())
	}
	a.post(rnic.SendWR{Op: rnic.OpSend, SGL: [][]byte{[]byte("good")}})
	a.good(1)
	if wc := b.good(1)[0]; wc.ID != 77 || string(buf[:4]) != "good" {
		t.Errorf("%v %q", wc, buf[:4])
	}
	for name, s := range from {
		if n := s.end(); n != 0 {
			t.Errorf("%s was answered %d times", name, n)
		}
	}
}

// sayAll makes strangers send harmful packets to a QP, and returns how many of them count as
// dropped for their address.
func sayAll(from map[string]*stranger, at *binding, attrs core.Attrs) (said uint64) {
	for _, s := range from {
		for _, h := range []packet.Header{
			{BTH: packet.BTH{Opcode: packet.RCSendOnly, PSN: attrs.RQPSN, AckReq: true}},
			// Empty: it needs no key.
			{BTH: packet.BTH{Opcode: packet.RCWriteOnly, PSN: attrs.RQPSN}},
			// A gap, which would get a NAK.
			{BTH: packet.BTH{Opcode: packet.RCSendOnly, PSN: (attrs.RQPSN + 5) & 0xffffff}},
			// A duplicate, which would get an acknowledge.
			{BTH: packet.BTH{Opcode: packet.RCSendOnly, PSN: (attrs.RQPSN - 1) & 0xffffff, AckReq: true}},
			// A NAK, which would end the QP.
			{BTH: packet.BTH{Opcode: packet.RCAck, PSN: attrs.SQPSN}, AETH: packet.AETH{Syndrome: packet.NAK(packet.NAKRemoteAccess)}},
			// A Read Request without a key, which would end the QP too.
			{BTH: packet.BTH{Opcode: packet.RCReadRequest, PSN: attrs.RQPSN}, RETH: packet.RETH{Length: 1}},
			// An RNR NAK, which would delay the QP.
			{BTH: packet.BTH{Opcode: packet.RCAck, PSN: (attrs.SQPSN - 1) & 0xffffff}, AETH: packet.AETH{Syndrome: packet.RNR(31)}},
			{BTH: packet.BTH{Opcode: packet.RCSendOnlyInv, PSN: attrs.RQPSN}, Invalidate: 0x12345600},
			// Not counted as dropped: see below.
			{BTH: packet.BTH{Opcode: packet.CNP}},
		} {
			h.PKey, h.DestQP = defaultPKey, at.qp.Num()
			payload := ""
			if h.Opcode == packet.RCSendOnly {
				payload = "evil"
			}
			if h.Opcode != packet.CNP {
				said++
			}
			s.say(at.port.key.Addr(), &h, payload)
		}
	}
	return said
}

// TestWrongPackets: an invalid packet is dropped without an answer, and counted by reason.
func TestWrongPackets(t *testing.T) {
	at, to := hosts(t)
	victim := newSide(t, Open(rnic.DeviceConfig{}), rnic.UD).bind(at)
	victim.connect(OutOfBand{})
	victim.recv(1, 100)
	p := rnic.EndpointOf(victim.qp).(*endpoint).bound.Load().port
	s := newStranger(t, to)
	cms := func() (n uint64) {
		for _, d := range Drops() {
			if strings.HasPrefix(d.Reason, "CM: ") {
				n += d.Count
			}
		}
		return n
	}
	good := packet.Header{BTH: packet.BTH{Opcode: packet.UDSendOnly, PKey: defaultPKey, DestQP: victim.id.QPN}, DETH: packet.DETH{QKey: testQKey, SrcQP: 5}}
	for _, c := range []struct {
		drop   core.Drop // Accepted: by connection management
		change func(*packet.Header)
	}{
		{core.DropQKey, func(h *packet.Header) { h.DETH.QKey++ }},
		{core.DropPKey, func(h *packet.Header) { h.PKey = 0x8001 }},
		{core.DropQPN, func(h *packet.Header) { h.DestQP ^= 1 }},
		{core.DropQPN, func(h *packet.Header) { h.DestQP = core.MulticastQPN }},
		{core.DropService, func(h *packet.Header) { h.Opcode = packet.RCSendOnly }},
		{core.DropReserved, func(h *packet.Header) { h.Opcode = packet.Opcode(packet.UD)<<5 | 0x1f }},
		// Wrong Q_Key for queue pair 1.
		{core.Accepted, func(h *packet.Header) { h.DestQP = mad.GSIQPN }},
		// Not from queue pair 1.
		{core.Accepted, func(h *packet.Header) { h.DestQP, h.DETH.QKey = mad.GSIQPN, mad.GSIQKey }},
		// Reserved.
		{core.Accepted, func(h *packet.Header) { h.DestQP, h.Opcode = mad.GSIQPN, packet.UDSendOnly|0x1f }},
		{core.Accepted, func(h *packet.Header) {
			h.DestQP, h.DETH = mad.GSIQPN, packet.DETH{QKey: mad.GSIQKey, SrcQP: mad.GSIQPN}
		}}, // no MAD
	} {
		h := good
		c.change(&h)
		before, known := p.core.Counters().Dropped(c.drop), cms()
		s.say(at, &h, "evil")
		if c.drop != core.Accepted {
			dropped(t, p, c.drop, before+1)
			continue
		}
		must.Become(t, fmt.Sprintf("%+v is counted", h), func() bool { return cms() > known })
	}
	if n := s.end(); n != 0 {
		t.Errorf("answered %d times", n)
	}
	if n := victim.cq.Poll(make([]rnic.WC, 1)); n != 0 {
		t.Error("delivered")
	}
	known := Drops()
	victim.qp.Close()
	must.Become(t, "the port has ended", func() bool {
		ports.mu.Lock()
		defer ports.mu.Unlock()
		_, ending := ports.ending[p]
		return ports.all[p.key] != p && !ending
	})
	for i, d := range Drops() {
		if d.Count < known[i].Count {
			t.Errorf("%q went back from %d to %d when the port was closed", d.Reason, known[i].Count, d.Count)
		}
	}
}
