// The checks common to all packets, in order: network headers, ICRC, version, QP, state, service,
// addresses, keys.

package core

import (
	"encoding/binary"
	"errors"
	"net/netip"
	"testing"

	"github.com/nfsrdma/nfsrdma/rnic"
	"github.com/nfsrdma/nfsrdma/rnic/roce/packet"
	"github.com/nfsrdma/nfsrdma/test/conformance"
	"github.com/nfsrdma/nfsrdma/test/must"
)

// Each wrong header field drops the packet and increments only that step's counter.
func TestHeaderChecks(t *testing.T) {
	conformance.Proves(t, "IBU-002", "IBU-008", "IBU-017", "IBU-020", "IBU-114", "IBU-173", "IBU-174", "IBU-176", "IBU-177", "IBU-178", "IBU-181", "IBU-182", "IBU-188", "IBU-222", "IBU-229", "IBU-029")
	s := responder(t, rnic.RemoteWrite)
	s.recv(1, 600, 600)
	good := func(change ...func(*packet.Header)) frame {
		return s.say(packet.UCSendOnly, 100, []byte("hello"), change...)
	}
	// resealed replaces a byte in the transport headers, and recomputes the ICRC.
	resealed := func(at int, v byte) frame {
		f := good()
		f.datagram = f.datagram[:len(f.datagram)-packet.ICRCLen]
		f.datagram[at] = v
		f.seal()
		return f
	}
	network := func(at int, v ...byte) frame {
		f := good()
		copy(f.network[at:], v)
		f.datagram = f.datagram[:len(f.datagram)-packet.ICRCLen]
		if f.network[0] == 0x45 {
			f.seal()
		} else {
			f.datagram = append(f.datagram, 0, 0, 0, 0)
		}
		return f
	}
	for name, row := range map[string]struct {
		f    frame
		want Drop
	}{
		"IPv4 options":      {network(0, 0x46), DropNetwork},
		"not UDP":           {network(9, 6), DropNetwork},
		"more fragments":    {network(6, 0x20), DropNetwork},
		"fragment offset":   {network(6, 0x40, 1), DropNetwork},
		"IP length":         {network(2, 0, 46), DropNetwork},
		"UDP length":        {network(24, 0, 24), DropNetwork},
		"other destination": {network(16, 192, 0, 2, 9), DropNetwork},
		"more than said":    {func() frame { f := good(); f.datagram = append(f.datagram, 1, 2, 3, 4); return f }(), DropNetwork},
		"ICRC":              {func() frame { f := good(); f.datagram[len(f.datagram)-1] ^= 1; return f }(), DropICRC},
		"version 1":         {resealed(1, 0x31), DropVersion},
		"version 15":        {resealed(1, 0x3f), DropVersion},
		"pad past the end":  {put(addrA, addrB, 0xc000, packHeader(packet.Header{BTH: packet.BTH{Opcode: packet.UCSendOnly, Pad: 3, PKey: 0xffff, DestQP: s.qp.num}})), DropMalformed},
		"no multiple of 4":  {put(addrA, addrB, 0xc000, append(packHeader(packet.Header{BTH: packet.BTH{Opcode: packet.UCSendOnly, PKey: 0xffff, DestQP: s.qp.num}}), 1)), DropMalformed},
		"half a BTH":        {put(addrA, addrB, 0xc000, make([]byte, 8)), DropMalformed},
		"no such QP":        {good(func(h *packet.Header) { h.DestQP = 0x999 }), DropQPN},
		"QP 0":              {good(func(h *packet.Header) { h.DestQP = 0 }), DropQPN},
		"RC":                {resealed(0, 0x04), DropService},
		"UD":                {put(addrA, addrB, 0xc000, packHeader(packet.Header{BTH: packet.BTH{Opcode: packet.UDSendOnly, PKey: 0xffff, DestQP: s.qp.num}})), DropService},
		"forged source":     {built(addrC4, addrB, packet.Header{BTH: packet.BTH{Opcode: packet.UCSendOnly, PKey: 0xffff, DestQP: s.qp.num, PSN: 100}}, nil), DropAddress},
		"P_Key 1234":        {good(func(h *packet.Header) { h.PKey = 0x1234 }), DropPKey},
		"P_Key and PSN":     {good(func(h *packet.Header) { h.PKey, h.PSN = 0x8000, 7 }), DropPKey},
		"P_Key 0":           {good(func(h *packet.Header) { h.PKey = 0 }), DropPKey},
	} {
		t.Run(name, func(t *testing.T) { s.t = t; s.dropped(row.f, row.want) })
	}
	if s.epsn() != 100 {
		t.Errorf("expects %d", s.epsn())
	}
	s.t = t
	s.take(put(addrA, addrB, 1, good().datagram[:packet.BTHLen+8])) // UD accepts any source port
	s.want(rnic.OpRecv, 1, 5)
}

var addrC4 = netip.MustParseAddr("192.0.2.3")

func packHeader(h packet.Header) []byte { return h.Append(nil) }

// P_Keys match if the partitions match and are not zero, and one of the two is a full member.
func TestPKeys(t *testing.T) {
	conformance.Proves(t, "IBU-177", "IBU-178")
	for _, row := range []struct {
		local, sent uint16
		want        Drop
	}{
		{0xffff, 0xffff, Accepted}, {0xffff, 0x7fff, Accepted}, {0x7fff, 0xffff, Accepted}, {0x7fff, 0x7fff, DropPKey}, {0xffff, 0x8000, DropPKey},
		{0xffff, 0, DropPKey}, {0x8000, 0x8000, DropPKey}, {0x8000, 0, DropPKey}, {0x9234, 0x1234, Accepted}, {0x9234, 0x9235, DropPKey},
	} {
		s := newHost(addrB).newSide(t, rnic.UC, 4, 8).connect(Attrs{PKey: row.local, Peer: addrA, PathMTU: 256, RQPSN: 100})
		s.recv(1, 10)
		if d := s.take(s.say(packet.UCSendOnly, 100, nil, func(h *packet.Header) { h.PKey = row.sent })); d != row.want {
			t.Errorf("%04x at %04x: %v", row.sent, row.local, d)
		}
	}
	s := newHost(addrB).newSide(t, rnic.UD, 4, 8).datagrams(0)
	bad := s.say(packet.UDSendOnly, 0, nil, func(h *packet.Header) { h.PKey = 0x1234 })
	for range 70_000 {
		s.host.port.Receive(0, bad.network, bad.datagram, false, nil)
	}
	if c := s.host.port.Counters(); c.Dropped(DropPKey) != 70_000 || c.PKeyViolations() != 65535 {
		t.Errorf("%d, %d", c.Dropped(DropPKey), c.PKeyViolations())
	}
}

// Reserved bits, congestion bits, MigReq and AckReq change nothing. Neither does a zero UDP
// checksum, over IPv4 and IPv6, nor a field that routers change.
func TestIgnoredBits(t *testing.T) {
	conformance.Proves(t, "IBU-152", "IBU-185", "IBU-243", "IBU-190", "IBU-002", "IBU-195")
	for at, bits := range map[int]byte{1: 0x40, 4: 0xff, 8: 0xff} {
		s := responder(t, 0)
		s.recv(1, 600)
		f := s.say(packet.UCSendOnly, 100, []byte("hello"))
		f.datagram = f.datagram[:len(f.datagram)-packet.ICRCLen]
		f.datagram[at] |= bits
		f.datagram[len(f.datagram)-1] = 0xee // pad
		f.seal()
		f.network[1], f.network[8] = 0xb8, 7
		if d := s.take(f); d != Accepted {
			t.Errorf("byte %d, bits %02x: %v", at, bits, d)
		}
		s.want(rnic.OpRecv, 1, 5)
		if fs := s.send(); len(fs) != 0 {
			t.Errorf("answered: %x", fs)
		}
	}
	six := newHost(addrD).newSide(t, rnic.UC, 4, 8).connect(Attrs{Peer: addrC, PathMTU: 256, RQPSN: 100})
	six.recv(1, 10)
	f := six.say(packet.UCSendOnly, 100, []byte("six"))
	if binary.BigEndian.Uint16(f.network[46:]) != 0 {
		t.Fatal("checksum")
	}
	f.network[0], f.network[1], f.network[3], f.network[7] = 0x6f, 0xff, 0x99, 3
	if d := six.take(f); d != Accepted {
		t.Errorf("take: %v, want %v", d, Accepted)
	}
	six.want(rnic.OpRecv, 1, 3)
	f.network[6] = 0x1b // a raw InfiniBand datagram is not RoCEv2
	if d := six.take(f); d != DropNetwork {
		t.Errorf("take: %v, want %v", d, DropNetwork)
	}
}

// A congestion notification, captured from an adapter, leaves no trace.
func TestCongestionNotification(t *testing.T) {
	conformance.Proves(t, "IBU-186")
	s := responder(t, 0)
	s.recv(1, 100)
	h := packet.Header{BTH: packet.BTH{Opcode: packet.CNP, PKey: 0xffff, BECN: true, DestQP: s.qp.num}}
	if d := s.take(built(addrA, addrB, h, make([]byte, 16))); d != Accepted || s.epsn() != 100 {
		t.Errorf("%v, expects %d", d, s.epsn())
	}
	s.none()
	s.take(s.say(packet.UCSendOnly, 100, nil))
	s.want(rnic.OpRecv, 1, 0)
}

// Each state takes or drops packets, and takes or refuses sends, according to the drawing.
func TestStates(t *testing.T) {
	conformance.Proves(t, "IBU-043", "IBU-063", "IBU-175", "IBU-242")
	type does struct{ takes, posts, sends bool }
	want := map[State]does{RESET: {}, INIT: {}, RTR: {takes: true}, RTS: {true, true, true}, SQD: {true, true, false}, SQE: {takes: true}, ERR: {}}
	for state, want := range want {
		s := newHost(addrB).newSide(t, rnic.UC, 8, 64)
		s.recv(1, 10)
		a := Attrs{PKey: 0xffff, Peer: addrA, PathMTU: 256, RQPSN: 100, SQPSN: 7}
		if state != RESET {
			s.modify(INIT, initUC, a)
			s.establish()
		}
		if state == RTR || state == RTS || state == SQD || state == SQE || state == ERR {
			s.modify(RTR, rtrUC, a)
		}
		if state == RTS || state == SQD || state == SQE || state == ERR {
			if fs := s.send(); len(fs) != 0 {
				t.Error("sent before RTS")
			}
			s.modify(RTS, AttrSQPSN, a)
		}
		switch state {
		case SQD:
			s.modify(SQD, 0, a)
		case SQE:
			s.post(rnic.SendWR{})
			s.qp.Next(0, make([]byte, MaxPacket))
			s.qp.SendFailed()
			s.completions()
		case ERR:
			s.end.Abort(nil)
			if wcs := s.completions(); len(wcs) != 1 || wcs[0].Status != rnic.WCFlushErr {
				t.Errorf("ERR: %v", wcs)
			}
		}
		if s.state() != state {
			t.Fatalf("%v, want %v", s.state(), state)
		}
		d := s.take(s.sayTo(100))
		if (d == Accepted) != want.takes || !want.takes && d != DropState {
			t.Errorf("%v: a packet: %v", state, d)
		}
		if n := len(s.completions()); (n == 1) != want.takes {
			t.Errorf("%v: %d completions", state, n)
		}
		err := s.qp.Post([]rnic.Posted{{}})
		if (err == nil) != want.posts || err != nil && !errors.Is(err, rnic.ErrState) {
			t.Errorf("%v: a post: %v", state, err)
		}
		if _, a := s.qp.Query(); !want.posts && state != ERR && state != SQE && a.SQPSN != map[bool]uint32{true: 7}[false] && a.SQPSN != 7 {
			t.Errorf("%v: PSN %d", state, a.SQPSN)
		}
		if n := len(s.send()); (n == 1) != want.sends {
			t.Errorf("%v: %d packets", state, n)
		}
	}
}

// sayTo returns an ONLY packet from addrA for a QP in any state.
func (s *side) sayTo(psn uint32) frame {
	return built(addrA, addrB, packet.Header{BTH: packet.BTH{Opcode: packet.UCSendOnly, PKey: 0xffff, DestQP: s.qp.num, PSN: psn}}, nil)
}

// Each state change needs its required attributes, and refuses forbidden ones.
func TestModify(t *testing.T) {
	conformance.Proves(t, "IBU-040", "IBU-062", "IBU-134", "IBU-212", "IBU-230", "IBU-231")
	all := AttrPKey | AttrQKey | AttrAccess | AttrPeer | AttrPathMTU | AttrDestQPN | AttrRQPSN | AttrSQPSN
	a := Attrs{PKey: 0xffff, Peer: addrA, PathMTU: 1024, DestQPN: 1, RQPSN: 2, SQPSN: 3, QKey: 4}
	need := map[rnic.Service][3]Attr{rnic.UC: {initUC, rtrUC, AttrSQPSN}, rnic.UD: {initUD, 0, AttrSQPSN}}
	for service, need := range need {
		h := newHost(addrB)
		s := h.newSide(t, service, 4, 8)
		for i, to := range []State{INIT, RTR, RTS} {
			for bit := Attr(1); bit != 0; bit <<= 1 {
				if need[i]&bit != 0 {
					if err := s.qp.Modify(to, need[i]&^bit, a); !errors.Is(err, ErrAttr) {
						t.Errorf("%v to %v without %v: %v", service, to, bit, err)
					}
				}
			}
			if err := s.qp.Modify(to, all, a); !errors.Is(err, ErrAttr) {
				t.Errorf("%v to %v with everything: %v", service, to, err)
			}
			for other := RESET; other <= ERR; other++ {
				if other == to || other == ERR || other == s.state() || other == RESET {
					continue
				}
				if err := s.qp.Modify(other, need[i], a); !errors.Is(err, ErrTransition) {
					t.Errorf("%v from %v to %v: %v", service, s.state(), other, err)
				}
			}
			s.modify(to, need[i], a)
		}
		if err := s.qp.Modify(RTS, AttrRQPSN, a); !errors.Is(err, ErrAttr) {
			t.Errorf("receive PSN in RTS: %v", err)
		}
		if err := s.qp.Modify(INIT, 0, a); !errors.Is(err, ErrTransition) {
			t.Errorf("back to INIT: %v", err)
		}
		if err := s.qp.Modify(ERR+1, 0, a); !errors.Is(err, ErrTransition) {
			t.Errorf("no state: %v", err)
		}
		s.modify(SQD, 0, a)
		s.modify(RTS, 0, a)
		s.modify(ERR, 0, a)
		if err := s.qp.Modify(RESET, 0, a); !errors.Is(err, ErrTransition) {
			t.Errorf("out of ERR: %v", err)
		}
	}
	for _, mtu := range []int{-256, 0, 128, 255, 257, 300, 768, 8192} {
		s := newHost(addrB).newSide(t, rnic.UC, 4, 8)
		s.modify(INIT, initUC, a)
		bad := a
		bad.PathMTU = mtu
		if err := s.qp.Modify(RTR, rtrUC, bad); !errors.Is(err, ErrValue) || s.state() != INIT {
			t.Errorf("path MTU %d: %v", mtu, err)
		}
	}
	for _, change := range []func(*Attrs){func(a *Attrs) { a.DestQPN = 1 << 24 }, func(a *Attrs) { a.RQPSN = 1 << 24 }, func(a *Attrs) { a.Peer = netip.Addr{} }} {
		s := newHost(addrB).newSide(t, rnic.UC, 4, 8)
		s.modify(INIT, initUC, a)
		bad := a
		change(&bad)
		if err := s.qp.Modify(RTR, rtrUC, bad); !errors.Is(err, ErrValue) {
			t.Errorf("%+v: %v", bad, err)
		}
	}
}

// PathMTU computes a link's path MTU as rxe does.
func TestPathMTU(t *testing.T) {
	conformance.Proves(t, "IBU-213", "IBU-212")
	for link, want := range map[int]int{0: 0, 335: 0, 336: 256, 1500: 1024, 2127: 1024, 2128: 2048, 4176: 4096, 9000: 4096, 65536: 4096} {
		if got := PathMTU(link); got != want {
			t.Errorf("%d: %d, want %d", link, got, want)
		}
	}
}

// A QP may go back to RESET before it was connected. Then it drops packets.
func TestBackToReset(t *testing.T) {
	s := newHost(addrB).newSide(t, rnic.UC, 4, 8)
	a := Attrs{PKey: 0xffff, Peer: addrA, PathMTU: 256, RQPSN: 5}
	s.modify(INIT, initUC, a)
	s.modify(RTR, rtrUC, a)
	s.modify(RESET, 0, a)
	if d := s.take(s.sayTo(5)); d != DropState {
		t.Errorf("take: %v, want %v", d, DropState)
	}
}

// A QPN belongs to one QP at a time. The counts of a removed QP remain.
func TestPortTable(t *testing.T) {
	h := newHost(addrB)
	s := h.newSide(t, rnic.UC, 4, 8)
	if err := h.port.Add(s.qp); !errors.Is(err, ErrQPN) {
		t.Errorf("Add: %v, want %v", err, ErrQPN)
	}
	for _, num := range []uint32{0, MulticastQPN, 1 << 24} {
		if err := h.port.Add(&QP{num: num}); !errors.Is(err, ErrQPN) {
			t.Errorf("%#x: %v", num, err)
		}
	}
	s.take(s.sayTo(0))
	h.port.Remove(s.qp)
	h.port.Remove(s.qp)
	s.take(s.sayTo(0))
	if c := h.port.Counters(); c.Dropped(DropState) != 1 || c.Dropped(DropQPN) != 1 {
		t.Errorf("%+v", c)
	}
	if _, err := New(nil, Config{Service: packet.ServiceCNP}); !errors.Is(err, ErrService) {
		t.Errorf("New: %v, want %v", err, ErrService)
	}
	if _, err := New(nil, Config{Service: packet.UD, PortMTU: 1500}); !errors.Is(err, ErrValue) {
		t.Errorf("New: %v, want %v", err, ErrValue)
	}
}

// A full completion queue ends the QP, for sends and receives.
func TestCQOverrun(t *testing.T) {
	conformance.Proves(t, "IBU-169", "IBU-242")
	for _, send := range []bool{true, false} {
		s := newHost(addrB).newSide(t, rnic.UC, 8, 1).connect(Attrs{Peer: addrA, PathMTU: 256, RQPSN: 100})
		s.recv(1, 10, 10, 10)
		if send {
			for range 3 {
				s.post(rnic.SendWR{})
			}
			s.send()
		} else {
			s.take(s.say(packet.UCSendOnly, 100, nil), s.say(packet.UCSendOnly, 101, nil), s.say(packet.UCSendOnly, 102, nil))
		}
		if s.state() != ERR || !errors.Is(s.vqp.Err(), rnic.ErrCQOverrun) {
			t.Errorf("%v, %v", s.state(), s.vqp.Err())
		}
		if n := len(s.completions()); n < 3 {
			t.Errorf("%d completions: what was posted has to come back", n)
		}
	}
}

// ERR flushes all posted work on both queues.
func TestFlush(t *testing.T) {
	conformance.Proves(t, "IBU-242")
	s := responder(t, 0)
	s.recv(1, 10, 10, 10, 10, 10)
	for range 5 {
		s.post(rnic.SendWR{Unsignaled: true})
	}
	s.end.Abort(nil)
	wcs := s.completions()
	if len(wcs) != 10 {
		t.Fatal(wcs)
	}
	for _, wc := range wcs {
		if wc.Status != rnic.WCFlushErr {
			t.Error(wc)
		}
	}
	s.dropped(s.say(packet.UCSendOnly, 100, nil), DropState)
}

func TestStrings(t *testing.T) {
	for d := Accepted; d <= DropAccess; d++ {
		if d.String() == "" {
			t.Errorf("drop %d has no name", d)
		}
	}
	must.Equal(t, "Drop(99).String()", Drop(99).String(), "Drop(99)")
	must.Equal(t, "State(99).String()", State(99).String(), "State(99)")
	must.Equal(t, "RTS.String()", RTS.String(), "RTS")
	must.Equal(t, "(AttrPKey|AttrSQPSN).String()", (AttrPKey | AttrSQPSN).String(), "P_Key, send PSN")
	s := responder(t, 0)
	must.Equal(t, "s.qp.String()", s.qp.String(), "UC QP 0x000011")
	must.Equal(t, "s.qp.Service()", s.qp.Service(), packet.UC)
	must.Equal(t, "s.qp.Num()", s.qp.Num(), 0x11)
}
