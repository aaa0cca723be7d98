// The chunk lists that a call comes with, for those who count them.

package rpcrdma

// Offered is the chunk lists of a call that are not empty: a set of the bits below.
type Offered uint8

// The chunk lists (RFC 8166 §3.4).
const (
	OfferedRead  Offered = 1 << iota // Read list: arguments, or the whole call, to be read by us
	OfferedWrite                     // Write list: places for items of the results
	OfferedReply                     // Reply chunk: a place for the whole reply
)

// Offered is what the call came with. It is asked before the Request has ended.
func (r *Request) Offered() (o Offered) {
	l := &r.hdr.Lists
	if len(l.Read) > 0 {
		o |= OfferedRead
	}
	if len(l.Write) > 0 {
		o |= OfferedWrite
	}
	if l.HasReply {
		o |= OfferedReply
	}
	return o
}
