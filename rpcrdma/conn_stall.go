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
