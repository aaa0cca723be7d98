// Outgoing datagrams: building, repeating, and withholding them from unproven addresses.

package cm

import (
	"net/netip"

	"github.com/nfsrdma/nfsrdma/rnic/roce/mad"
)

// maxSends bounds the datagrams waiting for PollSend. If the owner polls after each call, far fewer
// datagrams wait.
const maxSends = 4096

// A message is a datagram's data.
type message interface{ Append(b []byte) []byte }

// datagram encodes a message with its header.
func datagram(b *[mad.Len]byte, a mad.Attribute, tid uint64, m message) {
	h := mad.NewHeader(a, tid)
	m.Append(h.Append(b[:0]))
}

// sendRepeated sends a connection's message, and keeps the message for repetition.
func (c *CM) sendRepeated(k *Conn, a mad.Attribute, tid uint64, m message) {
	datagram(&k.last, a, tid, m)
	c.transmit(k, &k.last)
}

// sendOnce sends a connection's message without repetition.
func (c *CM) sendOnce(k *Conn, a mad.Attribute, tid uint64, m message) {
	var b [mad.Len]byte
	datagram(&b, a, tid, m)
	c.transmit(k, &b)
}

// repeat sends sendRepeated's last message again.
func (c *CM) repeat(k *Conn) {
	if c.transmit(k, &k.last) {
		c.counters.Repeated++
	}
}

// transmit sends a datagram to a connection's peer. A half-open connection with an unproven address
// gets no more datagrams than it has sent: a forged source MUST NOT get more.
func (c *CM) transmit(k *Conn, b *[mad.Len]byte) bool {
	if k.state.halfOpen() && !c.proven(k.peer) {
		if k.credit == 0 {
			c.counters.Withheld++
			return false
		}
		k.credit--
	}
	return c.send(k.peer, b)
}

func (c *CM) send(to netip.Addr, b *[mad.Len]byte) bool {
	if len(c.sends) >= maxSends {
		c.counters.Withheld++
		return false
	}
	c.counters.Sent++
	c.sends = append(c.sends, Datagram{To: to, MAD: *b})
	return true
}

// refuseStateless answers a datagram without a connection.
func (c *CM) refuseStateless(now Instant, to netip.Addr, a mad.Attribute, tid uint64, m message) {
	if !c.refusals.take(now, c.cfg.Refusals) {
		c.counters.Withheld++
		return
	}
	var b [mad.Len]byte
	datagram(&b, a, tid, m)
	if c.send(to, &b) {
		c.counters.Refused++
	}
}

// Messages are pointers to package mad's values, which stay unchanged.
var (
	_ message = (*mad.REQ)(nil)
	_ message = (*mad.REP)(nil)
	_ message = (*mad.SIDRREP)(nil)
)
