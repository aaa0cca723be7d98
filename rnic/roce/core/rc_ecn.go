// Congestion that switches tell of by marking packets: the peer is told by a CNP, and a CNP of the
// peer's makes the window smaller.

package core

import "github.com/nfsrdma/nfsrdma/rnic/roce/packet"

// notifying is what the receiver of marked packets does (RoCEv2, annex A17.9.3).
type notifying struct {
	owed bool    // a CNP is to be sent
	last Instant // when the last one was; 0: never
}

// cnpInterval is the least time between two CNPs of a QP: marks that come closer tell of the same
// congestion.
const cnpInterval Instant = 50e3

// cnpReserved is what follows the BTH of a CNP.
const cnpReserved = 16

// marked notes that a packet of the peer's was marked.
func (c *notifying) marked(now Instant) {
	if c.last == 0 || now-c.last >= cnpInterval {
		c.owed, c.last = true, now
	}
}

// marked reports whether a switch on the way has marked the packet, for want of room (RFC 3168
// section 5).
func (p *Packet) marked() bool {
	const ce = 3
	if len(p.Network) == packet.IPv4Len+packet.UDPLen {
		return p.Network[1]&ce == ce
	}
	return p.Network[1]>>4&ce == ce
}

// nextCNP builds the CNP that is owed, and returns its length; 0: there is none.
func (qp *QP) nextCNP(b []byte) (n int) {
	if !qp.res.cnp.owed || !qp.state.receives() {
		return 0
	}
	qp.res.cnp.owed = false
	h := packet.Header{BTH: qp.bth(packet.CNP, 0)}
	h.BECN = true
	n = h.Put(b)
	clear(b[n : n+cnpReserved])
	return n + cnpReserved
}

// congested takes a CNP: a switch on the way has marked packets of ours. The window shrinks as
// after a loss, at most once for what is on the wire, since all of that may be marked. UC and UD
// have no window.
func (qp *QP) congested(p *Packet) {
	qp.mu.Lock()
	defer qp.mu.Unlock()
	r := &qp.req
	if qp.service != packet.RC || !qp.state.receives() || !qp.fromPeer(p) || r.slowed {
		return
	}
	r.shrink()
	r.slowed, r.slowedAt = r.high != r.una, r.high
}
