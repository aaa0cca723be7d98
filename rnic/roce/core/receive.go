// A message's receive, from the first packet to the completion.

package core

import (
	"github.com/nfsrdma/nfsrdma/rnic"
	"github.com/nfsrdma/nfsrdma/rnic/roce/packet"
)

// receiving is the responder's message state. UD uses only the receive.
type receiving struct {
	epsn uint32 // the expected PSN (IBA 9.8.2.2.1 [IBU-059])

	// The current message. An abandoned Send leaves its receive held: the receive stays at the
	// queue's head, and the next message overwrites its buffer (class D1 [IBU-161]).
	open  bool
	write bool // the message is an RDMA Write
	at    uint32
	va    uint64 // Write: address of the next byte
	rkey  rnic.STag
	left  uint32   // Write: bytes still to come
	mr    *rnic.MR // the region last written to

	held bool
	wr   rnic.RecvWR // if held: a copy of the oldest receive; its Buf may come from its Pool
}

// holdReceive prepares the oldest posted receive for writing, and reports whether there is a
// receive. The receive stays in its queue until the message is complete.
func (in *receiving) holdReceive(q *rnic.ProviderQP) bool {
	if in.held {
		return true
	}
	wr, ok := q.NextRecv()
	if !ok {
		return false
	}
	if wr.Buf == nil && wr.Pool != nil {
		wr.Buf = wr.Pool.Get()
	}
	in.held, in.wr = true, wr
	return true
}

// abandon discards an incomplete message, and reports whether a message was incomplete.
func (in *receiving) abandon() bool {
	was := in.open
	in.open, in.at, in.left = false, 0, 0
	return was
}

// release returns a held buffer to its pool when the QP ends, before the receive is flushed.
func (in *receiving) release() {
	if in.held && in.wr.Pool != nil {
		in.wr.Pool.Put(in.wr.Buf)
	}
	in.open, in.held, in.wr, in.mr = false, false, rnic.RecvWR{}, nil
}

// completeRecv completes the held receive, exactly one for each message (IBA 9.8.2.2.7 [IBU-123],
// 9.8.3.2.5 [IBU-149]). A full completion queue ends the QP (class G [IBU-169]).
func (qp *QP) completeRecv(p *Packet, op rnic.Opcode, n uint32, src uint32) {
	wc := rnic.WC{ID: qp.in.wr.ID, Op: op, Len: n, Buf: qp.in.wr.Buf, Solicited: p.SE, SrcQP: src}
	if wc.Immediate = carriesImm(p); wc.Immediate {
		wc.Value = uint64(p.Imm)
	}
	if p.Opcode.Carries(packet.ExtIETH) {
		wc.Invalidated = rnic.STag(p.Invalidate)
	}
	qp.q.PopRecv()
	qp.in.held, qp.in.wr = false, rnic.RecvWR{}
	if !qp.q.CompleteRecv(wc) {
		qp.becomeERR(rnic.ErrCQOverrun)
	}
}
