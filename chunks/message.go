// Messages: an XDR stream and the items taken out.

// Package chunks implements the chunk lists of RPC-over-RDMA (RFC 8166): the segments and lists
// that name memory, and the Positions that tie them to the XDR stream. It chooses between inline,
// chunks and long messages, and lays bytes out over segments. Use it to parse or build messages
// without package rpcrdma. It does no I/O and has no state.
//
//	data := chunks.Segment{Handle: 0x1234, Length: uint32(len(call.Items[0].Data)), Offset: 0x1000}
//	lists := chunks.Lists{Read: []chunks.ReadSegment{{Position: call.Position(0), Segment: data}}}
//	header := lists.Append(nil) // after the four fixed words of the header
//
//	var got chunks.Lists
//	if _, err := got.Parse(header); err != nil {
//		log.Fatal(err)
//	}
//
// Until version 1 a release can change these names. CHANGELOG.md lists each change.
package chunks

import "github.com/nfsrdma/nfsrdma/xdr"

// A Message is an RPC message: its XDR stream, and the items (content and padding) taken out of it
// to travel separately, in stream order. The message's creator owns the memory.
type Message struct {
	Stream []byte
	Items  []xdr.Item
}

// FullLen returns the whole message's length in bytes, with every item and its padding back in
// place. Items of AnyOffset count like the others.
func (m Message) FullLen() int { return m.lenWithout(0) }

// An ItemSet is a set of items: bit i stands for item i. Items from number 32 on are in no set.
type ItemSet uint32

// Has reports whether item i is in the set.
func (s ItemSet) Has(i int) bool { return i < 32 && s>>i&1 == 1 }

// lenWithout returns the message's length in bytes, with every item except those in reduced back in
// place.
func (m Message) lenWithout(reduced ItemSet) int {
	n := len(m.Stream)
	for i := range m.Items {
		if !reduced.Has(i) {
			n += xdr.RoundUp(len(m.Items[i].Data))
		}
	}
	return n
}

// Gather appends the message's slices to dst and returns dst. Every item except those in reduced is
// back in place, with its padding. Nothing is copied. Every item must have its offset.
func (m Message) Gather(dst [][]byte, reduced ItemSet) [][]byte {
	at := 0
	for i := range m.Items {
		it := &m.Items[i]
		if reduced.Has(i) {
			continue
		}
		if it.Off > at {
			dst = append(dst, m.Stream[at:it.Off])
			at = it.Off
		}
		dst = append(dst, it.Data)
		if p := xdr.Pad(len(it.Data)); p > 0 {
			dst = append(dst, zeros[:p])
		}
	}
	if at < len(m.Stream) {
		dst = append(dst, m.Stream[at:])
	}
	return dst
}

// zeros pads gathered items; it is never written.
var zeros [3]byte
