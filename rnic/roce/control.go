// A port's connection management: its CM under a lock, driven by packets, timers, and calls.

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

// A control has a port's CM. The goroutine that calls the CM also handles its events, under mu.
// Endpoint locks come after mu, never before.
type control struct {
	t *port // set once

	mu       sync.Mutex
	cm       *cm.CM                      // guarded by mu, as are the fields below
	services map[mad.ServiceID]*listener // this port's listeners
	out      []cm.Datagram
	from     uint16         // UDP source port of the current datagram
	state    *connStateFile // nil: connections are not recorded
}

// guid identifies this process run: peers drop connections to an earlier run.
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

// setHalfOpenLimit sets the CM's half-open limit to the largest of the listeners' limits. The
// caller calls it after adding or removing a listener. The caller holds mu.
func (c *control) setHalfOpenLimit() {
	most := 0
	for _, l := range c.services {
		most = max(most, l.p.cfg.MaxHandshakes)
	}
	c.cm.Bound(most)
}

// peerPort returns the UDP source port of all a peer's packets, given the port that a CM message
// came from; 0 if the peer uses several. A user-space peer like this package has one socket, on the
// RoCE port; other peers choose ports above 49151 by queue pair.
func (c *control) peerPort(from uint16) uint16 {
	if from == c.t.key.Port() {
		return from
	}
	return 0
}

// mtuCode returns the code for a path MTU.
func mtuCode(bytes int) (m mad.MTU) {
	for m = 1; m.Bytes() < bytes; m++ {
	}
	return m
}

// do calls the CM and handles the results. It wakes the service loop if the loop sleeps past the
// CM's next deadline.
func (c *control) do(f func(*cm.CM, cm.Instant)) {
	if next, ok := c.call(f); ok {
		c.t.wakeBefore(next)
	}
}

// call calls the CM and handles the results: first events, since their handlers can call the CM
// again, then outgoing datagrams. It returns when to call run next.
func (c *control) call(f func(*cm.CM, cm.Instant)) (next core.Instant, ok bool) {
	c.mu.Lock()
	at := cm.Instant(now())
	f(c.cm, at)
	var e cm.Event
	for c.cm.PollEvent(&e) {
		c.handleEvent(at, &e)
	}
	var d cm.Datagram
	for c.cm.PollSend(&d) {
		// The peer repeats a request without an answer, and the CM its own requests.
		if len(c.out) < maxOut {
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

// run handles expired timers, and returns when to call it next. Only the service loop calls it. run
// does not wake the service loop, which would then never sleep.
func (c *control) run() (next core.Instant, ok bool) {
	return c.call(func(m *cm.CM, at cm.Instant) { m.Advance(at) })
}

// take moves the queued datagrams to list, and returns list.
func (c *control) take(list []cm.Datagram) []cm.Datagram {
	c.mu.Lock()
	defer c.mu.Unlock()
	list = append(list, c.out...)
	c.out = c.out[:0]
	return list
}

// counters counts the datagrams for queue pair 1 by outcome.
func (c *control) counters() cm.Counters {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.cm.Counters()
}

// handleEvent handles one event. The caller holds mu.
func (c *control) handleEvent(at cm.Instant, e *cm.Event) {
	if q, ok := e.Conn.Owner.(*sidrRequest); ok {
		q.handleEvent(e)
		return
	}
	c.state.handleEvent(e)
	l, _ := e.Conn.Owner.(*cmLink)
	switch {
	case e.Kind == cm.Requested:
		c.requested(at, e)
	case e.Kind == cm.Asked:
		c.asked(at, e)
	case l == nil: // a request that no listener took
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

// requested passes a connection request to its service's listener.
func (c *control) requested(at cm.Instant, e *cm.Event) {
	l := c.services[e.Conn.Service()]
	switch {
	case l == nil || l.kind == rnic.UD:
		_ = c.cm.Reject(at, e.Conn, mad.RejServiceID, nil)
	case e.Remote.Transport != transports[l.kind]:
		_ = c.cm.Reject(at, e.Conn, mad.RejTransport, nil)
	case !l.enqueue(c, e):
		_ = c.cm.Reject(at, e.Conn, mad.RejNoResources, nil)
	}
}

// asked passes a SIDR request to its service's listener.
func (c *control) asked(at cm.Instant, e *cm.Event) {
	l := c.services[e.Conn.Service()]
	switch {
	case l == nil || l.kind != rnic.UD:
		_ = c.cm.Answer(at, e.Conn, mad.SIDRUnsupported, 0, 0, nil)
	case !l.enqueue(c, e):
		_ = c.cm.Answer(at, e.Conn, mad.SIDRNoQP, 0, 0, nil)
	}
}
