// The checks that every packet for a QP passes before its service handles it.

package core

import (
	"net/netip"

	"github.com/nfsrdma/nfsrdma/rnic/roce/packet"
)

// A Packet is a complete, parsed packet with a valid ICRC. It aliases the datagram.
type Packet struct {
	packet.Header
	Payload  []byte
	Reserved bool // the opcode is reserved: only the BTH is valid

	Src, Dst netip.Addr
	SrcPort  uint16 // UDP source port
	Network  []byte // IP and UDP headers
}

// admit does the QP's share of the first step in figure 117: it checks the QP's state, service,
// addresses and keys (IBA 9.6 [IBU-175 IBU-176 IBU-177 IBU-179 IBU-181]). admit ignores reserved
// bits, FECN, BECN, MigReq and AckReq (IBA 9.6 [IBU-185]). The caller holds mu.
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

// fromPeer reports whether a packet's headers name the connected peer's socket as source.
func (qp *QP) fromPeer(p *Packet) bool {
	return p.Src == qp.attrs.Peer && (qp.attrs.PeerPort == 0 || p.SrcPort == qp.attrs.PeerPort)
}

// A P_Key has 15 bits for the partition, never zero, and one for the membership.
const (
	fullMember = 0x8000
	partition  = fullMember - 1
)

// pkeyMatch reports whether two P_Keys share a partition and at least one is a full member's: two
// limited members cannot communicate (IBA 9.6 [IBU-177]).
func pkeyMatch(a, b uint16) bool {
	return a&partition == b&partition && a&partition != 0 && (a|b)&fullMember != 0
}

// receive hands an admitted packet to the QP's service, and counts the packet.
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
