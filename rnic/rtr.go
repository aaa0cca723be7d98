// The peer-to-peer model of RFC 6581: a first message by which an initiator says that it is ready.

package rnic

import (
	"context"
	"fmt"

	"github.com/nfsrdma/nfsrdma/rnic/mpa"
	"github.com/nfsrdma/nfsrdma/rnic/term"
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
)

var errRTR = term.New(term.MPARTR, "the peer and we have no ready-to-receive message in common")

// offer puts the kinds into a Request (R6581-039, R6581-040).
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
// back until the peer has turned to FPDUs. The caller holds mu.
func (sq *sendQueue) pushRTR(k RTR) {
	wr := k.workRequest()
	sq.push(&wr, nil)
	sq.at(sq.head).ours = true
	sq.gated, sq.opened = true, make(chan struct{})
}

// sayReady sends the RTR, and returns when it is with TCP; if it is a Read, when it has
// been answered.
func (qp *QP) sayReady(ctx context.Context) error {
	sq := &qp.sq
	sq.mu.Lock()
	sq.gated = false
	opened, mine := sq.opened, sq.claim()
	sq.mu.Unlock()
	if opened == nil { // the peer spoke first, which let it go
		return qp.Err()
	}
	if mine {
		qp.tx.runInline()
	}
	select {
	case <-opened:
		return qp.Err()
	case <-qp.done:
		return qp.Err()
	case <-ctx.Done():
		qp.Abort(ctx.Err())
		return fmt.Errorf("rnic: the peer does not answer our first message: %w", ctx.Err())
	}
}
