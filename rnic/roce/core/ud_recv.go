// The UD responder: each packet is a message, from any sender that knows the Q_Key.

package core

import (
	"github.com/nfsrdma/nfsrdma/rnic"
	"github.com/nfsrdma/nfsrdma/rnic/roce/packet"
)

// receiveUD takes an admitted packet. receiveUD ignores the PSN (o9-144 [IBU-138]). The caller
// holds mu.
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

// checkUD checks the opcode, and the receive's room for GRH and payload (C9-205, C9-206, C9-207).
func (qp *QP) checkUD(p *Packet) Drop {
	switch {
	case p.Reserved:
		return DropReserved
	case !qp.in.holdReceive(qp.q):
		return DropNoReceive
	case len(p.Payload) > qp.portMTU, len(qp.in.wr.Buf) < packet.GRHLen+len(p.Payload):
		return DropLength
	}
	return Accepted
}

// putGRH writes the network header before the payload: IPv6 unchanged, IPv4 in the GRH's second
// half after zeros (A17.4.5.2 IPv4 [IBU-236], A17.4.5.2 IPv6 [IBU-237]). network includes the UDP
// header.
func putGRH(b, network []byte) {
	if len(network) >= packet.GRHLen {
		copy(b[:packet.GRHLen], network)
		return
	}
	clear(b[:packet.GRHLen-packet.IPv4Len])
	copy(b[packet.GRHLen-packet.IPv4Len:packet.GRHLen], network)
}
