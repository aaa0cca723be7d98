// What the network says of requests of RC: that nobody has the port that they were for.

package core

import (
	"net/netip"

	"github.com/nfsrdma/nfsrdma/rnic/roce/packet"
)

// refusedFor is how long the network refuses a peer's packets before it is given up: a firewall
// that is being set up refuses them for a moment.
const refusedFor Instant = 1e9

// Refused takes the word of the network that nobody has the port that a packet was for; datagram is
// what it quotes of that. It returns the QP that the packet was of, nil if it was of none, which
// may have ended. Anybody can send such a message: only who sees our packets knows a request of
// ours that waits for its answer by QPN and PSN, and could as well forge a NAK. And it takes more
// than one: what is not answered is sent again, and if that is refused too, after refusedFor with
// nothing from the peer, the QP ends.
func (t *Port) Refused(now Instant, to netip.Addr, datagram []byte) *QP {
	bth, ok := packet.ParseBTH(datagram)
	if !ok || bth.Opcode.Service() != packet.RC {
		return nil
	}
	t.mu.RLock()
	defer t.mu.RUnlock()
	for _, qp := range t.qps {
		if qp.unheard(now, to, &bth) {
			return qp
		}
	}
	return nil
}

// unheard reports whether a packet that was refused is one of ours that waits for its answer.
func (qp *QP) unheard(now Instant, to netip.Addr, bth *packet.BTH) bool {
	qp.mu.Lock()
	defer qp.mu.Unlock()
	r := &qp.req
	if qp.service != packet.RC || !qp.state.receives() || qp.attrs.Peer != to || qp.attrs.DestQPN != bth.DestQP ||
		bth.Opcode.Operation().Response() || distance(bth.PSN, r.una) >= distance(r.high, r.una) {
		return false
	}
	switch {
	case r.refused == 0:
		r.refused = now
	case now-r.refused >= refusedFor:
		qp.becomeERR(ErrRefused)
	}
	return true
}
