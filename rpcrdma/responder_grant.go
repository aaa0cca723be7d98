// The responder's grant: how many calls the peer can have in flight, raised and lowered at run
// time.

package rpcrdma

import (
	"errors"
	"sync/atomic"
)

// grants is the responder's side of the credits (RFC 8166 §3.3.1). What is announced and what
// is allowed differ after the announced number has been lowered: the peer may have
// calls in flight that it was allowed before it heard of that. The responder's lock guards
// it, but for what says otherwise.
//
// Each reply that announces the smaller number, and after which no larger one can come, takes
// one credit back: the peer had it in use and MUST NOT use it again. So when the last
// of the calls that were in flight has been answered, allowed is what is announced.
type grants struct {
	announced  int  // in each reply
	least      int  // allowed does not sink below: announced, or a larger number about to be
	allowed    int  // calls at once before the peer is cut off
	receives   int  // buffers there are for calls: for those allowed, and some more
	generation uint // of announced; from 1
	current    int  // replies made since it was set and not sent yet
	stale      int  // and those made before
	spare      int  // receives that were taken out of use

	surplus atomic.Int32 // receives that are not to be posted again; written under responder.mu
}

// newGrants announces n credits; receives is how many are posted at first.
func newGrants(n, receives int) grants {
	return grants{announced: n, least: n, allowed: n, receives: receives, generation: 1}
}

var (
	errNoService  = errors.New("rpcrdma: the connection serves no calls")
	errNoCredits  = errors.New("rpcrdma: at least one credit has to be granted")
	errMaxCredits = errors.New("rpcrdma: more credits than Config.MaxCredits")
)

// SetCredits changes how many calls the peer may have in flight on this connection: 1 to
// Config.MaxCredits. A larger number is announced, in the replies from now on, once receives
// for it are posted; a smaller one at once, and receives are taken out of use as the calls
// that are in flight are answered. It may be called from any goroutine.
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
	if err := rs.backGrant(n); err != nil {
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

// backGrant posts the receives that a grant of n needs beyond those that there are: first by
// leaving in use what was to be taken out of it, then those that were, then new ones.
func (rs *responder) backGrant(n int) error {
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
	_ = rs.c.receives.post(rs.c.qp, again) // it fails after the end of the connection alone
	if fresh := missing - kept - again; fresh > 0 {
		return rs.c.receives.add(rs.c.qp, fresh)
	}
	return nil
}

// announce is the grant to be put into a reply.
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

// heard ends what announce began: the reply has been sent, or never will be. The caller
// holds responder.mu.
func (g *grants) heard(r *Request, sent bool) {
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
	// Not all peers take a grant from other messages (RFC 8167 §4.1 [R8167-006]).
	if sent && g.stale == 0 && r.hdr.Proc == ProcMsg && g.allowed > g.least {
		g.allowed--
		g.receives--
		g.surplus.Add(1)
	}
}

// retire reports whether a receive is not to be posted again, since there are more than the grant
// needs.
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
