// What is sent: messages become datagrams, are repeated, and are withheld from addresses that prove
// nothing.

package cm

import (
	"net/netip"

	"github.com/nfsrdma/nfsrdma/rnic/roce/mad"
)

// maxSends bounds the datagrams that wait for PollSend. An owner that polls after each call never
// comes near it.
const maxSends = 4096

// A message is the data of a datagram.
type message interface{ Append(b []byte) []byte }

// datagram writes a message with its header.
func datagram(b *[mad.Len]byte, a mad.Attribute, tid uint64, m message) {
	h := mad.NewHeader(a, tid)
	m.Append(h.Append(b[:0]))
}

// say sends a message of a connection, which is the one that is repeated from then on.
func (c *CM) say(k *Conn, a mad.Attribute, tid uint64, m message) {
	datagram(&k.last, a, tid, m)
	c.transmit(k, &k.last)
}

// sayOnce sends a message of a connection that is not repeated.
func (c *CM) sayOnce(k *Conn, a mad.Attribute, tid uint64, m message) {
	var b [mad.Len]byte
	datagram(&b, a, tid, m)
	c.transmit(k, &b)
}

// repeat sends the last message again.
func (c *CM) repeat(k *Conn) {
	if c.transmit(k, &k.last) {
		c.counters.Repeated++
	}
}

// transmit sends a datagram to a connection's peer, unless it is half-open, the address is not
// proven, and all that came from it has been answered already: a forged source MUST NOT be sent
// more than its forger has sent.
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

// refuseStateless answers a datagram that belongs to no connection.
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

// The messages of this package: pointers of mad, whose values stay as they are.
var (
	_ message = (*mad.REQ)(nil)
	_ message = (*mad.REP)(nil)
	_ message = (*mad.SIDRREP)(nil)
)
