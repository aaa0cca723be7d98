// The receive that a message goes into, from its first packet to its completion.

package core

import (
	"github.com/nfsrdma/nfsrdma/rnic"
	"github.com/nfsrdma/nfsrdma/rnic/roce/packet"
)

// receiving is the responder's side of a QP. UD uses the receive alone.
type receiving struct {
	epsn uint32 // the PSN that is expected (IBA 9.8.2.2.1 [IBU-059])

	// The message that is being received. A Send that is abandoned leaves its receive held: it
	// stays at the head of the queue, and the next message begins in it anew (class D1 [IBU-161]).
	open  bool
	write bool // it is an RDMA Write
	at    uint32
	va    uint64 // Write: where the next byte goes
	rkey  rnic.STag
	left  uint32   // Write: bytes that are to come
	mr    *rnic.MR // the last one written to

	held bool
	wr   rnic.RecvWR // when held: a copy of the oldest receive, whose Buf may be of its Pool
}

// hold makes the oldest posted receive ready to be written to, and reports whether there is one. It
// takes it from no queue: that is done when the message is whole.
func (in *receiving) hold(q *rnic.ProviderQP) bool {
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

// abandon forgets a message that is not whole, and reports whether there was one.
func (in *receiving) abandon() bool {
	was := in.open
	in.open, in.at, in.left = false, 0, 0
	return was
}

// release returns what is held when the QP ends: its receive will be flushed.
func (in *receiving) release() {
	if in.held && in.wr.Pool != nil {
		in.wr.Pool.Put(in.wr.Buf)
	}
	in.open, in.held, in.wr, in.mr = false, false, rnic.RecvWR{}, nil
}

// completeRecv completes the held receive: exactly one for a message (IBA 9.8.2.2.7 [IBU-123],
// 9.8.3.2.5 [IBU-149]). A completion queue that is full ends the QP (class G [IBU-169]).
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
