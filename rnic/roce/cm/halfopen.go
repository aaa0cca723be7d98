// What strangers may take up: half-open connections are counted, and the oldest makes room for the
// newest.

package cm

import (
	"container/list"
	"net/netip"
)

// wrongRTUs is how many RTUs for no connection of a source end its half-open ones. Who forges the
// source has to guess the communication ID, of 32 bits; so there are few guesses for each REQ, not
// as many as fit into Patience.
const wrongRTUs = 4

// A source is an address with connections, half-open or proven.
type source struct {
	halfOpen list.List // of *Conn, the oldest first
	proofs   int       // connections that have been established and are not released
	wrong    int       // RTUs for no connection since the last that was for one
}

func (c *CM) source(a netip.Addr) *source {
	s := c.sources[a]
	if s == nil {
		s = &source{}
		c.sources[a] = s
	}
	return s
}

// proven reports whether who has the address has shown that it receives what is sent there.
func (c *CM) proven(a netip.Addr) bool {
	s := c.sources[a]
	return s != nil && s.proofs > 0
}

// place keeps k in the orders of its state, of which it has left another. It is called by become.
func (c *CM) place(k *Conn, from state) {
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

// Bound has at most halfOpen connections be half-open, and a quarter of them of one source; 0: as
// many as Config says. Where there are more, the oldest make room when the next one comes.
func (c *CM) Bound(halfOpen int) {
	c.most, c.mostOf = halfOpen, max(1, halfOpen/4)
	if halfOpen <= 0 {
		c.most, c.mostOf = c.cfg.HalfOpen, c.cfg.PerSource
	}
}

// makeRoom ends the oldest half-open connections where one more from a source is too many. Who is
// honest needs a round trip to be half-open no more, which a flood has to be faster than.
func (c *CM) makeRoom(from netip.Addr) {
	for s := c.sources[from]; s != nil && s.halfOpen.Len() >= c.mostOf; {
		c.evict(s.halfOpen.Front())
	}
	for c.halfOpen.Len() >= c.most {
		c.evict(c.halfOpen.Front())
	}
}

// evict ends a half-open connection without a word to its peer, which may never have been there.
func (c *CM) evict(e *list.Element) {
	k := e.Value.(*Conn)
	c.counters.Evicted++
	if k.state == reqReceived || k.state == repSent || k.state == asked {
		c.tell(Event{Kind: Ended, Conn: k, Err: ErrEvicted})
	}
	c.become(k, released)
}

// guessed counts an RTU for no connection.
func (c *CM) guessed(from netip.Addr) {
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
