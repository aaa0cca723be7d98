// The parser of the chunk lists: every count is checked against the available bytes before use.

package chunks

import "encoding/binary"

// A parser reads words from b and keeps its first error, after which it reads zeros.
type parser struct {
	b   []byte
	err error
}

// take returns the next n bytes, or nil with an error.
func (p *parser) take(n int) []byte {
	if p.err != nil {
		return nil
	}
	if n > len(p.b) {
		p.err = ErrShort
		return nil
	}
	b := p.b[:n]
	p.b = p.b[n:]
	return b
}

// more parses the word before an element, and reports whether one follows: 1 or 0 (RFC 8166 §4.3
// [R8166-117]).
func (p *parser) more() bool {
	b := p.take(4)
	if b == nil {
		return false
	}
	v := binary.BigEndian.Uint32(b)
	if v > 1 {
		p.err = ErrListWord
	}
	return v == 1
}

func (p *parser) readList(l *Lists) {
	for p.more() {
		b := p.take(readSegmentSize - 4)
		if b == nil {
			return
		}
		s := ReadSegment{
			Position: binary.BigEndian.Uint32(b), // 0:4
			Segment:  parseSegment(b[4:]),        // 4:20
		}
		switch {
		case len(l.Read) == maxReadSegments:
			p.err = ErrTooMany
		case s.Position%4 != 0:
			p.err = ErrPosition
		default:
			l.Read = append(l.Read, s)
			continue
		}
		return
	}
}

func (p *parser) writeList(l *Lists) {
	for p.more() {
		if len(l.Write) == maxWriteChunks {
			p.err = ErrTooMany
			return
		}
		c := p.chunk(l, MaxWriteSegments-len(l.segs))
		if p.err != nil {
			return
		}
		l.Write = append(l.Write, c)
	}
}

func (p *parser) replyChunk(l *Lists) {
	if p.more() {
		l.Reply = p.chunk(l, MaxWriteSegments)
		l.HasReply = true
	}
}

// chunk parses a count and that many segments, at most limit.
func (p *parser) chunk(l *Lists, limit int) Chunk {
	w := p.take(4)
	if w == nil {
		return nil
	}
	n := binary.BigEndian.Uint32(w)
	switch {
	case uint64(n)*segmentSize > uint64(len(p.b)):
		p.err = ErrShort
		return nil
	case uint64(n) > uint64(limit):
		p.err = ErrTooMany
		return nil
	}
	at := len(l.segs)
	for range n {
		l.segs = append(l.segs, parseSegment(p.take(segmentSize)))
	}
	return Chunk(l.segs[at:len(l.segs):len(l.segs)])
}

// parseSegment parses a segment from 16 bytes.
func parseSegment(b []byte) Segment {
	return Segment{
		Handle: binary.BigEndian.Uint32(b),     // 0:4
		Length: binary.BigEndian.Uint32(b[4:]), // 4:8
		Offset: binary.BigEndian.Uint64(b[8:]), // 8:16
	}
}
