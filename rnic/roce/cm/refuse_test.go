// Refused and dropped datagrams: headers, services, paths, identifiers in use, stale connections.

package cm

import (
	"bytes"
	"errors"
	"net/netip"
	"testing"

	"github.com/nfsrdma/nfsrdma/rnic/roce/mad"
	"github.com/nfsrdma/nfsrdma/rnic/roce/packet"
	"github.com/nfsrdma/nfsrdma/test/conformance"
	"github.com/nfsrdma/nfsrdma/test/must"
)

// Only datagrams for the general services are admitted.
func TestAdmit(t *testing.T) {
	conformance.Proves(t, "IBU-133", "IBU-180")
	d := by(mad.AttrREQ, 1, &mad.RTU{})
	wire := append(d.Append(nil, 7), 0, 0, 0, 0) // no pad, and an ICRC
	if len(wire) != 280 {
		t.Errorf("%d bytes", len(wire))
	}
	h, payload, err := packet.Parse(wire)
	if err != nil || !Admit(&h) || !bytes.Equal(payload, d.MAD[:]) {
		t.Fatalf("%+v, %v", h, err)
	}
	for _, change := range []func(*packet.Header){
		func(h *packet.Header) { h.Opcode = packet.UDSendOnlyImm },
		func(h *packet.Header) { h.DestQP = 2 },
		func(h *packet.Header) { h.DETH.SrcQP = 2 },
		func(h *packet.Header) { h.DETH.QKey = 0x11111111 },
		func(h *packet.Header) { h.PKey = 0xfffe },
	} {
		bad := h
		if change(&bad); Admit(&bad) {
			t.Errorf("%+v is let in", bad)
		}
	}
	if h.PKey = 0x7fff; !Admit(&h) {
		t.Error("a limited member of the partition is not let in")
	}
	for _, psn := range []uint32{7, 0xffffff, 0} { // the same again, ahead, behind
		if h.PSN = psn; !Admit(&h) {
			t.Errorf("PSN %d is not let in", psn)
		}
	}
}

// Datagrams of other kinds are dropped and counted; a REQ with another version is answered.
func TestDatagramsOfOtherKinds(t *testing.T) {
	_, b := two(t)
	for _, c := range []struct {
		at     int
		to     byte
		want   Drop
		answer bool
	}{{0, 2, DropHeader, false}, {1, 3, DropClass, false}, {2, 1, DropClass, true}, {3, 0x83, DropClass, false}, {17, 0x0f, DropAttribute, false},
		{17, 0x1b, DropAttribute, false}, {16, 0xff, DropAttribute, false}} {
		d := by(mad.AttrREQ, peerTID, peerREQ(b))
		d.MAD[c.at] = c.to
		b.hearsFrom(0, addrA, d, c.want)
		if !c.answer {
			b.silent()
			continue
		}
		answer := b.says(mad.AttrREJ)
		r, err := mad.ParseREJ((*mad.Data)(answer.MAD[mad.HeaderLen:]))
		must.Succeed(t, err)
		must.Equal(t, "r.Reason", r.Reason, mad.RejClassVersion)
		must.Equal(t, "r.RemoteCommID", r.RemoteCommID, peerID)
	}
	if d := b.cm.Receive(0, addrA, make([]byte, 255)); d != DropHeader {
		t.Errorf("Receive: %v, want %v", d, DropHeader)
	}
	b.hearsFrom(0, netip.MustParseAddr("2001:db8::1"), by(mad.AttrREQ, peerTID, peerREQ(b)), DropAddress)
	b.silent()
	if b.cm.Refused(); b.cm.Counters().Dropped(DropKeys) != 1 {
		t.Error("not counted")
	}
}

// An unacceptable REQ is rejected once, with the reason, and leaves no state.
func TestInvalidRequests(t *testing.T) {
	for _, c := range []struct {
		change func(*mad.REQ)
		want   mad.Reason
		info   []byte
	}{
		{func(r *mad.REQ) { r.ServiceID++ }, mad.RejServiceID, nil},
		{func(r *mad.REQ) { r.Service = 2 }, mad.RejTransport, nil},
		{func(r *mad.REQ) { r.ExtendedTransport = 1 }, mad.RejTransport, nil},
		{func(r *mad.REQ) { r.PartitionKey = 0x8001 }, mad.RejUnsupported, nil},
		{func(r *mad.REQ) { r.LocalQPN = 1 }, mad.RejUnsupported, nil},
		{func(r *mad.REQ) { r.LocalQPN = 0xffffff }, mad.RejUnsupported, nil},
		{func(r *mad.REQ) { r.Primary.LocalGID = mad.GIDOf(addrC) }, mad.RejPrimaryGID, nil},
		{func(r *mad.REQ) { r.Primary.RemoteGID = mad.GIDOf(addrC) }, mad.RejPrimaryGID, nil},
		{func(r *mad.REQ) { r.PathMTU = 0 }, mad.RejMTU, []byte{3}},
		{func(r *mad.REQ) { r.PathMTU = 4 }, mad.RejMTU, []byte{3}},
		{func(r *mad.REQ) { r.PathMTU = 6 }, mad.RejMTU, []byte{3}},
		// IP CM header version.
		{func(r *mad.REQ) { r.PrivateData[0] = 0x10 }, mad.RejUnsupported, nil},
		{func(r *mad.REQ) { r.PrivateData[19] ^= 1 }, mad.RejUnsupported, nil}, // source address
		// Destination address.
		{func(r *mad.REQ) { r.PrivateData[35] ^= 1 }, mad.RejUnsupported, nil},
	} {
		_, b := two(t)
		m := peerREQ(b)
		c.change(m)
		for range 2 {
			b.hearsFrom(0, addrA, by(mad.AttrREQ, peerTID, m), DropRefused)
			d := b.says(mad.AttrREJ)
			r, err := mad.ParseREJ((*mad.Data)(d.MAD[mad.HeaderLen:]))
			if err != nil || r.Reason != c.want || r.RemoteCommID != peerID || r.LocalCommID != 0 || !bytes.Equal(r.Info[:r.InfoLen], c.info) || d.To != addrA {
				t.Errorf("%v: %+v, %v", c.want, r, err)
			}
		}
		if len(b.told()) != 0 || b.cm.Conns() != 0 || len(b.cm.sources) != 0 {
			t.Errorf("%v: something is remembered", c.want)
		}
	}
	_, b := two(t)
	m := peerREQ(b)
	m.LocalCommID = 0
	b.hearsFrom(0, addrA, by(mad.AttrREQ, peerTID, m), DropMalformed)
	b.silent()
}

// A second use of an identifier is rejected; the first is unaffected.
func TestRepeatedRequest(t *testing.T) {
	for _, r := range rows {
		if r.to != reqReceived && r.to != repSent && r.name != "established, passive" {
			continue
		}
		_, b := two(t)
		k := r.make(t, b)
		b.sent()
		b.told()
		m := peerREQ(b)
		b.hearsFrom(0, addrA, by(mad.AttrREQ, peerTID+1, m), DropRefused)
		m.LocalQPN++
		b.hearsFrom(0, addrA, by(mad.AttrREQ, peerTID, m), DropRefused)
		for _, d := range b.sent() {
			if got, err := mad.ParseREJ((*mad.Data)(d.MAD[mad.HeaderLen:])); err != nil || got.Reason != mad.RejDuplicateCommID {
				t.Errorf("%s: %+v", r.name, got)
			}
		}
		if es := b.told(); len(es) != 0 || k.state != r.to {
			t.Errorf("%s: told %v, now %v", r.name, kinds(es), k.state)
		}
	}
}

// A REJ for a stale connection makes the CM send the REQ once more, with another identifier; a
// second REJ is final.
func TestStaleRetriedOnce(t *testing.T) {
	a, b := two(t)
	k, err := a.cm.Connect(0, request())
	must.Succeed(t, err)
	first := a.says(mad.AttrREQ)
	stale := func() Datagram {
		return by(mad.AttrREJ, k.tid, &mad.REJ{RemoteCommID: k.id, Reason: mad.RejStaleConn})
	}
	a.hears(1, b, stale(), Accepted)
	a.silent()
	a.cm.Advance(1 + interval)
	again := a.says(mad.AttrREQ)
	if bytes.Equal(again.MAD[8:16], first.MAD[8:16]) || bytes.Equal(again.MAD[24:28], first.MAD[24:28]) || !bytes.Equal(again.MAD[28:], first.MAD[28:]) {
		t.Errorf("%x\n%x", first.MAD, again.MAD)
	}
	a.hears(2, b, by(mad.AttrREJ, 5, &mad.REJ{RemoteCommID: mad.ParseREQ((*mad.Data)(first.MAD[mad.HeaderLen:])).LocalCommID}), DropUnknown)
	a.hears(3, b, stale(), Accepted)
	var refusal *RejectError
	es := a.told()
	must.Equal(t, "len(es)", len(es), 2)
	if !errors.As(es[0].Err, &refusal) {
		t.Fatalf("es[0].Err: %v, want a %T", es[0].Err, refusal)
	}
	must.Equal(t, "refusal.Reason", refusal.Reason, mad.RejStaleConn)
}

// A restarted peer connects with its old queue pair. The REQ alone ends nothing, since it may be
// forged; the RTU does. In time-wait the queue pair is refused.
func TestStaleConnection(t *testing.T) {
	a, b := two(t)
	_, old := connected(t, a, b, 0)
	again := newSide(t, addrA, 99) // the same address, queue pair and GUID
	ka, kb := ask(t, again, b, 5)
	must.Succeed(t, b.cm.Accept(6, kb, qpB, nil))
	again.hears(7, b, b.says(mad.AttrREP), Accepted)
	if es := b.told(); len(es) != 0 || old.state != established {
		t.Fatalf("told %v, the old one is %v", kinds(es), old.state)
	}
	must.Succeed(t, again.cm.Confirm(8, ka, nil))
	b.hears(9, again, again.says(mad.AttrRTU), Accepted)
	es := b.told()
	must.Equal(t, "len(es)", len(es), 2)
	must.Equal(t, "es[0].Kind", es[0].Kind, Established)
	must.Equal(t, "es[0].Conn", es[0].Conn, kb)
	must.Equal(t, "es[1].Conn", es[1].Conn, old)
	must.Equal(t, "es[1].Err", es[1].Err, ErrSuperseded)
	b.silent()
	must.Succeed(t, b.cm.Disconnect(10, kb, nil))
	again.hears(10, b, b.says(mad.AttrDREQ), Accepted)
	b.hears(10, again, again.says(mad.AttrDREP), Accepted)
	m := peerREQ(b)
	m.LocalCAGUID = 0x505400fffe000002
	b.hearsFrom(11, addrA, by(mad.AttrREQ, 3, m), DropRefused)
	if r, _ := mad.ParseREJ((*mad.Data)(b.sent()[0].MAD[mad.HeaderLen:])); r.Reason != mad.RejStaleConn {
		t.Errorf("%v", r.Reason)
	}
	b.cm.Advance(10 + 2*second)
	b.hearsFrom(10+2*second, addrA, by(mad.AttrREQ, 3, m), Accepted)
}

// The REP refuses an alternate path.
func TestAlternatePath(t *testing.T) {
	_, b := two(t)
	m := peerREQ(b)
	m.Alternate = m.Primary
	b.hearsFrom(0, addrA, by(mad.AttrREQ, peerTID, m), Accepted)
	must.Succeed(t, b.cm.Accept(0, b.one(Requested).Conn, qpB, nil))
	d := b.says(mad.AttrREP)
	if r := mad.ParseREP((*mad.Data)(d.MAD[mad.HeaderLen:])); r.FailoverAccepted != alternateUnsupported {
		t.Errorf("%+v", r)
	}
}

// A call that the state does not permit changes nothing, nor does oversized private data.
func TestCallsInWrongState(t *testing.T) {
	long := make([]byte, 256)
	for _, r := range rows {
		_, b := two(t)
		k := r.make(t, b)
		b.sent()
		b.told()
		for name, call := range map[string]func() error{
			"Confirm": func() error { return b.cm.Confirm(1, k, long) }, "Accept": func() error { return b.cm.Accept(1, k, qpB, long) },
			"Reject": func() error { return b.cm.Reject(1, k, mad.RejConsumer, long) }, "Answer": func() error { return b.cm.Answer(1, k, 0, 2, 3, long) },
			"Disconnect": func() error { return b.cm.Disconnect(1, k, long) },
		} {
			if err := call(); err != ErrState && err != ErrPrivate || k.state != r.to || len(b.sent()) != 0 || len(b.told()) != 0 {
				t.Errorf("%s, %s: %v, now %v", r.name, name, err, k.state)
			}
		}
		allowed := map[state]bool{reqSent: true, repReceived: true, established: true, reqReceived: true, repSent: true, sidrReqSent: true, sidrReqReceived: true}
		if err := b.cm.Disconnect(1, k, nil); (err == nil) != allowed[r.to] {
			t.Errorf("%s: Disconnect: %v", r.name, err)
		}
	}
	a, b := two(t)
	if err := b.cm.Listen(service); err != ErrService {
		t.Errorf("Listen: %v, want %v", err, ErrService)
	}
	req := request()
	req.Private = long[:57]
	if _, err := a.cm.Connect(0, req); err != ErrPrivate {
		t.Errorf("Connect: %v, want %v", err, ErrPrivate)
	}
	if req.Peer = netip.MustParseAddr("::1"); a.cm.Conns() != 0 {
		t.Error("a connection is left")
	}
	if _, err := a.cm.Connect(0, req); err != ErrPeer {
		t.Errorf("Connect: %v, want %v", err, ErrPeer)
	}
	if _, err := a.cm.Resolve(0, req); err != ErrPeer {
		t.Errorf("Resolve: %v, want %v", err, ErrPeer)
	}
}
