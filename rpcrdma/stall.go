// Peers that hold what they were given and do nothing for it: how that is found.

package rpcrdma

// A stall counts the ticks in a row for which something has stood still. It is pure.
type stall struct {
	ticks int
	count int64
	bytes uint64
}

// tick looks once more and reports whether it has stood still for stallTicks ticks.
// busy: there is something to wait for; count and bytes only grow. One more of count
// is progress, and so are slowest bytes: a large item on a slow link takes longer than
// all the ticks, but a peer that sends a byte now and then does not hold memory for ever.
func (s *stall) tick(busy bool, count int64, bytes uint64) bool {
	if !busy || count != s.count || bytes-s.bytes >= slowest {
		*s = stall{count: count, bytes: bytes}
		return false
	}
	s.ticks++
	return s.ticks == stallTicks
}

// windowAbandoned reports whether all credits are held by calls that Do has given up
// on, so that no other call can start, and how many calls have been answered so far.
// A reply with a fault in its header is dropped [R8166-149], and its call keeps
// the credit until then, for the peer may still be at work on it. A window that
// stays so is lost: only a new connection gives the credits back.
func (c *Conn) windowAbandoned() (bool, int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.abandoned > 0 && c.abandoned >= c.credits.window(), c.answers
}
