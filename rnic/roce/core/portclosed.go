// ICMP reports that the peer's RoCE port is closed.

package core

import (
	"net/netip"

	"github.com/nfsrdma/nfsrdma/rnic/roce/packet"
)

// PortClosed handles an ICMP report that a packet's port is closed; datagram is the quoted part of
// that packet. It returns the packet's QP, which may have ended, or nil. An ICMP report is easily
// forged, but must match the QPN and PSN of an unanswered request, and an attacker who sees these
// could as well forge a NAK. One report is not enough. The QP retransmits unanswered requests, and
// ends only if a request is refused after portClosedLimit without any packet from the peer.
func (t *Port) PortClosed(now Instant, to netip.Addr, datagram []byte) *QP {
	bth, ok := packet.ParseBTH(datagram)
	if !ok || bth.Opcode.Service() != packet.RC {
		return nil
	}
	t.mu.RLock()
	defer t.mu.RUnlock()
	for _, qp := range t.qps {
		if qp.matchesUnanswered(now, to, &bth) {
			return qp
		}
	}
	return nil
}

// matchesUnanswered reports whether a refused packet is an unanswered request of this QP.
func (qp *QP) matchesUnanswered(now Instant, to netip.Addr, bth *packet.BTH) bool {
	qp.mu.Lock()
	defer qp.mu.Unlock()
	r := &qp.req
	if qp.service != packet.RC || !qp.state.receives() || qp.attrs.Peer != to || qp.attrs.DestQPN != bth.DestQP ||
		bth.Opcode.Operation().Response() || distance(bth.PSN, r.una) >= distance(r.high, r.una) {
		return false
	}
	switch {
	case r.portClosedSince == 0:
		r.portClosedSince = now
	case now-r.portClosedSince >= portClosedLimit:
		qp.becomeERR(ErrRefused)
	}
	return true
}
