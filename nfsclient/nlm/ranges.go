// The locked bytes of one file and owner: only ranges, no calls and no waiting.

package nlm

import (
	"math"

	"github.com/nfsrdma/nfsrdma/xdr/nlm4"
)

// lastByte is the end of a lock "to the end of the file": offsets of fcntl(2) are signed.
const lastByte = math.MaxInt64

// A span is a byte range with inclusive bounds, and its kind of lock.
type span struct {
	start, end uint64
	exclusive  bool
}

var allBytes = span{end: lastByte}

func (s span) overlaps(o span) bool { return s.start <= o.end && o.start <= s.end }

// wireLength returns the span's length in messages; 0 means "to the end of the file".
func (s span) wireLength() uint64 {
	if s.end >= lastByte {
		return 0
	}
	return s.end - s.start + 1
}

// spanOf returns the span of a lock in a message.
func spanOf(lock *nlm4.Lock, exclusive bool) span {
	s := span{lock.Offset, lock.Offset + lock.Length - 1, exclusive}
	if lock.Length == 0 || s.end < s.start || s.end > lastByte {
		s.end = lastByte
	}
	return s
}

// ranges are spans without overlap, in no order. Adjacent spans of one kind stay separate: locks
// taken in pieces are reclaimed in pieces.
type ranges []span

// without returns the ranges without the bytes of s.
func (r ranges) without(s span) (left ranges) {
	for _, h := range r {
		if !h.overlaps(s) {
			left = append(left, h)
			continue
		}
		if h.start < s.start {
			left = append(left, span{h.start, s.start - 1, h.exclusive})
		}
		if h.end > s.end {
			left = append(left, span{s.end + 1, h.end, h.exclusive})
		}
	}
	return left
}

// with returns the ranges with s added, replacing older locks of its bytes.
func (r ranges) with(s span) ranges { return append(r.without(s), s) }

// within returns the parts of the ranges in s.
func (r ranges) within(s span) (parts ranges) {
	for _, h := range r {
		if h.overlaps(s) {
			parts = append(parts, span{max(h.start, s.start), min(h.end, s.end), h.exclusive})
		}
	}
	return parts
}

// gaps returns the parts of s outside the ranges.
func (r ranges) gaps(s span) (free ranges) {
	free = ranges{s}
	for _, h := range r {
		free = free.without(h)
	}
	return free
}

// conflicts reports whether the ranges keep another owner from having s.
func (r ranges) conflicts(s span) bool {
	for _, h := range r {
		if (h.exclusive || s.exclusive) && h.overlaps(s) {
			return true
		}
	}
	return false
}

// covers reports whether all bytes of s are locked, exclusively if s is.
func (r ranges) covers(s span) bool {
	left := ranges{s}
	for _, h := range r {
		if h.exclusive || !s.exclusive {
			left = left.without(h)
		}
	}
	return len(left) == 0
}
