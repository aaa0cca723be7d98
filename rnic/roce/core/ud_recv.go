// The responder of UD: each packet is a message, from anybody who knows the Q_Key.

package core

import (
	"github.com/nfsrdma/nfsrdma/rnic"
	"github.com/nfsrdma/nfsrdma/rnic/roce/packet"
)

// receiveUD takes a packet that was admitted. PSNs are not looked at (o9-144 [IBU-138]). The
// caller holds mu.
func (qp *QP) receiveUD(p *Packet) Drop {
	if d := qp.checkUD(p); d != Accepted {
		return d
	}
	b := qp.in.wr.Buf
	putGRH(b, p.Network)
	n := copy(b[packet.GRHLen:], p.Payload)
	qp.completeRecv(p, rnic.OpRecv, uint32(packet.GRHLen+n), p.DETH.SrcQP)
	return Accepted
}

// checkUD: a served opcode, a receive, and room in it for the GRH and the payload (C9-205, C9-206,
// C9-207).
func (qp *QP) checkUD(p *Packet) Drop {
	switch {
	case p.Reserved:
		return DropReserved
	case !qp.in.hold(qp.q):
		return DropNoReceive
	case len(p.Payload) > qp.portMTU, len(qp.in.wr.Buf) < packet.GRHLen+len(p.Payload):
		return DropLength
	}
	return Accepted
}

// putGRH writes the network header in front of the payload: IPv6 as it is, IPv4 in the second half
// of the room after zeros (A17.4.5.2 IPv4 [IBU-236], A17.4.5.2 IPv6 [IBU-237]). network has the UDP
// header too.
func putGRH(b, network []byte) {
	if len(network) >= packet.GRHLen {
		copy(b[:packet.GRHLen], network)
		return
	}
	clear(b[:packet.GRHLen-packet.IPv4Len])
	copy(b[packet.GRHLen-packet.IPv4Len:packet.GRHLen], network)
}
