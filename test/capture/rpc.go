// A conversation's RPC-over-RDMA messages, with the content of their chunks.

package capture

import (
	"fmt"

	"github.com/nfsrdma/nfsrdma/chunks"
	"github.com/nfsrdma/nfsrdma/rnic/iwarp/rdmap"
	"github.com/nfsrdma/nfsrdma/rpcrdma"
	"github.com/nfsrdma/nfsrdma/xdr"
)

// An RPC is one RPC-over-RDMA message.
type RPC struct {
	FromInitiator bool // a call, because no backchannel calls occur
	Packet        int
	Send          []byte // header and the bytes after the header
	Header        *rpcrdma.Header
	Msg           chunks.Message // the RPC message without the chunks' items
}

// RPCs returns the RPC-over-RDMA messages of a conversation in order.
func (c *Conversation) RPCs() ([]RPC, error) {
	messages, err := c.Messages()
	if err != nil {
		return nil, err
	}
	mem, err := remember(messages)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", c.Name, err)
	}
	var out []RPC
	for _, m := range messages {
		if !m.Op.IsSend() {
			continue
		}
		r := RPC{FromInitiator: m.FromInitiator, Packet: m.Packet, Send: m.Payload, Header: new(rpcrdma.Header)}
		if err = r.Header.Parse(m.Payload); err == nil && m.FromInitiator {
			err = r.call(&mem)
		} else if err == nil {
			err = r.reply(&mem)
		}
		if err == nil && m.Op.Invalidates() {
			err = r.offered(out, m.Header.Inv)
		}
		if err != nil {
			return out, fmt.Errorf("%s: packet %d: %w", c.Name, m.Packet, err)
		}
		out = append(out, r)
	}
	if t := mem.unused(); t != nil {
		return out, fmt.Errorf("%s: packet %d: %d bytes of STag %#x are in no chunk", c.Name, t.packet, len(t.data), t.stag)
	}
	return out, nil
}

// call fills in r.Msg for a call: Read chunks, which the responder reads later.
func (r *RPC) call(mem *memory) error {
	r.Msg.Stream = r.Send[r.Header.Len:]
	later := func(packet int) bool { return packet > r.Packet }
	var content [][]byte
	list := r.Header.ReadChunks()
	for _, c := range list {
		segments := make([]chunks.Segment, len(c.Segments))
		for i := range segments {
			segments[i] = c.Segments[i].Segment
		}
		b, err := chunk(mem.reads, segments, later)
		switch {
		case err != nil:
			return err
		case c.Position == 0:
			r.Msg.Stream = b
		case len(b) > 0:
			content = append(content, b)
		}
	}
	items, err := chunks.Place(nil, list, len(r.Msg.Stream))
	for i := range items {
		items[i].Data = content[i]
	}
	r.Msg.Items = items
	return err
}

// reply fills in r.Msg for a reply: Write chunks and the Reply chunk, which the responder wrote
// before it sent the reply.
func (r *RPC) reply(mem *memory) error {
	r.Msg.Stream = r.Send[r.Header.Len:]
	before := func(packet int) bool { return packet <= r.Packet }
	for _, c := range r.Header.Write {
		b, err := chunk(mem.writes, c, before)
		if err != nil {
			return err
		}
		if len(b) > 0 {
			r.Msg.Items = append(r.Msg.Items, xdr.Item{Off: xdr.AnyOffset, Data: b})
		}
	}
	if r.Header.Proc != rpcrdma.ProcNoMsg {
		return nil
	}
	b, err := chunk(mem.writes, r.Header.Reply, before)
	r.Msg.Stream = b
	return err
}

// offered checks that a reply invalidates an STag from its call.
func (r *RPC) offered(earlier []RPC, stag uint32) error {
	for i := len(earlier) - 1; i >= 0; i-- {
		call := &earlier[i]
		if !call.FromInitiator || call.Header.XID != r.Header.XID {
			continue
		}
		for _, s := range call.Header.Read {
			if s.Handle == stag {
				return nil
			}
		}
		for _, c := range append([]chunks.Chunk{call.Header.Reply}, call.Header.Write...) {
			for _, s := range c {
				if s.Handle == stag {
					return nil
				}
			}
		}
		break
	}
	return fmt.Errorf("%v of STag %#x, which the call did not offer", rdmap.OpSendInvalidate, stag)
}
