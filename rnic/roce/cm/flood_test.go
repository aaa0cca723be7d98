// Attacks: REQ floods, forged sources, guesses, and the datagrams that they trigger.

package cm

import (
	"math/rand/v2"
	"net/netip"
	"testing"

	"github.com/nfsrdma/nfsrdma/rnic/roce/mad"
	"github.com/nfsrdma/nfsrdma/test/must"
)

// forged returns an unused address.
func forged(n uint32) netip.Addr {
	return netip.AddrFrom4([4]byte{198, 18, byte(n >> 8), byte(n)})
}

// forgedREQ returns a complete, acceptable REQ from an address.
func forgedREQ(s *side, from netip.Addr, id uint32) Datagram {
	c := New(Config{Addr: from, GUID: uint64(id)})
	r := request()
	m := c.buildREQ(&r, s.addr)
	private, err := c.private(m.PrivateData[:], r.Service, 1, s.addr, nil)
	if err != nil {
		panic(err)
	}
	copy(m.PrivateData[:], private)
	m.LocalCommID, m.LocalQPN = id, 2+id&0xffff
	return by(mad.AttrREQ, uint64(id), &m)
}

// tally counts datagrams from and to each address.
type tally struct{ to, from map[netip.Addr]int }

func newTally() *tally { return &tally{make(map[netip.Addr]int), make(map[netip.Addr]int)} }

// serve accepts all requests at once. It counts the side's datagrams in n, and returns the number
// of ended connections.
func (s *side) serve(now Instant, n *tally) (ended int) {
	for _, e := range s.told() {
		switch e.Kind {
		case Requested:
			must.Succeed(s.t, s.cm.Accept(now, e.Conn, qpB, nil))
		case Ended:
			ended++
		}
	}
	for _, d := range s.sent() {
		n.to[d.To]++
	}
	return ended
}

// A flood from many sources without answers uses bounded memory and gets no more datagrams than
// it sends. Meanwhile a host that answers within a round trip connects.
func TestFloodOfManySources(t *testing.T) {
	for _, repeat := range []int{1, 3} {
		a, b := two(t)
		n := newTally()
		now := Instant(0)
		flood := func(from, to uint32) {
			for i := from; i < to; i++ {
				now += 10_000 // 100,000 per second
				src := forged(i % 5000)
				d := forgedREQ(b, src, i/uint32(repeat)+1)
				b.cm.Receive(now, src, d.MAD[:])
				n.from[src]++
				b.cm.Advance(now)
				b.serve(now, n)
				most := 256 + int(b.cm.Counters().Established)
				if b.cm.Conns() > most {
					t.Fatalf("b.cm.Conns(): %v, want at most %v", b.cm.Conns(), most)
				}
				if len(b.cm.sources) > most {
					t.Fatalf("len(b.cm.sources): %v, want at most %v", len(b.cm.sources), most)
				}
				if len(b.cm.requests) > most {
					t.Fatalf("len(b.cm.requests): %v, want at most %v", len(b.cm.requests), most)
				}
				if len(b.cm.timers) > 256 {
					t.Fatalf("len(b.cm.timers): %v, want at most %v", len(b.cm.timers), 256)
				}
			}
		}
		flood(0, 3000)
		ka, err := a.cm.Connect(now, request())
		must.Succeed(t, err)
		b.hears(now, a, a.says(mad.AttrREQ), Accepted)
		e := b.told()
		must.Succeed(t, b.cm.Accept(now, e[len(e)-1].Conn, qpB, nil))
		out := b.sent()
		flood(3000, 3200) // 2 ms
		a.hears(now, b, out[len(out)-1], Accepted)
		a.one(Replied)
		must.Succeed(t, a.cm.Confirm(now, ka, nil))
		b.hears(now, a, a.says(mad.AttrRTU), Accepted)
		flood(3200, 5000)
		for b.cm.halfOpen.Len() > 0 { // until all half-open connections have expired
			now, _ = b.cm.NextDeadline()
			b.cm.Advance(now)
			b.serve(now, n)
		}
		if n := b.cm.Counters(); n.Established != 1 || n.Evicted == 0 {
			t.Errorf("%+v", n)
		}
		for src, sent := range n.to {
			if sent > n.from[src] {
				t.Errorf("%v sent %d and was sent %d", src, n.from[src], sent)
			}
		}
		if b.cm.Conns() != 1 || len(b.cm.sources) != 1 {
			t.Errorf("%d connections of %d sources are left", b.cm.Conns(), len(b.cm.sources))
		}
	}
}

// One source uses only its share: other sources' connections stay.
func TestFloodOfOneSource(t *testing.T) {
	a, b := two(t)
	_, kb := ask(t, a, b, 0)
	n := newTally()
	for i := range uint32(1000) {
		d := forgedREQ(b, addrC, i+1)
		b.hearsFrom(1, addrC, d, Accepted)
		b.serve(1, n)
	}
	must.Equal(t, "kb.state", kb.state, reqReceived)
	must.Equal(t, "b.cm.Conns()", b.cm.Conns(), 1+64)
	must.Equal(t, "n.to[addrC]", n.to[addrC], 1000)
}

// Datagrams of all kinds without a connection get answers at a limited rate, at most one each.
func TestFloodOfRefusals(t *testing.T) {
	_, b := two(t)
	r := rand.New(rand.NewPCG(1, 2))
	for i := range 20_000 {
		now := Instant(i) * 100_000 // two seconds
		before := b.cm.Counters().Sent
		switch i % 4 {
		case 0:
			m := peerREQ(b)
			m.ServiceID++
			b.hearsFrom(now, addrA, by(mad.AttrREQ, peerTID, m), DropRefused)
		case 1:
			b.hearsFrom(now, addrA, by(mad.AttrREP, 1, &mad.REP{RemoteCommID: r.Uint32(), LocalCommID: 1, LocalQPN: 5}), DropUnknown)
		case 2:
			b.hearsFrom(now, addrA, by(mad.AttrDREQ, 1, &mad.DREQ{RemoteCommID: r.Uint32(), LocalCommID: 1}), DropUnknown)
		case 3:
			b.hearsFrom(now, addrA, by(mad.AttrSIDRREQ, 1, &mad.SIDRREQ{RequestID: r.Uint32()}), DropRefused)
		}
		if b.cm.Counters().Sent > before+1 {
			t.Fatal("more than one answer")
		}
	}
	c := b.cm.Counters()
	if c.Refused < 2000 {
		t.Fatalf("c.Refused: %v, want at least %v", c.Refused, 2000)
	}
	if c.Refused > 2200 {
		t.Fatalf("c.Refused: %v, want at most %v", c.Refused, 2200)
	}
	must.Equal(t, "c.Withheld", c.Withheld, 20_000-c.Refused)
	must.Equal(t, "c.Sent", c.Sent, c.Refused)
	if b.cm.Conns() != 0 || len(b.told()) != 0 {
		t.Error("something is remembered")
	}
	b.sent()
}

// REJ and DREP never get an answer, whatever they contain: two managers cannot loop.
func TestRepliesAreNotAnswered(t *testing.T) {
	_, b := two(t)
	for _, d := range []Datagram{by(mad.AttrREJ, 1, &mad.REJ{RemoteCommID: 5}), by(mad.AttrDREP, 1, &mad.DREP{RemoteCommID: 5}),
		by(mad.AttrRTU, 1, &mad.RTU{RemoteCommID: 5}), by(mad.AttrMRA, 1, &mad.MRA{RemoteCommID: 5}), by(mad.AttrAPR, 1, &mad.APR{RemoteCommID: 5}),
		by(mad.AttrSIDRREP, 1, &mad.SIDRREP{RequestID: 5})} {
		b.cm.Receive(0, addrA, d.MAD[:])
		b.silent()
	}
}

// An attacker with a forged source guesses the REP's communication ID: a few guesses end the
// half-open connections.
func TestRTUGuesses(t *testing.T) {
	_, b := two(t)
	n := newTally()
	r := rand.New(rand.NewPCG(1, 2))
	for i := range uint32(8) {
		b.hearsFrom(0, addrA, forgedREQ(b, addrA, i+1), Accepted)
	}
	b.hearsFrom(0, addrC, forgedREQ(b, addrC, 1), Accepted)
	b.serve(0, n)
	for i := range 4 {
		if b.cm.Conns() != 9 {
			t.Fatalf("%d connections after %d guesses", b.cm.Conns(), i)
		}
		b.hearsFrom(0, addrA, by(mad.AttrRTU, 1, &mad.RTU{LocalCommID: 1, RemoteCommID: r.Uint32()}), DropUnknown)
	}
	ended := b.serve(0, n)
	must.Equal(t, "ended", ended, 8)
	must.Equal(t, "b.cm.Conns()", b.cm.Conns(), 1)
	must.Equal(t, "b.cm.Counters().Evicted", b.cm.Counters().Evicted, 8)
}

// Identifiers, transaction IDs and their order come only from Rand, and are never 0 or in use.
func TestIdentifiers(t *testing.T) {
	ids := []uint64{0, 7, 100, 7 | 1<<32, 0, 8, 101}
	a := newSide(t, addrA, 1, func(c *Config) {
		c.Rand = func() uint64 { v := ids[0]; ids = ids[1:]; return v }
	})
	for _, want := range []struct {
		id  uint32
		tid uint64
	}{{7, 100}, {8, 101}} {
		k, err := a.cm.Connect(0, request())
		must.Succeed(t, err)
		if k.id != want.id || k.tid != want.tid {
			t.Errorf("%#x, %#x; want %+v", k.id, k.tid, want)
		}
	}
}

// If the owner does not poll, datagrams are dropped and memory stays bounded.
func TestSendsAreBounded(t *testing.T) {
	_, b := two(t)
	for i := range 2 * maxSends {
		d := forgedREQ(b, addrC, 1) // not its own address
		b.cm.Receive(Instant(i)*second, addrA, d.MAD[:])
	}
	if got := len(b.sent()); got != maxSends {
		t.Errorf("%d datagrams", got)
	}
}

// A forged SIDR answer must have the asked address, the identifier and the transaction ID.
func TestForgedAnswers(t *testing.T) {
	a, b := two(t)
	_, err := a.cm.Resolve(0, Request{Peer: addrB, Service: sidrIP})
	must.Succeed(t, err)
	b.hears(0, a, a.says(mad.AttrSIDRREQ), Accepted)
	must.Succeed(t, b.cm.Answer(0, b.one(Asked).Conn, mad.SIDRValid, 0x77, 1, nil))
	right := b.says(mad.AttrSIDRREP)
	h, data, err := mad.Parse(right.MAD[:])
	must.Succeed(t, err)
	rep, err := mad.ParseSIDRREP(data)
	must.Succeed(t, err)
	forge := func(want Drop, from netip.Addr, tid uint64, change func(*mad.SIDRREP)) {
		t.Helper()
		m := rep
		change(&m)
		a.hearsFrom(0, from, by(mad.AttrSIDRREP, tid, &m), want)
		a.silent()
	}
	same := func(*mad.SIDRREP) {}
	for bit := range 64 {
		forge(DropTransaction, addrB, h.TransactionID^1<<bit, same)
		forge(DropMalformed, addrB, h.TransactionID, func(m *mad.SIDRREP) { m.ServiceID ^= 1 << bit })
	}
	for bit := range 32 {
		forge(DropUnknown, addrB, h.TransactionID, func(m *mad.SIDRREP) { m.RequestID ^= 1 << bit })
	}
	for _, qpn := range []uint32{0, 1, 1<<24 - 1} {
		forge(DropMalformed, addrB, h.TransactionID, func(m *mad.SIDRREP) { m.QPN = qpn })
	}
	forge(DropAddress, addrC, h.TransactionID, same)
	a.hearsFrom(0, addrB, right, Accepted)
	es := a.told()
	must.Equal(t, "len(es)", len(es), 2)
	must.Equal(t, "es[0].Kind", es[0].Kind, Resolved)
	must.Equal(t, "es[0].Remote.QPN", es[0].Remote.QPN, 0x77)
	forge(DropUnknown, addrB, h.TransactionID, func(m *mad.SIDRREP) { m.QPN = 5 })
}

// The owner of an evicted half-open connection is notified, before and after it has answered.
func TestEvictionIsReported(t *testing.T) {
	for _, accept := range []bool{false, true} {
		_, b := two(t)
		b.cm.Bound(1)
		first := forgedREQ(b, forged(1), 1)
		b.cm.Receive(0, forged(1), first.MAD[:])
		k := b.one(Requested).Conn
		if accept {
			must.Succeed(t, b.cm.Accept(0, k, qpB, nil))
		}
		second := forgedREQ(b, forged(2), 2)
		b.cm.Receive(0, forged(2), second.MAD[:])
		ended := 0
		for _, e := range b.told() {
			if e.Kind == Ended && e.Conn == k && e.Err == ErrEvicted {
				ended++
			}
		}
		if ended != 1 {
			t.Errorf("accepted %v: the end is reported %d times, want once", accept, ended)
		}
	}
}
