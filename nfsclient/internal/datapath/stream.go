// Streams: which readers go through a file in order, and how far ahead of them to read.

package datapath

// A stream is one reader that may be sequential. A Handle remembers some, so that programs
// that read several parts of a file in turn are found as well.
type stream struct {
	next   int64  // where the next read should be
	run    int    // reads in a row
	window int64  // bytes to have ahead of next; 0: not found to be sequential
	asked  int64  // read-ahead was asked for up to here
	used   uint64 // the Handle's clock at the last read
}

const (
	sequential  = 3         // reads in a row make a sequential reader
	firstWindow = 128 << 10 // at least this much is read ahead first
	reorder     = 4         // reads may come out of order by this many of their own length
)

// find returns the stream that a read of n bytes at off belongs to, and a new one in
// place of the one that was not used for longest if there is none.
//
// Several reads of one reader may be under way at once and come in any order. So a
// read near to where the next one should be belongs to the stream, but counts only if
// it leads forward: random reads, and those from the end to the start, never do often enough.
func (h *Handle) find(off int64, n int) *stream {
	h.clock++
	near := int64(reorder * n)
	var found, oldest *stream
	for i := range h.streams {
		s := &h.streams[i]
		switch d := off - s.next; {
		case s.run == 0:
		case d == 0:
			found = s
		case found == nil && -near <= d && d <= near:
			found = s
		}
		if oldest == nil || s.used < oldest.used {
			oldest = s
		}
	}
	if found == nil {
		found = oldest
		*found = stream{next: off}
		if off == 0 && h.file.limit >= 0 {
			found.run = sequential - 1 // readers that begin at the start mostly go on, and it is known for how long
		}
	}
	found.used = h.clock
	return found
}

// advance moves the stream on with a read of n bytes at off, and doubles the window up to most.
func (s *stream) advance(off int64, n int, most int64) {
	end := off + int64(n)
	if end <= s.next {
		return
	}
	s.next = end
	s.run++
	switch {
	case s.run < sequential:
	case s.window == 0:
		s.window = min(max(4*int64(n), firstWindow), most)
	default:
		s.window = min(2*s.window, most)
	}
}
