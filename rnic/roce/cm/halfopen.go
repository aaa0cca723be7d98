// Limits against floods: half-open connections are counted, and the newest replaces the oldest.

package cm

import (
	"container/list"
	"net/netip"
)

// wrongRTUs is the number of RTUs for unknown connections after which a source's half-open
// connections end. An attacker with a forged source must guess the 32-bit communication ID.
// wrongRTUs limits the guesses for each REQ; otherwise only Patience would.
const wrongRTUs = 4

// A source is an address with half-open or proven connections.
type source struct {
	halfOpen list.List // of *Conn, the oldest first
	proofs   int       // connections that were established and are not released yet
	wrong    int       // RTUs for unknown connections since the last valid RTU
}

func (c *CM) source(a netip.Addr) *source {
	s := c.sources[a]
	if s == nil {
		s = &source{}
		c.sources[a] = s
	}
	return s
}

// proven reports whether the address has shown that it receives our datagrams.
func (c *CM) proven(a netip.Addr) bool {
	s := c.sources[a]
	return s != nil && s.proofs > 0
}

// updateLists updates the lists for k's new state. Only become calls it.
func (c *CM) updateLists(k *Conn, from state) {
	switch {
	case from.halfOpen() && !k.state.halfOpen():
		c.halfOpen.Remove(k.all)
		c.sources[k.peer].halfOpen.Remove(k.own)
	case !from.halfOpen() && k.state.halfOpen():
		k.all = c.halfOpen.PushBack(k)
		k.own = c.source(k.peer).halfOpen.PushBack(k)
	case from == timeWait:
		c.timeWait.Remove(k.all)
	}
	switch {
	case k.state == timeWait:
		k.all = c.timeWait.PushBack(k)
	case k.state == established:
		s := c.source(k.peer)
		s.proofs++
		s.wrong = 0
		k.proof = true
	case k.state == released && k.proof:
		c.sources[k.peer].proofs--
	}
	if s := c.sources[k.peer]; s != nil && s.proofs == 0 && s.halfOpen.Len() == 0 {
		delete(c.sources, k.peer)
	}
}

// Bound limits half-open connections to halfOpen in total and to halfOpen/4 for one source; 0 means
// Config's limits. An excess is reduced when the next request comes.
func (c *CM) Bound(halfOpen int) {
	c.maxHalfOpen, c.maxPerSource = halfOpen, max(1, halfOpen/4)
	if halfOpen <= 0 {
		c.maxHalfOpen, c.maxPerSource = c.cfg.HalfOpen, c.cfg.PerSource
	}
}

// makeRoom ends the oldest half-open connections if another one from a source would exceed a limit.
// An honest client completes within a round trip, so only a flood within that time can evict it.
func (c *CM) makeRoom(from netip.Addr) {
	for s := c.sources[from]; s != nil && s.halfOpen.Len() >= c.maxPerSource; {
		c.evict(s.halfOpen.Front())
	}
	for c.halfOpen.Len() >= c.maxHalfOpen {
		c.evict(c.halfOpen.Front())
	}
}

// evict ends a half-open connection without a message to the peer, which possibly never existed.
func (c *CM) evict(e *list.Element) {
	k := e.Value.(*Conn)
	c.counters.Evicted++
	if k.state == reqReceived || k.state == repSent || k.state == sidrReqReceived {
		c.emit(Event{Kind: Ended, Conn: k, Err: ErrEvicted})
	}
	c.become(k, released)
}

// countWrongRTU counts an RTU without a connection.
func (c *CM) countWrongRTU(from netip.Addr) {
	s := c.sources[from]
	if s == nil {
		return
	}
	if s.wrong++; s.wrong < wrongRTUs {
		return
	}
	s.wrong = 0
	for s.halfOpen.Len() > 0 {
		c.evict(s.halfOpen.Front())
	}
}
