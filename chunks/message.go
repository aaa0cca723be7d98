// A message: an XDR stream and the items taken out of it.

package chunks

import "github.com/nfsrdma/nfsrdma/xdr"

// A Message is an RPC message: its XDR stream, and the items that were taken out
// of the stream (content and pad) to travel apart, in stream order. What the
// fields point at belongs to whoever made the message.
type Message struct {
	Stream []byte
	Items  []xdr.Item
}

// FullLen is the length in octets of the whole message with every item and its
// pad back in place. Items of AnyOffset count like the others.
func (m Message) FullLen() int {
	n := len(m.Stream)
	for _, it := range m.Items {
		n += xdr.RoundUp(len(it.Data))
	}
	return n
}
