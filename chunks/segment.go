// Segments and chunks: a header's names for requester memory (RFC 8166 §3.4.3, §3.4.4).

package chunks

import "errors"

// A Segment is a contiguous piece of the requester's memory, 16 bytes on the wire:
//
//	0  4  handle: the STag
//	4  4  length in bytes; 0 is an empty segment
//	8  8  offset: the tagged offset of the first byte, opaque to the responder
type Segment struct {
	Handle uint32
	Length uint32
	Offset uint64
}

// A ReadSegment is a Read chunk's Segment, 20 bytes on the wire: its Position (4), then the
// Segment. A chunk's segments share their Position.
type ReadSegment struct {
	Position uint32
	Segment
}

// A Chunk is the segment list of a Write chunk or the Reply chunk.
type Chunk []Segment

// Len returns the sum of the lengths, in bytes. It cannot overflow: each is 32 bits wide (RFC 8166
// §3.4.4 [R8166-049]).
func (c Chunk) Len() uint64 {
	var n uint64
	for i := range c {
		n += uint64(c[i].Length)
	}
	return n
}

// Unuse sets all lengths to zero: a reply returns an empty chunk in this form (RFC 8166 §4.3.2.2
// [R8166-130]).
func (c Chunk) Unuse() {
	for i := range c {
		c[i].Length = 0
	}
}

// errEcho means that a reply returns a chunk different from the call's offer.
var errEcho = errors.New("chunks: the reply returns another chunk than the call offered")

// Returned checks c, returned by a reply, against offered, the call's chunk, and returns the number
// of placed bytes. Count, handles and offsets must be equal (RFC 8166 §3.4.6 [R8166-075
// R8166-076]), and no segment may hold more than its offered length. All segments before the last
// used one must be full, so that the bytes lie without gaps (RFC 8166 §3.4.6 [R8166-074]).
func (c Chunk) Returned(offered Chunk) (uint64, error) {
	if len(c) != len(offered) {
		return 0, errEcho
	}
	var n uint64
	full := true
	for i := range c {
		got, had := &c[i], &offered[i]
		if got.Handle != had.Handle || got.Offset != had.Offset || got.Length > had.Length {
			return 0, errEcho
		}
		if got.Length > 0 && !full {
			return 0, errEcho
		}
		full = full && got.Length == had.Length
		n += uint64(got.Length)
	}
	return n, nil
}

// A ReadChunk has the segments with one Position in list order, which is the order of their bytes
// (RFC 8166 §3.4.5 [R8166-063]).
type ReadChunk struct {
	Position uint32
	Segments []ReadSegment
}

// Len returns the sum of the lengths, in bytes.
func (c ReadChunk) Len() uint64 {
	var n uint64
	for i := range c.Segments {
		n += uint64(c.Segments[i].Length)
	}
	return n
}
