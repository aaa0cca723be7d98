// Detection of peers that hold resources and make no progress.

package rpcrdma

// A stall counts the ticks in a row without progress. It is pure.
type stall struct {
	ticks int
	count int64
	bytes uint64
}

// tick records one tick and reports whether progress has stopped for stallTicks ticks. busy: work
// is pending; count and bytes only grow. An increment of count is progress, and so is a growth of
// bytes by minProgress. A large item on a slow link may take longer than all the ticks; a peer that
// sends a byte now and then still must not hold memory forever.
func (s *stall) tick(busy bool, count int64, bytes uint64) bool {
	if !busy || count != s.count || bytes-s.bytes >= minProgress {
		*s = stall{count: count, bytes: bytes}
		return false
	}
	s.ticks++
	return s.ticks == stallTicks
}
