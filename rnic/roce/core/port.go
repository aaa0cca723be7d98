// The port: the queue pairs of one address, and the first steps of every datagram.

package core

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"sync"

	"github.com/nfsrdma/nfsrdma/rnic/roce/packet"
)

// Errors of Add and Attach.
var (
	ErrQPN   = errors.New("roce: the QPN is taken, or is none of 1 to 0xfffffe")
	ErrGroup = errors.New("roce: no multicast address, or not a UD QP of the port")
)

// A Port has the QPs of one address. Its methods may be called from any goroutine, but Receive from
// one at a time.
type Port struct {
	// set once
	addr    netip.Addr
	general func(Instant, Packet)

	icrc packet.ICRC // of Receive

	mu     sync.RWMutex
	qps    map[uint32]*QP       // guarded by mu, as is what follows
	groups map[netip.Addr][]*QP // attached to a multicast group
	count  Counters             // of packets that came to no QP, and of QPs that are gone
}

// NewPort returns a port without QPs. addr is the address that its packets come to, without a zone
// because packets name none. Packets for QPN 1, the general services, are given to general, which
// keeps no reference to them. If general is nil, a QP can have that number.
func NewPort(addr netip.Addr, general func(Instant, Packet)) *Port {
	return &Port{addr: addr.Unmap().WithZone(""), general: general, qps: make(map[uint32]*QP), groups: make(map[netip.Addr][]*QP)}
}

// Add has packets for qp's QPN go to it.
func (t *Port) Add(qp *QP) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if qp.num == 0 || qp.num >= MulticastQPN || t.qps[qp.num] != nil {
		return fmt.Errorf("%w: %#x", ErrQPN, qp.num)
	}
	t.qps[qp.num] = qp
	return nil
}

// Remove ends what Add began; what the QP counted stays in the port's Counters. When it returns
// Receive gives the QP no packet that comes later.
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

// Attach has what is sent to a multicast group come to qp, too. The network has to be asked for it
// by the caller.
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

// Detach ends what Attach began.
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

// Counters is what became of all packets that came to the port, those of its QPs included.
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

// Receive takes one datagram: network is its IP and UDP headers as they were on the wire, datagram
// its payload with the ICRC. It appends to touched the QPs that it gave the packet to; they may
// have completions to be told of (Notify), and may have ended. All of them take it, or none does.
// Both slices are the caller's again when it returns.
//
// good says that the ICRC has been found right already, by who had to compute it to know what
// network was.
func (t *Port) Receive(now Instant, network, datagram []byte, good bool, touched []*QP) ([]*QP, Drop) {
	p := Packet{Network: network}
	d := t.parse(&p, datagram, good)
	if d != Accepted || p.Opcode == packet.CNP {
		t.counted(d)
		if d == Accepted {
			t.congested(&p)
		}
		return touched, d
	}
	return t.give(now, &p, touched)
}

// congested gives a CNP to the QP that it is for. It takes no part in any message, and disturbs
// none (IBA 9.6 [IBU-186]).
func (t *Port) congested(p *Packet) {
	t.mu.RLock()
	qp := t.qps[p.DestQP]
	t.mu.RUnlock()
	if qp != nil && p.Dst == t.addr {
		qp.congested(p)
	}
}

// counted counts a packet that came to no QP.
func (t *Port) counted(d Drop) {
	t.mu.Lock()
	t.count.Packets[d]++
	t.mu.Unlock()
}

// give is the search for the destination QP, one or the members of a group.
func (t *Port) give(now Instant, p *Packet, touched []*QP) ([]*QP, Drop) {
	if p.DestQP == GSI && t.general != nil && p.Dst == t.addr {
		t.counted(Accepted)
		t.general(now, *p)
		return touched, Accepted
	}
	t.mu.RLock()
	qp := t.qps[p.DestQP]
	var group []*QP
	if p.DestQP == MulticastQPN {
		group = t.groups[p.Dst] // replaced as a whole when it changes, never written to
	}
	t.mu.RUnlock()
	switch {
	case len(group) > 0:
		d := DropQKey
		for _, qp := range group {
			// A packet that one member refuses is good for the others (IBA 9.6 [IBU-183]).
			if d = qp.receive(now, p); d == Accepted {
				touched = append(touched, qp)
			}
		}
		return touched, d
	case qp == nil || p.Dst != t.addr:
		t.counted(DropQPN)
		return touched, DropQPN
	}
	return append(touched, qp), qp.receive(now, p)
}

// parse is the first step of figure 117 as far as it needs no QP (IBA 9.6 [IBU-184]).
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

// Fragments never occur: RoCEv2 packets have DF (IBA wire RoCEv2 IPv4 [IBU-188]).
const moreOrOffset = 0x3fff

// addresses reads source and destination out of the network headers, and reports whether the
// headers are ones that RoCEv2 has and their lengths agree with each other and with the datagram's
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
