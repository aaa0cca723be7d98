// Layout: bytes spread over the segments of a Write or Reply chunk (RFC 8166 §3.4.6).

package chunks

// A Scatter spreads the bytes of a list of slices over the segments of a chunk
// in order, without gaps (RFC 8166 §3.4.6 [R8166-074]), and sets the length of every segment of
// the chunk to the bytes it received, zero for the rest (RFC 8166 §3.4.6 [R8166-076]): the chunk
// is then as the reply returns it. It copies and allocates nothing.
//
//	for s := NewScatter(chunk, src); s.Next(); {
//		sgl = s.AppendTo(sgl)   // the bytes of s.Segment
//	}
//
// It never gives a segment of length zero: no RDMA Write of nothing is made.
type Scatter struct {
	// Segment is where the current bytes go; Length is how many they are.
	Segment Segment

	chunk Chunk
	next  int      // index of the next segment of chunk
	src   [][]byte // what is left; src[0] begins at byte at
	at    int
}

// NewScatter begins to spread src over chunk. The caller has made sure that it
// fits (PlanReply); what does not is left over. Segments of chunk are
// changed as the Scatter passes them.
func NewScatter(chunk Chunk, src [][]byte) Scatter { return Scatter{chunk: chunk, src: src} }

// Next moves on to the next segment that receives bytes and reports whether
// there is one. When there is none, the segments left have length zero.
// AppendTo must be called between two calls of Next.
func (s *Scatter) Next() bool {
	for s.next < len(s.chunk) {
		seg := &s.chunk[s.next]
		s.next++
		seg.Length = uint32(s.upTo(uint64(seg.Length)))
		if seg.Length > 0 {
			s.Segment = *seg
			return true
		}
	}
	return false
}

// upTo is the bytes left, but no more than limit.
func (s *Scatter) upTo(limit uint64) uint64 {
	var n uint64
	at := s.at
	for _, b := range s.src {
		n += uint64(len(b) - at)
		at = 0
		if n >= limit {
			return limit
		}
	}
	return n
}

// AppendTo appends the slices with the bytes of the current segment to sgl and
// passes them.
func (s *Scatter) AppendTo(sgl [][]byte) [][]byte {
	for n := int(s.Segment.Length); n > 0; {
		b := s.src[0][s.at:]
		if len(b) > n {
			s.at += n
			return append(sgl, b[:n:n])
		}
		if len(b) > 0 {
			sgl = append(sgl, b)
		}
		n -= len(b)
		s.src, s.at = s.src[1:], 0
	}
	return sgl
}
