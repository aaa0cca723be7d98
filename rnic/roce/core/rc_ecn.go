// Explicit congestion notification: a marked packet makes the QP send the peer a CNP, and the
// peer's CNP shrinks the window.

package core

import "github.com/nfsrdma/nfsrdma/rnic/roce/packet"

// notifying is the notification-point state (RoCEv2, annex A17.9.3).
type notifying struct {
	owed bool    // a CNP is due
	last Instant // when the latest CNP became due; 0: never
}

// cnpReserved is the number of reserved bytes after a CNP's BTH.
const cnpReserved = 16

// marked makes a CNP due for a marked packet, unless a CNP was due within cnpInterval.
func (c *notifying) marked(now Instant) {
	if c.last == 0 || now-c.last >= cnpInterval {
		c.owed, c.last = true, now
	}
}

// marked reports whether a switch has set the packet's congestion mark (RFC 3168 section 5).
func (p *Packet) marked() bool {
	const ce = 3
	if len(p.Network) == packet.IPv4Len+packet.UDPLen {
		return p.Network[1]&ce == ce
	}
	return p.Network[1]>>4&ce == ce
}

// nextCNP builds a due CNP, and returns its length; 0: no CNP is due.
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

// congested takes the peer's CNP: a switch has marked our packets. The window shrinks as after a
// loss, at most once for the packets in flight, since all these packets may be marked. UC and UD
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
