// A header's chunk lists: Read list, Write list, Reply chunk (RFC 8166 §4.3).

package chunks

import (
	"cmp"
	"encoding/binary"
	"errors"
	"slices"
)

// The lists follow the four fixed words of RDMA_MSG and RDMA_NOMSG:
//
//	Read list   { 1 | position | handle | length | offset(8) }*  0     24 bytes per segment
//	Write list  { 1 | count | { handle | length | offset(8) }* }*  0   8+16n bytes per chunk
//	Reply chunk 0   or   1 | count | { handle | length | offset(8) }*  4+16n bytes more
//
// Every word is 4 bytes, most significant first.

// Header sizes in bytes (RFC 8166 §4.1.2 [R8166-101]).
const (
	FixedSize       = 16 // xid, version, credits, procedure
	minListsSize    = 12 // three empty lists
	MinHeaderSize   = FixedSize + minListsSize
	readSegmentSize = 24 // with its list word
	segmentSize     = 16
)

// writeChunkSize returns the bytes that a Write chunk with n segments adds to a header.
func writeChunkSize(n int) int { return 8 + segmentSize*n }

// replyChunkSize returns the bytes that a Reply chunk with n segments adds to a header.
func replyChunkSize(n int) int { return 4 + segmentSize*n }

// Parse's limits. They allow two megabytes in 4 KiB pages, one page for each segment.
const (
	maxReadSegments  = 512 // in the Read list
	MaxWriteSegments = 512 // in the Write list, and again in the Reply chunk
	maxWriteChunks   = 16
)

// Parse's errors. All are answered with ERR_CHUNK (RFC 8166 §4.5 [R8166-148]).
var (
	ErrShort    = errors.New("chunks: header ends early")
	ErrListWord = errors.New("chunks: word before an element, or at the end of a list, is neither 0 nor 1")
	ErrTooMany  = errors.New("chunks: too many chunks or segments")
	ErrPosition = errors.New("chunks: Position is not a multiple of four, or not in the message")
)

// Lists are one header's chunk lists. Parse and Reset keep the memory, so one Lists can be
// reused without allocation.
type Lists struct {
	Read     []ReadSegment // as on the wire
	Write    []Chunk
	Reply    Chunk
	HasReply bool // there is a Reply chunk, possibly without segments

	segs   []Segment     // holds Write and Reply
	sorted []ReadSegment // Read by Position
	chunks []ReadChunk   // slices into sorted
}

// Reset empties the lists.
func (l *Lists) Reset() {
	l.Read, l.Write, l.Reply, l.HasReply = l.Read[:0], l.Write[:0], nil, false
	l.segs, l.sorted, l.chunks = l.segs[:0], l.sorted[:0], l.chunks[:0]
}

// AddWrite adds a Write chunk with a copy of segs.
func (l *Lists) AddWrite(segs ...Segment) { l.Write = append(l.Write, l.keep(segs)) }

// SetReply sets the Reply chunk to a copy of segs.
func (l *Lists) SetReply(segs ...Segment) { l.Reply, l.HasReply = l.keep(segs), true }

// keep copies segs into the lists' memory.
func (l *Lists) keep(segs []Segment) Chunk {
	at := len(l.segs)
	l.segs = append(l.segs, segs...)
	return Chunk(l.segs[at:len(l.segs):len(l.segs)])
}

// Size returns the three lists' length in bytes; the header adds FixedSize.
func (l *Lists) Size() int {
	n := minListsSize + readSegmentSize*len(l.Read)
	for _, c := range l.Write {
		n += writeChunkSize(len(c))
	}
	if l.HasReply {
		n += replyChunkSize(len(l.Reply))
	}
	return n
}

// Append appends the three lists to b.
func (l *Lists) Append(b []byte) []byte {
	for i := range l.Read {
		b = binary.BigEndian.AppendUint32(b, 1)
		b = binary.BigEndian.AppendUint32(b, l.Read[i].Position)
		b = appendSegment(b, &l.Read[i].Segment)
	}
	b = binary.BigEndian.AppendUint32(b, 0)
	for _, c := range l.Write {
		b = appendChunk(b, c)
	}
	b = binary.BigEndian.AppendUint32(b, 0)
	if l.HasReply {
		return appendChunk(b, l.Reply)
	}
	return binary.BigEndian.AppendUint32(b, 0)
}

func appendChunk(b []byte, c Chunk) []byte {
	b = binary.BigEndian.AppendUint32(b, 1)
	b = binary.BigEndian.AppendUint32(b, uint32(len(c)))
	for i := range c {
		b = appendSegment(b, &c[i])
	}
	return b
}

func appendSegment(b []byte, s *Segment) []byte {
	b = binary.BigEndian.AppendUint32(b, s.Handle)
	b = binary.BigEndian.AppendUint32(b, s.Length)
	return binary.BigEndian.AppendUint64(b, s.Offset)
}

// Parse parses the three lists from b, which begins after the fixed words, and returns the bytes
// after them. It does not keep b. After success Positions are multiples of four (RFC 8166 §3.4.5
// [R8166-061]) and counts are within the limits; after an error the lists are empty.
func (l *Lists) Parse(b []byte) (rest []byte, err error) {
	l.Reset()
	p := parser{b: b}
	p.readList(l)
	p.writeList(l)
	p.replyChunk(l)
	if p.err != nil {
		l.Reset()
		return nil, p.err
	}
	return p.b, nil
}

// ReadChunks groups the Read list by Position, in ascending order; segments with one Position need
// not be adjacent in the list. The result is part of l and valid until the next Reset, Parse or
// ReadChunks.
func (l *Lists) ReadChunks() []ReadChunk {
	l.sorted = append(l.sorted[:0], l.Read...)
	slices.SortStableFunc(l.sorted, func(a, b ReadSegment) int { return cmp.Compare(a.Position, b.Position) })
	l.chunks = l.chunks[:0]
	for from := 0; from < len(l.sorted); {
		to := from + 1
		for to < len(l.sorted) && l.sorted[to].Position == l.sorted[from].Position {
			to++
		}
		l.chunks = append(l.chunks, ReadChunk{Position: l.sorted[from].Position, Segments: l.sorted[from:to:to]})
		from = to
	}
	return l.chunks
}
