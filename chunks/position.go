// Position and offset: an item's place in the complete call and in the reduced stream (RFC 8166
// §3.4.5).

package chunks

import "github.com/nfsrdma/nfsrdma/xdr"

// A Position counts bytes of the complete call, from its XID, before items are taken out (RFC 8166
// §3.4.5 [R8166-059]); xdr.Item.Off counts bytes of the remaining stream. Position and Off differ
// by the preceding items, each rounded up to four (RFC 8166 §3.4.5 [R8166-060]):
//
//	Position of item i = Off of item i + sum over j < i of RoundUp(length of item j)

// Position returns the Position of item i in m. All items of m must have an offset.
func (m Message) Position(i int) uint32 {
	p := m.Items[i].Off
	for j := range m.Items[:i] {
		p += xdr.RoundUp(len(m.Items[j].Data))
	}
	return uint32(p)
}

// Place appends to dst one item, without Data, for each Read chunk with an item's content: a chunk
// of at least one byte and a Position other than zero. It keeps the order of chunks, by Position,
// as returned by Lists.ReadChunks. stream is the remaining stream's length in bytes: the
// inline bytes, or a long call's Position-zero chunk.
//
// It fails with ErrPosition when a Position lies outside the stream, or so close after the
// preceding Position that no length word fits between them (RFC 8166 §3.4.5 [R8166-064]). Only the
// call's decoder can find out whether an item really belongs at the offset.
func Place(dst []xdr.Item, chunks []ReadChunk, stream int) ([]xdr.Item, error) {
	var before uint64 // bytes of earlier items, rounded up
	least := uint64(4)
	for i := range chunks {
		c := &chunks[i]
		n := c.Len()
		if c.Position == 0 || n == 0 {
			continue
		}
		p := uint64(c.Position)
		if p%4 != 0 || p < before+least || p-before > uint64(stream) {
			return dst, ErrPosition
		}
		off := p - before
		dst = append(dst, xdr.Item{Off: int(off)})
		least = off + 4
		before += (n + 3) &^ 3
	}
	return dst, nil
}

// PositionZero returns the Position-zero chunk in chunks, if any; it holds a long call's stream
// (RFC 8166 §3.5.3).
func PositionZero(chunks []ReadChunk) (ReadChunk, bool) {
	if len(chunks) > 0 && chunks[0].Position == 0 {
		return chunks[0], true
	}
	return ReadChunk{}, false
}
