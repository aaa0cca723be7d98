// The responder's grant: the peer's limit for calls in flight, raised and lowered at run time.

package rpcrdma

import (
	"errors"
	"sync/atomic"
)

// grants is the responder's side of the credits (RFC 8166 §3.3.1). announced and allowed differ
// after a lowered announcement: the peer may still have calls in flight under the old limit. The
// responder's lock guards it, except where noted.
//
// After a lowered announcement each sent reply takes one credit back, once no reply with an older
// number is unsent: the peer had that credit in use, and MUST NOT use it again. So allowed has sunk
// to announced when the last call in flight is answered.
type grants struct {
	announced  int  // the limit in each reply
	least      int  // lower limit for allowed: announced, or a larger number about to be announced
	allowed    int  // calls in flight before the peer is cut off
	receives   int  // receives for calls: one for each allowed call, and some more
	generation uint // counts announcements, from 1
	current    int  // unsent replies made since the last announcement
	stale      int  // unsent replies made before that announcement
	spare      int  // receives taken out of use

	surplus atomic.Int32 // receives not to be posted again; written under responder.mu
}

// newGrants announces n credits; receives is the number of receives posted at first.
func newGrants(n, receives int) grants {
	return grants{announced: n, least: n, allowed: n, receives: receives, generation: 1}
}

var (
	errNoService  = errors.New("rpcrdma: the connection serves no calls")
	errNoCredits  = errors.New("rpcrdma: at least one credit has to be granted")
	errMaxCredits = errors.New("rpcrdma: more credits than Config.MaxCredits")
)

// SetCredits changes the peer's limit for calls in flight on this connection: 1 to
// Config.MaxCredits. Replies announce a larger number once enough receives are posted. They
// announce a smaller one at once, and receives leave use as the calls in flight are answered. Any
// goroutine may call it.
func (c *Conn) SetCredits(n int) error {
	rs := &c.responder
	switch {
	case rs.handler == nil:
		return errNoService
	case n < 1: // RFC 8166 §3.3.1 [R8166-025]
		return errNoCredits
	case n > c.cfg.MaxCredits:
		return errMaxCredits
	}
	rs.setting.Lock()
	defer rs.setting.Unlock()
	if err := rs.ensureReceives(n); err != nil {
		return c.postError(err)
	}
	if err := c.Err(); err != nil {
		return err
	}
	rs.mu.Lock()
	defer rs.mu.Unlock()
	g := &rs.grant
	g.announced, g.least = n, n
	g.stale, g.current = g.stale+g.current, 0
	g.generation++
	return nil
}

// ensureReceives posts the missing receives for a grant of n: first it cancels surplus removals,
// then it reuses spare receives, then it adds new ones.
func (rs *responder) ensureReceives(n int) error {
	g := &rs.grant
	rs.mu.Lock()
	missing := n + recvSlack - g.receives
	kept := max(0, min(int(g.surplus.Load()), missing))
	g.surplus.Add(int32(-kept))
	again := max(0, min(g.spare, missing-kept))
	g.spare -= again
	g.receives += max(0, missing)
	g.least, g.allowed = max(n, g.least), max(n, g.allowed)
	rs.mu.Unlock()
	_ = rs.c.receives.post(rs.c.qp, again) // fails only after the end of the connection
	if fresh := missing - kept - again; fresh > 0 {
		return rs.c.receives.add(rs.c.qp, fresh)
	}
	return nil
}

// announce returns the grant for a reply.
func (rs *responder) announce(r *Request) uint32 {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	g := &rs.grant
	if r.generation == 0 {
		r.generation = g.generation
		g.current++
	}
	return uint32(g.announced)
}

// replyDone ends announce: the reply has been sent, or never will be. The caller holds
// responder.mu.
func (g *grants) replyDone(r *Request, sent bool) {
	if r.generation == 0 {
		return
	}
	newest := r.generation == g.generation
	r.generation = 0
	if !newest {
		g.stale--
		return
	}
	g.current--
	// Some peers take no grant from other messages (RFC 8167 §4.1 [R8167-006]).
	if sent && g.stale == 0 && r.hdr.Proc == ProcMsg && g.allowed > g.least {
		g.allowed--
		g.receives--
		g.surplus.Add(1)
	}
}

// retire reports whether a receive is not posted again because the grant needs fewer receives.
func (rs *responder) retire() bool {
	g := &rs.grant
	if g.surplus.Load() == 0 {
		return false
	}
	rs.mu.Lock()
	defer rs.mu.Unlock()
	if g.surplus.Load() == 0 {
		return false
	}
	g.surplus.Add(-1)
	g.spare++
	return true
}
