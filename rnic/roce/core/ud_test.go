// UD: each packet is a message, to and from many peers; Q_Keys, the GRH, groups.

package core

import (
	"bytes"
	"errors"
	"net/netip"
	"testing"

	"github.com/nfsrdma/nfsrdma/rnic"
	"github.com/nfsrdma/nfsrdma/rnic/roce/packet"
	"github.com/nfsrdma/nfsrdma/test/conformance"
	"github.com/nfsrdma/nfsrdma/test/must"
)

// A QP sends to three QPs on two hosts in turn. Each of them learns the sender, and the sender's
// PSN grows by one with each message.
func TestManyPeers(t *testing.T) {
	conformance.Proves(t, "IBU-124", "IBU-125", "IBU-126", "IBU-128", "IBU-130", "IBU-131", "IBU-132", "IBU-134", "IBU-135", "IBU-137", "IBU-138", "IBU-145", "IBU-149",
		"IBU-192", "IBU-194", "IBU-235", "IBU-236", "IBU-209", "IBU-210")
	a := newHost(addrA).newSide(t, rnic.UD, 64, 64).datagrams(0xffffff)
	b, c := newHost(addrB), newHost(addrC4)
	to := []*side{b.newSide(t, rnic.UD, 8, 64).datagrams(0), b.newSide(t, rnic.UD, 8, 64).datagrams(5), c.newSide(t, rnic.UD, 8, 64).datagrams(9)}
	for i := range 9 {
		s := to[i%3]
		buf := s.recv(uint64(i), 40+300)[0]
		data := pattern(i*33, i)
		op := []rnic.Opcode{rnic.OpSend, rnic.OpSendSEImmediate}[i%2]
		a.post(rnic.SendWR{ID: uint64(i), Op: op, SGL: pieces(data), Immediate: 0x01020304, AH: &rnic.AddressHandle{Addr: s.host.addr, QPN: s.qp.num, QKey: testQKey}})
		fs := a.send()
		a.want(op, uint64(i), len(data)) // without regard to a receiver
		h, _ := fs[0].header(t)
		must.Equal(t, "len(fs)", len(fs), 1)
		must.Equal(t, "h.PSN", h.PSN, uint32(i-1)&maxPSN)
		must.Equal(t, "h.DETH", h.DETH, packet.DETH{QKey: testQKey, SrcQP: a.qp.num})
		must.Equal(t, "h.DestQP", h.DestQP, s.qp.num)
		must.Equal(t, "h.AckReq", h.AckReq, false)
		must.Equal(t, "h.SE", h.SE, i%2 == 1)
		if d := s.take(fs[0]); d != Accepted {
			t.Fatalf("take: %v, want %v", d, Accepted)
		}
		wc := s.want(rnic.OpRecv, uint64(i), 40+len(data))
		if wc.SrcQP != a.qp.num || wc.Immediate != (i%2 == 1) || wc.Immediate && wc.Value != 0x01020304 || wc.Solicited != wc.Immediate {
			t.Errorf("%+v", wc)
		}
		if !bytes.Equal(buf[:20], make([]byte, 20)) {
			t.Fatalf("buf[:20]: %.64x, want %.64x", buf[:20], make([]byte, 20))
		}
		if !bytes.Equal(buf[20:40], fs[0].network[:20]) {
			t.Fatalf("buf[20:40]: %.64x, want %.64x", buf[20:40], fs[0].network[:20])
		}
		must.Equal(t, "buf[20]", buf[20], 0x45)
		if src := netip.AddrFrom4([4]byte(buf[32:36])); src != addrA {
			t.Errorf("from %v", src)
		}
		if !bytes.Equal(buf[40:40+len(data)], data) {
			t.Error("payload damaged")
		}
	}
}

// Over IPv6 the received header precedes the payload.
func TestGRHOfIPv6(t *testing.T) {
	conformance.Proves(t, "IBU-196", "IBU-237", "IBU-235")
	s := newHost(addrD).newSide(t, rnic.UD, 8, 64).datagrams(0)
	buf := s.recv(1, 45)[0]
	f := built(addrC, addrD, packet.Header{BTH: packet.BTH{Opcode: packet.UDSendOnly, PKey: 0xffff, DestQP: s.qp.num, Pad: 3}, DETH: packet.DETH{QKey: testQKey, SrcQP: 1}}, []byte("hello"))
	if d := s.take(f); d != Accepted {
		t.Fatalf("take: %v, want %v", d, Accepted)
	}
	s.want(rnic.OpRecv, 1, 45)
	h, rest, err := packet.ParseGRH(buf)
	must.Succeed(t, err)
	must.Equal(t, "h.SGID", h.SGID, addrC)
	must.Equal(t, "h.DGID", h.DGID, addrD)
	if !bytes.Equal(buf[:40], f.network[:40]) {
		t.Fatalf("buf[:40]: %.64x, want %.64x", buf[:40], f.network[:40])
	}
	must.Equal(t, "string(rest)", string(rest), "hello")
}

// A UD receiver drops invalid packets, step by step. The receive stays for the next packet.
func TestDatagramsDropped(t *testing.T) {
	conformance.Proves(t, "IBU-002", "IBU-129", "IBU-139", "IBU-140", "IBU-141", "IBU-142", "IBU-143", "IBU-146", "IBU-147", "IBU-160", "IBU-163", "IBU-164", "IBU-167", "IBU-176", "IBU-179", "IBU-211", "IBU-011", "IBU-148")
	h := newHost(addrB)
	h.slate.portMTU = 1024
	s := h.newSide(t, rnic.UD, 8, 64).datagrams(0)
	say := func(n int, change ...func(*packet.Header)) frame {
		return s.say(packet.UDSendOnly, 1, pattern(n, 1), change...)
	}
	s.dropped(say(10), DropNoReceive)
	s.recv(1, 40+10, 40+10, 4096, 39)
	s.dropped(say(11), DropLength)
	for bit := range 32 {
		s.dropped(say(10, func(h *packet.Header) { h.DETH.QKey ^= 1 << bit }), DropQKey)
	}
	if n := s.host.port.Counters().QKeyViolations(); n != 32 {
		t.Errorf("%d Q_Key violations", n)
	}
	bad := say(10)
	bad.datagram[30] ^= 1
	s.dropped(bad, DropICRC)
	for op := packet.Opcode(0x60); op <= 0x7f; op++ {
		if op != packet.UDSendOnly && op != packet.UDSendOnlyImm {
			s.dropped(s.say(op, 1, make([]byte, 16)), DropReserved)
		}
	}
	s.dropped(s.say(packet.UCSendOnly, 1, nil), DropService)
	s.dropped(s.say(packet.RCSendOnly, 1, nil), DropService)
	for i, psn := range []uint32{77, 3} { // in any order
		if d := s.take(s.say([]packet.Opcode{packet.UDSendOnly, packet.UDSendOnlyImm}[i], psn, pattern(10, 1))); d != Accepted {
			t.Fatalf("take: %v, want %v", d, Accepted)
		}
		s.want(rnic.OpRecv, uint64(1+i), 50)
	}
	s.dropped(say(1025), DropLength)
	s.dropped(say(1028), DropLength)
	s.take(say(1024))
	s.want(rnic.OpRecv, 3, 40+1024)
	s.dropped(say(0), DropLength) // 39 bytes are too short for the GRH
	s.recv(9, 40)
	s.end.q.PopRecv()
	s.qp.in.release()
	s.take(say(0))
	s.want(rnic.OpRecv, 9, 40)
	if s.state() != RTS {
		t.Error(s.state())
	}
}

// A datagram longer than the port's MTU sends no packet, and completes as if it had. A datagram
// without a destination is refused.
func TestOversizedDatagram(t *testing.T) {
	conformance.Proves(t, "IBU-127", "IBU-215", "IBU-234", "IBU-125")
	h := newHost(addrA)
	h.slate.portMTU = 2048
	s := h.newSide(t, rnic.UD, 8, 64).datagrams(7)
	ah := &rnic.AddressHandle{Addr: addrB, QPN: 1}
	s.post(rnic.SendWR{ID: 1, SGL: [][]byte{make([]byte, 2049)}, AH: ah})
	if fs := s.send(); len(fs) != 0 {
		t.Errorf("%s", opcodes(t, fs))
	}
	s.want(rnic.OpSend, 1, 2049)
	s.post(rnic.SendWR{ID: 2, SGL: [][]byte{make([]byte, 2048)}, AH: ah})
	s.post(rnic.SendWR{ID: 3, SGL: [][]byte{make([]byte, 2049)}, AH: ah})
	room := make([]byte, MaxPacket)
	if _, _, ok := s.qp.Next(0, room); !ok {
		t.Fatal("no packet")
	}
	s.qp.Next(0, room)
	s.none() // in order: the one before has not left
	s.qp.Sent(1)
	wcs := s.completions()
	must.Equal(t, "len(wcs)", len(wcs), 2)
	must.Equal(t, "wcs[0].ID", wcs[0].ID, 2)
	must.Equal(t, "wcs[1].ID", wcs[1].ID, 3)
	must.Equal(t, "s.state()", s.state(), RTS)
	if _, a := s.qp.Query(); a.SQPSN != 8 {
		t.Errorf("PSN %d", a.SQPSN)
	}
	for _, ah := range []*rnic.AddressHandle{nil, {QPN: 1}, {Addr: addrB, QPN: 1 << 24}} {
		if err := s.vqp.PostSend(rnic.SendWR{AH: ah}); !errors.Is(err, ErrNoAH) {
			t.Errorf("%+v: %v", ah, err)
		}
	}
}

// A Q_Key with bit 31 set means the QP's own.
func TestControlledQKey(t *testing.T) {
	conformance.Proves(t, "IBU-232", "IBU-125")
	s := newHost(addrA).newSide(t, rnic.UD, 8, 64)
	s.modify(INIT, initUD, Attrs{PKey: 0xffff, QKey: 0x80000001})
	s.modify(RTR, 0, Attrs{})
	s.modify(RTS, AttrSQPSN, Attrs{})
	for asked, want := range map[uint32]uint32{0x80010000: 0x80000001, 0x7fffffff: 0x7fffffff, 0: 0} {
		s.post(rnic.SendWR{AH: &rnic.AddressHandle{Addr: addrB, QPN: 1, QKey: asked}})
		if h, _ := s.send()[0].header(t); h.DETH.QKey != want {
			t.Errorf("%#x: %#x on the wire", asked, h.DETH.QKey)
		}
	}
}

// QP 1 always has the general services' Q_Key.
func TestGeneralServices(t *testing.T) {
	conformance.Proves(t, "IBU-180")
	h := newHost(addrB)
	h.slate.num = 0
	s := h.newSide(t, rnic.UD, 8, 64).datagrams(0)
	s.recv(1, 40)
	key := func(k uint32) frame {
		return s.say(packet.UDSendOnly, 0, nil, func(h *packet.Header) { h.DETH.QKey = k })
	}
	s.dropped(key(testQKey), DropQKey)
	s.dropped(key(0x80010001), DropQKey)
	if d := s.take(key(0x80010000)); d != Accepted || s.qp.Num() != 1 {
		t.Error(d)
	}
	s.want(rnic.OpRecv, 1, 40)
	s.post(rnic.SendWR{AH: &rnic.AddressHandle{Addr: addrA, QPN: 1, QKey: 0x80010000}})
	if h, _ := s.send()[0].header(t); h.DETH.QKey != 0x80010000 {
		t.Errorf("%#x", h.DETH.QKey)
	}
}

// A refused datagram completes with an error; the QP goes to SQE and still receives.
func TestDatagramRefused(t *testing.T) {
	conformance.Proves(t, "IBU-136", "IBU-171")
	s := newHost(addrA).newSide(t, rnic.UD, 8, 64).datagrams(7)
	s.recv(5, 100)
	for i := range 2 {
		s.post(rnic.SendWR{ID: uint64(i), AH: &rnic.AddressHandle{Addr: addrB, QPN: 1}})
	}
	s.qp.Next(0, make([]byte, MaxPacket))
	s.qp.SendFailed()
	wcs := s.completions()
	must.Equal(t, "len(wcs)", len(wcs), 2)
	must.Equal(t, "wcs[0].Status", wcs[0].Status, rnic.WCLocErr)
	must.Equal(t, "wcs[1].Status", wcs[1].Status, rnic.WCFlushErr)
	must.Equal(t, "s.state()", s.state(), SQE)
	f := built(addrB, addrA, packet.Header{BTH: packet.BTH{Opcode: packet.UDSendOnly, PKey: 0xffff, DestQP: s.qp.num}, DETH: packet.DETH{QKey: testQKey}}, nil)
	s.take(f)
	s.want(rnic.OpRecv, 5, 40)
}

// A packet to a group reaches all members that accept it, and no other QP.
func TestMulticast(t *testing.T) {
	conformance.Proves(t, "IBU-183", "IBU-182")
	group := netip.MustParseAddr("239.1.2.3")
	h := newHost(addrB)
	var s [4]*side
	for i := range s {
		s[i] = h.newSide(t, rnic.UD, 8, 64).datagrams(0)
		s[i].recv(uint64(i), 100, 100)
	}
	s[1].modify(RTS, AttrQKey, Attrs{QKey: 1})
	for _, m := range s[:3] {
		for range 2 { // attaching twice counts once
			if err := h.port.Attach(m.qp, group); err != nil {
				t.Fatalf("Attach: %v", err)
			}
		}
	}
	f := built(addrA, group, packet.Header{BTH: packet.BTH{Opcode: packet.UDSendOnly, PKey: 0xffff, DestQP: MulticastQPN}, DETH: packet.DETH{QKey: testQKey, SrcQP: 4}}, []byte("four"))
	touched, d := h.port.Receive(0, f.network, f.datagram, false, nil)
	if len(touched) != 2 || d != Accepted {
		t.Errorf("%v, %v", touched, d)
	}
	s[0].want(rnic.OpRecv, 0, 44)
	s[2].want(rnic.OpRecv, 2, 44)
	s[1].none()
	s[3].none()
	h.port.Detach(s[0].qp, group)
	h.port.Remove(s[2].qp)
	if _, d := h.port.Receive(0, f.network, f.datagram, false, nil); d != DropQKey {
		t.Errorf("Receive: %v, want %v", d, DropQKey)
	}
	h.port.Detach(s[1].qp, group)
	if _, d := h.port.Receive(0, f.network, f.datagram, false, nil); d != DropQPN || len(h.port.groups) != 0 {
		t.Error(d)
	}
	// A QPN of ours at a group's address has no receiver.
	f = built(addrA, group, packet.Header{BTH: packet.BTH{Opcode: packet.UDSendOnly, PKey: 0xffff, DestQP: s[3].qp.num}, DETH: packet.DETH{QKey: testQKey}}, nil)
	if _, d := h.port.Receive(0, f.network, f.datagram, false, nil); d != DropQPN {
		t.Errorf("Receive: %v, want %v", d, DropQPN)
	}
	uc := h.newSide(t, rnic.UC, 8, 64)
	for _, row := range []struct {
		qp *QP
		g  netip.Addr
	}{{uc.qp, group}, {s[0].qp, addrB}, {s[2].qp, group}} {
		if err := h.port.Attach(row.qp, row.g); !errors.Is(err, ErrGroup) {
			t.Errorf("%v to %v: %v", row.qp, row.g, err)
		}
	}
}
