// Streams: detecting sequential readers, and their read-ahead.

package datapath

// A readStream is one possibly sequential reader. A Handle tracks several, to detect programs that
// alternate between parts of a file.
type readStream struct {
	next   int64  // the next read's expected offset
	run    int    // consecutive reads
	window int64  // bytes to have ahead of next; 0: not sequential yet
	asked  int64  // end of the requested read-ahead
	used   uint64 // the Handle's clock at the last read
}

// find returns the stream for a read of n bytes at off. Without a match it replaces the least
// recently used stream.
//
// Several reads of one reader may be in flight and arrive in any order. So a read near the expected
// offset belongs to the stream, but counts only if it moves forward. Random and backward reads
// rarely move forward, so they do not become sequential.
func (h *Handle) find(off int64, n int) *readStream {
	h.clock++
	near := int64(reorder * n)
	var found, oldest *readStream
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
		*found = readStream{next: off}
		if off == 0 && h.file.limit >= 0 {
			// Readers starting at offset 0 mostly continue, so read ahead: the end is known.
			found.run = sequential - 1
		}
	}
	found.used = h.clock
	return found
}

// advance moves the stream by a read of n bytes at off, and doubles the window up to most.
func (s *readStream) advance(off int64, n int, most int64) {
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
