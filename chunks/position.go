// Position and offset: where a Read chunk's item stands in the complete call and in the reduced
// stream (RFC 8166 §3.4.5).

package chunks

import "github.com/nfsrdma/nfsrdma/xdr"

// A Position counts bytes of the complete call, from its XID, before anything
// was taken out (RFC 8166 §3.4.5 [R8166-059]); xdr.Item.Off counts bytes of the stream that is
// left. They differ by the items before, each rounded up to four (RFC 8166 §3.4.5 [R8166-060]):
//
//	Position of item i = Off of item i + sum over j < i of RoundUp(length of item j)

// Position is the Position of item i of m, all of whose items have an offset.
func (m Message) Position(i int) uint32 {
	p := m.Items[i].Off
	for j := range m.Items[:i] {
		p += xdr.RoundUp(len(m.Items[j].Data))
	}
	return uint32(p)
}

// Place appends to dst one item, without Data, for each of the Read chunks of a
// call that is an item's content: those of a Position other than zero and of
// any bytes. Their order is that of chunks, which is by Position, as
// Lists.ReadChunks gives them. stream is the length in bytes of the stream
// that is left: the inline bytes, or the Position-zero chunk of a long call.
//
// It fails with ErrPosition when a Position lies outside the stream, or so near
// to the one before that no length word fits between (RFC 8166 §3.4.5 [R8166-064]). Whether an
// item really stands at the offset only the decoder of the call can tell.
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

// PositionZero returns the Position-zero chunk among chunks, which holds the
// stream of a long call (RFC 8166 §3.5.3), if there is one.
func PositionZero(chunks []ReadChunk) (ReadChunk, bool) {
	if len(chunks) > 0 && chunks[0].Position == 0 {
		return chunks[0], true
	}
	return ReadChunk{}, false
}
