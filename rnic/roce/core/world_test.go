// The core without a network: packets are built and delivered by hand, in one goroutine and
// without time.

package core

import (
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"net"
	"net/netip"
	"testing"

	"github.com/nfsrdma/nfsrdma/rnic"
	"github.com/nfsrdma/nfsrdma/rnic/roce/packet"
)

var (
	addrA = netip.MustParseAddr("192.0.2.1")
	addrB = netip.MustParseAddr("192.0.2.2")
	addrC = netip.MustParseAddr("2001:db8::3")
	addrD = netip.MustParseAddr("2001:db8::4")
)

const testQKey = 0x11111111

// A stubProvider is a provider without a network: its endpoints are cores.
type stubProvider struct {
	port    *Port
	num     uint32 // the last QP's QPN
	portMTU int
}

func (*stubProvider) Caps() rnic.Caps {
	return rnic.Caps{Provider: "slate", Services: 1<<rnic.RC | 1<<rnic.UC | 1<<rnic.UD, ImmediateData: true,
		Reliable: true, RDMARead: true, RemoteInval: true, Atomics: true}
}

func (s *stubProvider) NewEndpoint(q *rnic.ProviderQP, cfg rnic.QPConfig) (rnic.Endpoint, error) {
	s.num++
	service := map[rnic.Service]packet.Service{rnic.RC: packet.RC, rnic.UC: packet.UC, rnic.UD: packet.UD}[cfg.Service]
	qp, err := New(q, Config{Service: service, Num: s.num, Depth: cfg.SQDepth, PortMTU: s.portMTU})
	if err != nil {
		return nil, err
	}
	return &stubEndpoint{qp: qp, q: q}, s.port.Add(qp)
}

func (*stubProvider) Connect(context.Context, rnic.Endpoint, string, rnic.ConnParams) error {
	return errors.ErrUnsupported
}
func (*stubProvider) Listen(rnic.Service, string, string) (rnic.Listener, error) {
	return nil, errors.ErrUnsupported
}

// A stubEndpoint is a stubProvider's endpoint.
type stubEndpoint struct {
	qp    *QP
	q     *rnic.ProviderQP
	ended bool
}

func (e *stubEndpoint) PostSend(wrs []rnic.Posted) error { return e.qp.Post(wrs) }
func (e *stubEndpoint) ReceivesPosted()                  { e.qp.ReceivesPosted() }
func (e *stubEndpoint) Release(*rnic.MR)                 {}
func (e *stubEndpoint) Abort(error)                      { _ = e.qp.Modify(ERR, 0, Attrs{}); e.end() }
func (e *stubEndpoint) Disconnect(context.Context) error { return errors.ErrUnsupported }
func (e *stubEndpoint) Leave(netip.Addr)                 {}
func (e *stubEndpoint) Join(netip.Addr) (rnic.AddressHandle, error) {
	return rnic.AddressHandle{}, errors.ErrUnsupported
}
func (e *stubEndpoint) Wait()                {}
func (e *stubEndpoint) Moved() uint64        { return 0 }
func (e *stubEndpoint) LocalAddr() net.Addr  { return nil }
func (e *stubEndpoint) RemoteAddr() net.Addr { return nil }

// end does a provider's work for a QP in ERR.
func (e *stubEndpoint) end() {
	if err := e.qp.Ended(); err != nil && !e.ended {
		e.ended = true
		e.q.Fail(err, false)
		e.q.Flushed()
		e.q.Ended()
	}
}

// A host is a device with an address.
type host struct {
	addr  netip.Addr
	slate *stubProvider
	dev   *rnic.Device
	pd    *rnic.PD
	port  *Port
}

func newHost(addr netip.Addr) *host {
	h := &host{addr: addr, port: NewPort(addr, nil)}
	h.slate = &stubProvider{port: h.port, num: 0x10}
	h.dev = rnic.NewDevice(h.slate)
	h.pd = h.dev.AllocPD()
	return h
}

// A side is a host's QP under test.
type side struct {
	t    testing.TB
	host *host
	cq   *rnic.CQ
	vqp  *rnic.QP
	end  *stubEndpoint
	qp   *QP

	tails int // longest known CRC range in a sent packet, in bytes
}

func (h *host) newSide(t testing.TB, service rnic.Service, depth, completions int) *side {
	t.Helper()
	s := &side{t: t, host: h, cq: h.dev.NewCQ(completions)}
	var err error
	s.vqp, err = h.pd.CreateQP(rnic.QPConfig{Service: service, SendCQ: s.cq, RecvCQ: s.cq, SQDepth: depth, RQDepth: depth})
	if err != nil {
		t.Fatalf("CreateQP: %v", err)
	}
	s.end = rnic.EndpointOf(s.vqp).(*stubEndpoint)
	s.qp = s.end.qp
	return s
}

// modify changes the state; it must succeed.
func (s *side) modify(to State, set Attr, a Attrs) {
	s.t.Helper()
	if err := s.qp.Modify(to, set, a); err != nil {
		s.t.Fatalf("Modify: %v", err)
	}
}

// Attributes for each step to RTS.
const (
	initUC = AttrPKey | AttrAccess
	rtrUC  = AttrPeer | AttrPathMTU | AttrDestQPN | AttrRQPSN
	initUD = AttrPKey | AttrQKey
)

// connect brings a UC QP to RTS.
func (s *side) connect(a Attrs) *side {
	s.t.Helper()
	if a.PKey == 0 {
		a.PKey = 0xffff
	}
	s.modify(INIT, initUC, a)
	s.modify(RTR, rtrUC, a)
	s.modify(RTS, AttrSQPSN, a)
	s.establish()
	return s
}

// datagrams brings a UD QP to RTS.
func (s *side) datagrams(psn uint32) *side {
	s.t.Helper()
	s.modify(INIT, initUD, Attrs{PKey: 0xffff, QKey: testQKey})
	s.modify(RTR, 0, Attrs{})
	s.modify(RTS, AttrSQPSN, Attrs{SQPSN: psn})
	s.establish()
	return s
}

// RC attributes.
const (
	rtrRC = rtrUC | AttrMaxDestReads | AttrRNRTimer | AttrFlowControl
	rtsRC = AttrSQPSN | AttrTimeout | AttrMaxReads
)

// reliable brings an RC QP to RTS.
func (s *side) reliable(a Attrs) *side {
	s.t.Helper()
	a.PKey = 0xffff
	s.modify(INIT, initUC, a)
	s.modify(RTR, rtrRC, a)
	s.modify(RTS, rtsRC, a)
	s.establish()
	return s
}

// reliables returns two connected RC QPs; change may modify both's attributes.
func reliables(t testing.TB, mtu int, psn uint32, change func(*Attrs)) (a, b *side) {
	t.Helper()
	a, b = newHost(addrA).newSide(t, rnic.RC, 256, 2048), newHost(addrB).newSide(t, rnic.RC, 256, 2048)
	for _, s := range [][2]*side{{a, b}, {b, a}} {
		at := Attrs{Access: rnic.RemoteWrite | rnic.RemoteRead | rnic.RemoteAtomic, Peer: s[1].host.addr, PathMTU: mtu, DestQPN: s[1].qp.num, RQPSN: psn, SQPSN: psn,
			Timeout: 14, RetryCount: 7, RNRRetry: 7, RNRTimer: 12, MaxReads: 4, MaxDestReads: 4}
		if change != nil {
			change(&at)
		}
		s[0].reliable(at)
	}
	return a, b
}

func (s *side) establish() {
	s.t.Helper()
	if !s.end.q.Established(rnic.Connected{}) {
		s.t.Fatal("the QP is not idle")
	}
}

// pair returns two connected UC QPs.
func pair(t testing.TB, mtu int, psn uint32) (a, b *side) {
	t.Helper()
	a, b = newHost(addrA).newSide(t, rnic.UC, 64, 256), newHost(addrB).newSide(t, rnic.UC, 64, 256)
	for _, s := range [][2]*side{{a, b}, {b, a}} {
		s[0].connect(Attrs{Access: rnic.RemoteWrite, Peer: s[1].host.addr, PathMTU: mtu, DestQPN: s[1].qp.num, RQPSN: psn, SQPSN: psn})
	}
	return a, b
}

// A frame is a datagram on the wire.
type frame struct{ network, datagram []byte }

// header parses the transport headers.
func (f frame) header(t testing.TB) (packet.Header, []byte) {
	t.Helper()
	h, payload, err := packet.Parse(f.datagram)
	if err != nil {
		t.Fatalf("%x: %v", f.datagram, err)
	}
	return h, payload
}

// put returns the frame for a packet, with IP and UDP headers and the ICRC. transport is the packet
// from its BTH on, without ICRC.
func put(src, dst netip.Addr, port uint16, transport []byte) frame {
	length := packet.UDPLen + len(transport) + packet.ICRCLen
	network := make([]byte, packet.GRHLen+packet.UDPLen)
	var n int
	if dst.Is4() {
		n = (&packet.IPv4{Length: uint16(packet.IPv4Len + length), Fragment: packet.DontFragment, TTL: 64, Src: src, Dst: dst}).Put(network)
	} else {
		n = (&packet.GRH{PayLen: uint16(length), NxtHdr: packet.ProtocolUDP, HopLmt: 64, SGID: src, DGID: dst}).Put(network)
	}
	n += (&packet.UDP{Src: port, Dst: packet.Port, Length: uint16(length)}).Put(network[n:])
	f := frame{network[:n], append([]byte(nil), transport...)}
	f.seal()
	return f
}

// seal recomputes the frame's ICRC.
func (f *frame) seal() {
	var c packet.ICRC
	n := len(f.datagram)
	if len(f.datagram) >= packet.BTHLen {
		if err := c.Start(f.network, f.datagram); err != nil {
			panic(err)
		}
	}
	f.datagram = append(f.datagram, 0, 0, 0, 0)
	packet.PutICRC(f.datagram[n:], c.Sum())
}

// built returns a hand-made frame.
func built(src, dst netip.Addr, h packet.Header, payload []byte) frame {
	b := h.Append(nil)
	b = append(b, payload...)
	return put(src, dst, 0xc001, append(b, make([]byte, h.Pad)...))
}

// post posts one work request.
func (s *side) post(wr rnic.SendWR) {
	s.t.Helper()
	if err := s.vqp.PostSend(wr); err != nil {
		s.t.Fatalf("PostSend: %v", err)
	}
}

// recv posts receives of the given sizes, with IDs from first, and returns the buffers.
func (s *side) recv(first uint64, sizes ...int) (bufs [][]byte) {
	s.t.Helper()
	for i, n := range sizes {
		b := make([]byte, n)
		bufs = append(bufs, b)
		if err := s.vqp.PostRecv(rnic.RecvWR{ID: first + uint64(i), Buf: b}); err != nil {
			s.t.Fatalf("PostRecv: %v", err)
		}
	}
	return bufs
}

// send builds all waiting packets, and the network takes each.
func (s *side) send() (fs []frame) {
	b := make([]byte, MaxPacket)
	for {
		n, r, ok := s.qp.Next(0, b)
		if !ok {
			s.end.end()
			return fs
		}
		if t := r.Tail; t.N > 0 && crc32.ChecksumIEEE(b[n-t.N:n]) != t.CRC {
			s.t.Errorf("the last %d of %d bytes have another CRC", t.N, n)
		}
		s.tails = max(s.tails, r.Tail.N)
		fs = append(fs, put(s.host.addr, r.Peer, r.SrcPort, b[:n]))
		s.qp.Sent(1)
	}
}

// take delivers frames and returns the last one's outcome.
func (s *side) take(fs ...frame) (d Drop) {
	s.t.Helper()
	for _, f := range fs {
		var touched []*QP
		touched, d = s.host.port.Receive(0, f.network, f.datagram, false, nil)
		for _, qp := range touched {
			if qp == s.qp {
				s.end.end()
			}
		}
	}
	return d
}

// completions empties the CQ.
func (s *side) completions() (wcs []rnic.WC) {
	var room [300]rnic.WC
	return append(wcs, room[:s.cq.Poll(room[:])]...)
}

// want polls exactly one successful completion.
func (s *side) want(op rnic.Opcode, id uint64, n int) rnic.WC {
	s.t.Helper()
	wcs := s.completions()
	if len(wcs) != 1 || wcs[0].Op != op || wcs[0].ID != id || wcs[0].Status != rnic.WCSuccess || int(wcs[0].Len) != n {
		s.t.Fatalf("%v, want %v %d of %d bytes", wcs, op, id, n)
	}
	return wcs[0]
}

// none expects no completion.
func (s *side) none() {
	s.t.Helper()
	if wcs := s.completions(); len(wcs) != 0 {
		s.t.Fatalf("%v, want none", wcs)
	}
}

// dropped expects a packet to be dropped without any trace but the counter: no answer, no
// completion, the same receives and state.
func (s *side) dropped(f frame, want Drop) {
	s.t.Helper()
	before, state := s.host.port.Counters(), s.state()
	next, has := s.end.q.NextRecv()
	if d := s.take(f); d != want {
		s.t.Fatalf("dropped for %v, want %v", d, want)
	}
	after := s.host.port.Counters()
	if before.Packets[want]++; before.Packets != after.Packets {
		s.t.Fatalf("counters %v, want %v", after.Packets, before.Packets)
	}
	again, still := s.end.q.NextRecv()
	if s.state() != state || has != still || next.ID != again.ID {
		s.t.Fatalf("%v: now in %v, receive %d %v", want, s.state(), again.ID, still)
	}
	s.none()
	if fs := s.send(); len(fs) != 0 {
		s.t.Fatalf("%v was answered: %x", want, fs)
	}
}

func (s *side) state() State {
	state, _ := s.qp.Query()
	return state
}

// pattern returns n varying bytes.
func pattern(n, seed int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(i*7 + i>>8*13 + seed)
	}
	return b
}

// say returns a hand-made packet from the QP's peer, padded as its payload requires. change can
// adjust its headers.
func (s *side) say(op packet.Opcode, psn uint32, payload []byte, change ...func(*packet.Header)) frame {
	_, a := s.qp.Query()
	h := packet.Header{BTH: packet.BTH{Opcode: op, PKey: 0xffff, DestQP: s.qp.num, PSN: psn & maxPSN, Pad: packet.PadFor(len(payload))}}
	h.DETH = packet.DETH{QKey: testQKey, SrcQP: 0x77}
	for _, f := range change {
		f(&h)
	}
	from := a.Peer
	if !from.IsValid() {
		from = addrA
	}
	return built(from, s.host.addr, h, payload)
}

// to sets a Write's RETH.
func to(mr *rnic.MR, offset, n int) func(*packet.Header) {
	return func(h *packet.Header) {
		h.RETH = packet.RETH{VA: mr.Base() + uint64(offset), RKey: uint32(mr.STag()), Length: uint32(n)}
	}
}

func (h *host) region(t testing.TB, n int, access rnic.Access) (*rnic.MR, []byte) {
	t.Helper()
	b := make([]byte, n)
	mr, err := h.pd.RegMR(b, access)
	if err != nil {
		t.Fatalf("RegMR: %v", err)
	}
	return mr, b
}

// opcodes formats frames as text.
func opcodes(t testing.TB, fs []frame) (s string) {
	for _, f := range fs {
		h, payload := f.header(t)
		s += fmt.Sprintf("%v %d; ", h.Opcode, len(payload))
	}
	return s
}
