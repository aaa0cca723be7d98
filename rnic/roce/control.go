// Connection management of a port: its CM under a lock, driven by packets, the time, and calls.

package roce

import (
	"crypto/rand"
	"encoding/binary"
	"sync"

	"github.com/nfsrdma/nfsrdma/rnic"
	"github.com/nfsrdma/nfsrdma/rnic/roce/cm"
	"github.com/nfsrdma/nfsrdma/rnic/roce/core"
	"github.com/nfsrdma/nfsrdma/rnic/roce/mad"
	"github.com/nfsrdma/nfsrdma/rnic/roce/packet"
)

// A control has the CM of a port. Events are handled under its lock, by whoever has called the CM;
// it comes before the locks of endpoints, and after none of them.
type control struct {
	t *port // set once

	mu       sync.Mutex
	cm       *cm.CM                      // guarded by mu, as is what follows
	services map[mad.ServiceID]*listener // who listens here
	out      []cm.Datagram
	from     uint16 // UDP port that the datagram in hand came from
	kept     *kept  // nil: connections are not kept
}

// maxOut bounds the datagrams that wait while the socket takes none: peers can have us make as many
// as they send.
const maxOut = 1024

// guid tells this process from others, and from itself before it was restarted: peers let
// connections of one that is no more go.
var guid = random64()

func random64() uint64 {
	var b [8]byte
	rand.Read(b[:])
	return binary.BigEndian.Uint64(b[:])
}

func (c *control) init(t *port) {
	c.t = t
	c.services = make(map[mad.ServiceID]*listener)
	c.cm = cm.New(cm.Config{Addr: t.key.Addr(), GUID: guid, MTU: mtuCode(core.MaxMTU), Rand: random64})
}

// bound has as many connections be half-open as the listener allows that allows most. It is called
// when there is one more, or one less. The caller holds mu.
func (c *control) bound() {
	most := 0
	for _, l := range c.services {
		most = max(most, l.p.cfg.MaxHandshakes)
	}
	c.cm.Bound(most)
}

// onePort is the UDP port that all packets of a peer come from whose message of connection
// management came from a port; 0 if it has more. Who is in user space, as we are, has one socket,
// at the port of RoCE; others choose ports above 49151 by queue pair.
func (c *control) onePort(from uint16) uint16 {
	if from == c.t.key.Port() {
		return from
	}
	return 0
}

// mtuCode is the code of a path MTU.
func mtuCode(bytes int) (m mad.MTU) {
	for m = 1; m.Bytes() < bytes; m++ {
	}
	return m
}

// do calls the CM, and does what follows. The service loop is woken if it sleeps for longer than
// the CM can wait now.
func (c *control) do(f func(*cm.CM, cm.Instant)) {
	if next, ok := c.call(f); ok {
		c.t.hurry(next)
	}
}

// call calls the CM, and does what follows: events first, since they can call it again, then what
// is to be sent. It returns when run has to be called next.
func (c *control) call(f func(*cm.CM, cm.Instant)) (next core.Instant, ok bool) {
	c.mu.Lock()
	at := cm.Instant(now())
	f(c.cm, at)
	var e cm.Event
	for c.cm.PollEvent(&e) {
		c.happened(at, &e)
	}
	var d cm.Datagram
	for c.cm.PollSend(&d) {
		if len(c.out) < maxOut { // the rest is repeated, or asked for again
			c.out = append(c.out, d)
		}
	}
	some := len(c.out) > 0
	deadline, ok := c.cm.NextDeadline()
	c.mu.Unlock()
	if some {
		c.t.tx.kickControl()
	}
	return core.Instant(deadline), ok
}

// general takes a packet for queue pair 1. It runs on the receive loop.
func (c *control) general(_ core.Instant, p core.Packet) {
	if !cm.Admit(&p.Header) || p.Reserved {
		c.mu.Lock()
		c.cm.Refused()
		c.mu.Unlock()
		return
	}
	c.do(func(m *cm.CM, at cm.Instant) {
		c.from = binary.BigEndian.Uint16(p.Network[len(p.Network)-packet.UDPLen:])
		m.Receive(at, p.Src, p.Payload)
	})
}

// run does what is due, and returns when it has to be called next. It is for the service loop,
// which it does not wake: that would have it run without end.
func (c *control) run() (next core.Instant, ok bool) {
	return c.call(func(m *cm.CM, at cm.Instant) { m.Advance(at) })
}

// take moves the datagrams that wait to be sent to list, and returns it.
func (c *control) take(list []cm.Datagram) []cm.Datagram {
	c.mu.Lock()
	defer c.mu.Unlock()
	list = append(list, c.out...)
	c.out = c.out[:0]
	return list
}

// counters is what became of the datagrams to queue pair 1.
func (c *control) counters() cm.Counters {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.cm.Counters()
}

// happened handles one event. The caller holds mu.
func (c *control) happened(at cm.Instant, e *cm.Event) {
	if q, ok := e.Conn.Owner.(*question); ok {
		q.happened(e)
		return
	}
	c.kept.happened(e)
	l, _ := e.Conn.Owner.(*link)
	switch {
	case e.Kind == cm.Requested:
		c.requested(at, e)
	case e.Kind == cm.Asked:
		c.asked(at, e)
	case l == nil: // of a request that nobody has taken
	case e.Kind == cm.Replied:
		l.replied(at, e)
	case e.Kind == cm.Established:
		l.established(at)
	case e.Kind == cm.Ended:
		l.ended(e.Err)
	case e.Kind == cm.Released:
		l.released()
	}
}

// requested gives a connection request to the listener of its service.
func (c *control) requested(at cm.Instant, e *cm.Event) {
	l := c.services[e.Conn.Service()]
	switch {
	case l == nil || l.kind == rnic.UD:
		_ = c.cm.Reject(at, e.Conn, mad.RejServiceID, nil)
	case e.Remote.Transport != transports[l.kind]:
		_ = c.cm.Reject(at, e.Conn, mad.RejTransport, nil)
	case !l.offer(c, e):
		_ = c.cm.Reject(at, e.Conn, mad.RejNoResources, nil)
	}
}

// asked gives a question for a service of UD to the listener of the service.
func (c *control) asked(at cm.Instant, e *cm.Event) {
	l := c.services[e.Conn.Service()]
	switch {
	case l == nil || l.kind != rnic.UD:
		_ = c.cm.Answer(at, e.Conn, mad.SIDRUnsupported, 0, 0, nil)
	case !l.offer(c, e):
		_ = c.cm.Answer(at, e.Conn, mad.SIDRNoQP, 0, 0, nil)
	}
}
