// Layout: bytes laid over the segments of a Write or Reply chunk (RFC 8166 §3.4.6).

package chunks

// A Scatter lays a slice list's bytes over a chunk's segments in order, without gaps (RFC
// 8166 §3.4.6 [R8166-074]). It sets each segment's length to its received bytes, zero for the rest
// (RFC 8166 §3.4.6 [R8166-076]): the chunk is then ready for the reply. It copies and allocates
// nothing.
//
//	for s := NewScatter(chunk, src); s.Next(); {
//		sgl = s.AppendTo(sgl)   // the bytes of s.Segment
//	}
//
// It never returns a zero-length segment, so that no RDMA Write is empty.
type Scatter struct {
	// Segment receives the current bytes; Length counts them.
	Segment Segment

	chunk Chunk
	next  int      // index of the next segment in chunk
	src   [][]byte // the remaining bytes; src[0] begins at byte at
	at    int
}

// NewScatter begins to lay src over chunk. The caller has checked that src fits (PlanReply); excess
// bytes are left over. The Scatter changes the chunk's segments as it passes them.
func NewScatter(chunk Chunk, src [][]byte) Scatter { return Scatter{chunk: chunk, src: src} }

// Next advances to the next segment that receives bytes, and reports whether there is one. If there
// is none, the remaining segments have length zero. AppendTo must be called between two calls to
// Next.
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

// upTo returns the number of remaining bytes, but at most limit.
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

// AppendTo appends the slices with the current segment's bytes to sgl, and advances past them.
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
