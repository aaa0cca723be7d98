// The rules of RPC-over-RDMA: credits, chunks, and the memory that each side may access.

package wire

import (
	"encoding/binary"
	"fmt"
	"slices"
)

// call is a call without a reply so far.
type call struct {
	header
	sinks   []area       // permitted targets: the Write chunks and the Reply chunk
	written map[area]int // bytes written to each segment
}

type pendingRead struct {
	stag   uint32
	offset uint64
	left   int
}

// rules checks one connection. The side that opened the connection is the requester.
type rules struct {
	r     *Report
	calls map[uint32]*call

	replies          int
	grant, lastGrant int // the latest two grants; lastGrant is possibly not yet received
	asked            int // credits requested by the requester
	reads            []pendingRead
	ird              int // Reads that the requester accepts concurrently; -1 unknown
	callMax          int // maximum bytes of a Send, in each direction
	replyMax         int
	mayInvalidate    bool
}

func newRules(r *Report) *rules {
	return &rules{r: r, calls: map[uint32]*call{}, grant: 1, lastGrant: 1, ird: -1}
}

func (u *rules) begin(client, server *startup) {
	u.ird = client.ird
	cs, cr, inv := client.inlineSizes()
	ss, sr, _ := server.inlineSizes()
	u.callMax, u.replyMax, u.mayInvalidate = min(cs, sr), min(ss, cr), inv
}

func (u *rules) send(frame, dir int, s ddp, b []byte) {
	h, err := parseHeader(b)
	if err != nil {
		u.r.add(frame, dir, s.op.String(), "RPC-over-RDMA: %v", err)
		return
	}
	limit := u.callMax
	if dir == 1 {
		limit = u.replyMax
	}
	name := fmt.Sprintf("XID %08x", h.xid)
	if len(b) > limit {
		u.r.add(frame, dir, name, "%d bytes inline, the limit is %d", len(b), limit)
	}
	if h.credits == 0 {
		u.r.add(frame, dir, name, "a credit value of zero")
	}
	if h.proc == procMsg && (len(h.rpc) < 8 || binary.BigEndian.Uint32(h.rpc) != h.xid) {
		u.r.add(frame, dir, name, "the XID of the RPC message after the header is another")
	}
	if dir == 0 {
		if s.op.invalidates() {
			u.r.add(frame, dir, name, "a requester invalidates memory of the responder, which has none")
		}
		u.call(frame, name, h)
	} else {
		u.reply(frame, name, s, h)
	}
}

func (u *rules) call(frame int, name string, h *header) {
	u.r.Calls++
	if _, twice := u.calls[h.xid]; twice {
		u.r.add(frame, 0, name, "the XID is used while a call with it waits")
	}
	u.asked = int(h.credits)
	u.calls[h.xid] = &call{header: *h, sinks: append(slices.Concat(h.writes...), h.reply...), written: map[area]int{}}
	if allowed := max(u.grant, u.lastGrant); len(u.calls) > allowed {
		u.r.add(frame, 0, name, "%d calls outstanding with %d credits", len(u.calls), allowed)
	}
	if h.proc == procNoMsg {
		u.r.LongCalls++
		if len(h.reads) == 0 || h.reads[0].position != 0 {
			u.r.add(frame, 0, name, "RDMA_NOMSG without a Position-zero Read chunk")
		}
	}
	for _, a := range h.reads {
		if a.position%4 != 0 {
			u.r.add(frame, 0, name, "a Read chunk at Position %d", a.position)
		}
		if a.position != 0 {
			u.r.ReadChunks++
		}
	}
	u.r.WriteChunks += len(h.writes)
}

func (u *rules) reply(frame int, name string, s ddp, h *header) {
	u.r.Replies++
	u.replies++
	if h.credits > 0 {
		u.lastGrant, u.grant = u.grant, min(int(h.credits), max(1, u.asked))
	}
	c := u.calls[h.xid]
	if c == nil {
		u.r.add(frame, 1, name, "a reply to no call")
		return
	}
	delete(u.calls, h.xid)
	if s.op.invalidates() {
		u.r.Invalidations++
		if !u.mayInvalidate {
			u.r.add(frame, 1, name, "Send with Invalidate to a requester that has not offered it")
		}
		if !c.owns(s.stag) {
			u.r.add(frame, 1, name, "STag %08x is invalidated, which the call did not advertise", s.stag)
		}
	}
	if h.proc == procError {
		u.r.Errors++
		return
	}
	if len(h.reads) != 0 {
		u.r.add(frame, 1, name, "a Read list in a reply")
	}
	u.echo(frame, name, c, h)
}

func (c *call) owns(stag uint32) bool {
	for _, a := range c.reads {
		if a.handle == stag {
			return true
		}
	}
	for _, a := range c.sinks {
		if a.handle == stag {
			return true
		}
	}
	return false
}

// echo compares a reply's lists with its call's (RFC 8166 sections 4.3.2 and 4.3.3).
func (u *rules) echo(frame int, name string, c *call, h *header) {
	if len(h.writes) != len(c.writes) {
		u.r.add(frame, 1, name, "%d Write chunks, the call has %d", len(h.writes), len(c.writes))
		return
	}
	for i := range h.writes {
		u.echoChunk(frame, fmt.Sprintf("%s, Write chunk %d", name, i), c, h.writes[i], c.writes[i])
	}
	if h.hasReply {
		if !c.hasReply {
			u.r.add(frame, 1, name, "a Reply chunk that the call did not offer")
			return
		}
		u.echoChunk(frame, name+", Reply chunk", c, h.reply, c.reply)
	}
	if h.proc == procNoMsg {
		u.r.LongReplies++
		total := 0
		for _, a := range h.reply {
			total += int(a.length)
		}
		if total < 12 {
			u.r.add(frame, 1, name, "RDMA_NOMSG with %d bytes in the Reply chunk", total)
		}
	}
}

func (u *rules) echoChunk(frame int, name string, c *call, got, want []area) {
	if len(got) != len(want) {
		u.r.add(frame, 1, name, "%d segments, the call has %d", len(got), len(want))
		return
	}
	short := false
	for i, g := range got {
		w := want[i]
		if g.handle != w.handle || g.offset != w.offset {
			u.r.add(frame, 1, name, "segment %v is not the call's %v", g, w)
			continue
		}
		if g.length > w.length {
			u.r.add(frame, 1, name, "segment %v is longer than the call's %v", g, w)
		}
		if short && g.length > 0 {
			u.r.add(frame, 1, name, "segment %d is used although the one before it is not full", i)
		}
		short = short || g.length < w.length
		if n := c.written[w]; n != int(g.length) {
			u.r.add(frame, 1, name, "segment %v, but %d bytes were written into it", g, n)
		}
	}
}

// tagged checks an RDMA Write or a part of a Read Response.
func (u *rules) tagged(frame, dir int, s ddp) {
	name := fmt.Sprintf("%v of %d bytes to %08x:%x", s.op, len(s.data), s.stag, s.offset)
	if s.op == opReadResponse {
		u.readResponse(frame, dir, name, s)
		return
	}
	if s.last {
		u.r.Writes++
	}
	if dir == 0 {
		u.r.add(frame, dir, name, "a requester writes into memory of the responder, which has none")
		return
	}
	if len(s.data) == 0 {
		return
	}
	for _, c := range u.calls {
		for _, a := range c.sinks {
			if a.holds(s.stag, s.offset, len(s.data)) {
				c.written[a] += len(s.data)
				return
			}
		}
	}
	u.r.add(frame, dir, name, "no outstanding call has advertised this memory for writing")
}

func (u *rules) readRequest(frame, dir int, b []byte) {
	const size = 28
	u.r.Reads++
	if len(b) != size {
		u.r.add(frame, dir, "RDMA Read Request", "%d bytes", len(b))
		return
	}
	w := &words{b: b}
	sink := area{handle: w.next()}
	sink.offset = uint64(w.next())<<32 | uint64(w.next())
	n, source := int(w.next()), w.next()
	offset := uint64(w.next())<<32 | uint64(w.next())
	name := fmt.Sprintf("RDMA Read Request of %d bytes at %08x:%x", n, source, offset)
	if dir == 0 {
		u.r.add(frame, dir, name, "a requester reads from memory of the responder, which has none")
		return
	}
	u.reads = append(u.reads, pendingRead{sink.handle, sink.offset, n})
	if u.ird >= 0 && len(u.reads) > u.ird {
		u.r.add(frame, dir, name, "%d Reads outstanding, the peer takes %d", len(u.reads), u.ird)
	}
	for _, c := range u.calls {
		for _, a := range c.reads {
			if a.holds(source, offset, n) {
				return
			}
		}
	}
	u.r.add(frame, dir, name, "no outstanding call has advertised this memory for reading")
}

// readResponse checks that responses arrive in the order of their requests (RFC 5040 section 5.5).
func (u *rules) readResponse(frame, dir int, name string, s ddp) {
	if dir == 1 || len(u.reads) == 0 {
		u.r.add(frame, dir, name, "a response to no Read Request")
		return
	}
	p := &u.reads[0]
	if s.stag != p.stag || s.offset != p.offset || len(s.data) > p.left {
		u.r.add(frame, dir, name, "expected are %d bytes to %08x:%x", p.left, p.stag, p.offset)
	}
	p.offset += uint64(len(s.data))
	p.left -= len(s.data)
	if s.last {
		if p.left != 0 {
			u.r.add(frame, dir, name, "the response ends %d bytes early", p.left)
		}
		u.reads = u.reads[1:]
	}
}
