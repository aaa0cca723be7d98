// What every packet for a QP is checked for before its service looks at it.

package core

import (
	"net/netip"

	"github.com/nfsrdma/nfsrdma/rnic/roce/packet"
)

// A Packet is one that came whole, with its ICRC: it was parsed and aliases the datagram.
type Packet struct {
	packet.Header
	Payload  []byte
	Reserved bool // the opcode is reserved: nothing but the BTH holds

	Src, Dst netip.Addr
	SrcPort  uint16 // of UDP
	Network  []byte // IP and UDP headers
}

// admit is the first step of figure 117 as far as it needs the QP: its state, service, addresses
// and keys (IBA 9.6 [IBU-175 IBU-176 IBU-177 IBU-179 IBU-181]). Reserved bits, FECN, BECN, MigReq
// and AckReq count for nothing (IBA 9.6 [IBU-185]). The caller holds mu.
func (qp *QP) admit(p *Packet) Drop {
	switch {
	case !qp.state.receives():
		return DropState
	case p.Opcode.Service() != qp.service:
		return DropService
	case qp.service != packet.UD && !qp.fromPeer(p):
		return DropAddress
	case !pkeyMatch(p.PKey, qp.attrs.PKey):
		return DropPKey
	case qp.service == packet.UD && !p.Reserved && p.DETH.QKey != qp.attrs.QKey:
		return DropQKey
	}
	return Accepted
}

// fromPeer reports whether a packet comes from the socket that the QP is connected with, as far as
// its headers say so.
func (qp *QP) fromPeer(p *Packet) bool {
	return p.Src == qp.attrs.Peer && (qp.attrs.PeerPort == 0 || p.SrcPort == qp.attrs.PeerPort)
}

// A P_Key is 15 bits of partition, never zero, and one of membership.
const (
	fullMember = 0x8000
	partition  = fullMember - 1
)

// pkeyMatch reports whether two P_Keys are of one partition, and one of them of a full member: two
// limited members do not talk to each other (IBA 9.6 [IBU-177]).
func pkeyMatch(a, b uint16) bool {
	return a&partition == b&partition && a&partition != 0 && (a|b)&fullMember != 0
}

// receive does with a packet what the QP's service asks for, and counts it.
func (qp *QP) receive(now Instant, p *Packet) Drop {
	qp.mu.Lock()
	defer qp.mu.Unlock()
	d := qp.admit(p)
	if d == Accepted {
		switch qp.service {
		case packet.UD:
			d = qp.receiveUD(p)
		case packet.UC:
			d = qp.receiveUC(p)
		default:
			if p.marked() {
				qp.res.cnp.marked(now)
			}
			d = qp.receiveRC(now, p)
		}
	}
	qp.count.Packets[d]++
	return d
}
