// The peer-to-peer model of RFC 6581: a first message by which an initiator says that it is ready.

package rnic

import (
	"context"
	"errors"
	"fmt"

	"github.com/nfsrdma/nfsrdma/rnic/iwarp/mpa"
	"github.com/nfsrdma/nfsrdma/rnic/iwarp/term"
)

// RTR is kinds of the ready-to-receive message, to be or'ed. It opens the way back: a
// responder may send nothing before the first FPDU of the initiator (RFC 5044 §7.1.2),
// and an initiator whose ULP waits for the peer to speak has none but this
// (RFC 6581 §5 and §9.2). None of them has payload.
type RTR uint8

// The kinds. An RDMA Write costs nobody anything; an RDMA Read takes one of the ORD and of
// the peer's IRD and is answered; a Send takes a receive of the peer's ULP.
const (
	RTRWrite RTR = 1 << iota
	RTRRead
	RTRSend

	RTRAny = RTRWrite | RTRRead | RTRSend
)

var (
	errRTR     = term.New(term.MPARTR, "the peer and we have no ready-to-receive message in common")
	errRTRKind = errors.New("rnic: not a kind of ready-to-receive message")
)

// offer puts the kinds into a frame (R6581-039, R6581-040); none is the client-server model.
func (k RTR) offer(e *mpa.Enhanced) {
	e.PeerToPeer = k != 0
	e.RTRWrite, e.RTRRead, e.RTRSend = k&RTRWrite != 0, k&RTRRead != 0, k&RTRSend != 0
}

// choose returns the cheapest of the kinds that the Reply allows too, or none. A Read
// needs one of the ORD, as the Reply left it (R6581-054).
func (k RTR) choose(rep *mpa.Enhanced, ord int) RTR {
	switch {
	case k&RTRWrite != 0 && rep.RTRWrite:
		return RTRWrite
	case k&RTRRead != 0 && rep.RTRRead && ord > 0:
		return RTRRead
	case k&RTRSend != 0 && rep.RTRSend:
		return RTRSend
	}
	return 0
}

// answer is the kind that a responder which takes k, or any when k is 0, names to
// the initiator: the cheapest in common, or else one of its own (R6581-046).
func (k RTR) answer(req *mpa.Enhanced) RTR {
	if k == 0 {
		k = RTRAny
	}
	if both := k.choose(req, 1); both != 0 {
		return both
	}
	return k & -k
}

// workRequest is the message of one kind. The STag of what has no octets is not judged
// (R6581-053); a Read without a sink names STag 0.
func (k RTR) workRequest() SendWR {
	const anySTag = 1
	switch k {
	case RTRWrite:
		return SendWR{Op: OpWrite, RemoteSTag: anySTag}
	case RTRRead:
		return SendWR{Op: OpRead, RemoteSTag: anySTag}
	}
	return SendWR{Op: OpSend}
}

// pushRTR puts the message in front of all that the ULP will post, and holds all of it
// back until the peer has turned to FPDUs. The channel is closed when the message is
// done, and stays open when it was flushed. The caller holds mu.
func (sq *sendQueue) pushRTR(k RTR) <-chan struct{} {
	wr := k.workRequest()
	sq.push(&wr, nil)
	sq.at(sq.head).ours = true
	sq.gated, sq.opened = true, make(chan struct{})
	return sq.opened
}

// begun notes the end of the RTR.
func (sq *sendQueue) begun(e *sendEntry) {
	if e.status == WCSuccess {
		close(sq.opened)
	}
	sq.opened = nil
}

// sayReady sends the RTR, if a peer that spoke first has not let it go, and returns when
// it is with TCP; if it is a Read, when it has been answered. Without that the QP has ended.
func (qp *QP) sayReady(ctx context.Context, opened <-chan struct{}) error {
	sq := &qp.sq
	sq.mu.Lock()
	sq.gated = false
	mine := sq.claim()
	sq.mu.Unlock()
	if mine {
		qp.tx.runInline()
	}
	select {
	case <-opened:
		return nil
	case <-qp.done:
	case <-ctx.Done():
		qp.Abort(ctx.Err())
		<-qp.done
	}
	select {
	case <-opened: // all was well when the end came: Done and Err tell of it, as ever
		return nil
	default:
		return fmt.Errorf("rnic: our first message was not answered: %w", qp.Err())
	}
}
