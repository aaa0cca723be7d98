// The port: the queue pairs of one address, and the first checks for every datagram.

package core

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"sync"

	"github.com/nfsrdma/nfsrdma/rnic/roce/packet"
)

// Errors returned by Add and Attach.
var (
	ErrQPN   = errors.New("roce: the QPN is taken, or is none of 1 to 0xfffffe")
	ErrGroup = errors.New("roce: no multicast address, or not a UD QP of the port")
)

// A Port has the QPs of one address. All methods are safe for concurrent use, except that only
// one goroutine at a time may call Receive.
type Port struct {
	// set once
	addr    netip.Addr
	general func(Instant, Packet)

	icrc packet.ICRC // used by Receive

	mu     sync.RWMutex
	qps    map[uint32]*QP       // guarded by mu, as are the next two
	groups map[netip.Addr][]*QP // attached to a multicast group
	count  Counters             // packets for no QP, and counts of removed QPs
}

// NewPort returns a port without QPs. addr is the port's address, without a zone because packets
// carry no zone. general receives packets for QPN 1, the general services, and must not retain
// them. If general is nil, a QP can have that number.
func NewPort(addr netip.Addr, general func(Instant, Packet)) *Port {
	return &Port{addr: addr.Unmap().WithZone(""), general: general, qps: make(map[uint32]*QP), groups: make(map[netip.Addr][]*QP)}
}

// Add makes Receive deliver packets for qp's QPN to qp.
func (t *Port) Add(qp *QP) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if qp.num == 0 || qp.num >= MulticastQPN || t.qps[qp.num] != nil {
		return fmt.Errorf("%w: %#x", ErrQPN, qp.num)
	}
	t.qps[qp.num] = qp
	return nil
}

// Remove undoes Add. The port's Counters keep the QP's counts. After Remove returns, Receive
// delivers no later packet to the QP.
func (t *Port) Remove(qp *QP) {
	c := qp.Counters()
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.qps[qp.num] != qp {
		return
	}
	delete(t.qps, qp.num)
	for g := range t.groups {
		t.detach(qp, g)
	}
	t.count.add(&c)
}

// Attach makes Receive also deliver a multicast group's packets to qp. The caller must join the
// group in the network.
func (t *Port) Attach(qp *QP, group netip.Addr) error {
	group = group.Unmap()
	t.mu.Lock()
	defer t.mu.Unlock()
	if !group.IsMulticast() || qp.service != packet.UD || t.qps[qp.num] != qp {
		return ErrGroup
	}
	t.detach(qp, group)
	t.groups[group] = append(t.groups[group], qp)
	return nil
}

// Detach undoes Attach.
func (t *Port) Detach(qp *QP, group netip.Addr) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.detach(qp, group.Unmap())
}

func (t *Port) detach(qp *QP, group netip.Addr) {
	var left []*QP
	for _, other := range t.groups[group] {
		if other != qp {
			left = append(left, other)
		}
	}
	if t.groups[group] = left; len(left) == 0 {
		delete(t.groups, group)
	}
}

// Counters returns the outcome of all packets for the port, its QPs' included.
func (t *Port) Counters() Counters {
	t.mu.RLock()
	defer t.mu.RUnlock()
	c := t.count
	for _, qp := range t.qps {
		of := qp.Counters()
		c.add(&of)
	}
	return c
}

// Receive takes one datagram. network holds its IP and UDP headers as they were on the wire,
// datagram its UDP payload including the ICRC. Receive appends to touched each QP that got the
// packet; such a QP may have completions to report (Notify), and may have ended. Either all of them
// take the packet or none does. network and datagram are the caller's again after the return.
//
// good means that the caller has already verified the ICRC, while reconstructing network.
func (t *Port) Receive(now Instant, network, datagram []byte, good bool, touched []*QP) ([]*QP, Drop) {
	p := Packet{Network: network}
	d := t.parse(&p, datagram, good)
	if d != Accepted || p.Opcode == packet.CNP {
		t.countPacket(d)
		if d == Accepted {
			t.congested(&p)
		}
		return touched, d
	}
	return t.deliver(now, &p, touched)
}

// congested passes a CNP to its QP. A CNP belongs to no message and affects none (IBA 9.6
// [IBU-186]).
func (t *Port) congested(p *Packet) {
	t.mu.RLock()
	qp := t.qps[p.DestQP]
	t.mu.RUnlock()
	if qp != nil && p.Dst == t.addr {
		qp.congested(p)
	}
}

// countPacket counts a packet for no QP.
func (t *Port) countPacket(d Drop) {
	t.mu.Lock()
	t.count.Packets[d]++
	t.mu.Unlock()
}

// deliver looks up the destination, one QP or a group's members, and delivers the packet.
func (t *Port) deliver(now Instant, p *Packet, touched []*QP) ([]*QP, Drop) {
	if p.DestQP == GSI && t.general != nil && p.Dst == t.addr {
		t.countPacket(Accepted)
		t.general(now, *p)
		return touched, Accepted
	}
	t.mu.RLock()
	qp := t.qps[p.DestQP]
	var group []*QP
	if p.DestQP == MulticastQPN {
		group = t.groups[p.Dst] // replaced as a whole on changes, never written to
	}
	t.mu.RUnlock()
	switch {
	case len(group) > 0:
		d := DropQKey
		for _, qp := range group {
			// A packet refused by one member is valid for the others (IBA 9.6 [IBU-183]).
			if d = qp.receive(now, p); d == Accepted {
				touched = append(touched, qp)
			}
		}
		return touched, d
	case qp == nil || p.Dst != t.addr:
		t.countPacket(DropQPN)
		return touched, DropQPN
	}
	return append(touched, qp), qp.receive(now, p)
}

// parse does the QP-independent part of figure 117's first step (IBA 9.6 [IBU-184]).
func (t *Port) parse(p *Packet, datagram []byte, good bool) Drop {
	if !p.addresses(len(datagram)) || p.Dst != t.addr && !p.Dst.IsMulticast() {
		return DropNetwork // IBA 9.6 addresses [IBU-182]
	}
	if len(datagram) < packet.BTHLen+packet.ICRCLen {
		return DropMalformed
	}
	if !good && !t.icrc.Valid(p.Network, datagram) {
		return DropICRC
	}
	var err error
	p.Header, p.Payload, err = packet.Parse(datagram)
	switch err {
	case nil:
		return Accepted
	case packet.ErrOpcode:
		p.Reserved = true
		return Accepted
	case packet.ErrVersion:
		return DropVersion
	}
	return DropMalformed
}

// moreOrOffset masks IPv4's more-fragments bit and fragment offset. Fragments never occur: RoCEv2
// packets have DF (IBA wire RoCEv2 IPv4 [IBU-188]).
const moreOrOffset = 0x3fff

// addresses parses source and destination from the network headers. It reports whether RoCEv2
// allows these headers, and whether their lengths agree with each other and with the datagram's
// (RoCEv2 mapping [IBU-114]).
func (p *Packet) addresses(datagram int) bool {
	b := p.Network
	var ip, after int
	switch {
	case len(b) == packet.IPv4Len+packet.UDPLen && b[0] == 0x45:
		ip, after = packet.IPv4Len, int(binary.BigEndian.Uint16(b[2:]))-packet.IPv4Len
		if b[9] != packet.ProtocolUDP || binary.BigEndian.Uint16(b[6:])&moreOrOffset != 0 {
			return false
		}
		p.Src, p.Dst = netip.AddrFrom4([4]byte(b[12:])), netip.AddrFrom4([4]byte(b[16:]))
	case len(b) == packet.GRHLen+packet.UDPLen && b[0]>>4 == 6:
		ip, after = packet.GRHLen, int(binary.BigEndian.Uint16(b[4:]))
		if b[6] != packet.ProtocolUDP {
			return false
		}
		p.Src, p.Dst = netip.AddrFrom16([16]byte(b[8:])), netip.AddrFrom16([16]byte(b[24:]))
	default:
		return false
	}
	p.SrcPort = binary.BigEndian.Uint16(b[ip:])
	udp := int(binary.BigEndian.Uint16(b[ip+4:]))
	return udp == after && udp == packet.UDPLen+datagram
}
