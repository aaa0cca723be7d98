// The peer-to-peer model of RFC 6581: a first message by which an initiator says that it is ready.

package iwarp

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/nfsrdma/nfsrdma/rnic"
	"github.com/nfsrdma/nfsrdma/rnic/iwarp/mpa"
	"github.com/nfsrdma/nfsrdma/rnic/iwarp/term"
)

// RTR is a set of kinds of ready-to-receive messages, to be or'ed. The message lets the responder
// send: a responder MUST NOT send before the initiator's first FPDU (RFC 5044 §7.1.2), and if the
// initiator's ULP waits for the peer, it has no other FPDU to send (RFC 6581 §5 and §9.2). No kind
// has payload.
type RTR uint8

// The kinds. An RDMA Write costs neither end anything; an RDMA Read takes one of the ORD and of
// the peer's IRD and is answered; a Send takes a receive of the peer's ULP.
const (
	RTRWrite RTR = 1 << iota
	RTRRead
	RTRSend

	RTRAny = RTRWrite | RTRRead | RTRSend
)

// String returns the kinds, joined by "|"; "none" for the client-server model.
func (k RTR) String() string {
	if k == 0 {
		return "none"
	}
	var has []string
	for _, kind := range []struct {
		bit  RTR
		name string
	}{{RTRWrite, "Write"}, {RTRRead, "Read"}, {RTRSend, "Send"}} {
		if k&kind.bit != 0 {
			has = append(has, kind.name)
			k &^= kind.bit
		}
	}
	if k != 0 {
		has = append(has, fmt.Sprintf("%#x", uint8(k)))
	}
	return strings.Join(has, "|")
}

var (
	errRTR     = term.New(term.MPARTR, "the peer and we have no ready-to-receive message in common")
	errRTRKind = errors.New("rnic: not a kind of ready-to-receive message")
)

// offer puts the kinds into a frame (RFC 6581 §9.2 [R6581-039 R6581-040]); no kind means the
// client-server model.
func (k RTR) offer(e *mpa.Enhanced) {
	e.PeerToPeer = k != 0
	e.RTRWrite, e.RTRRead, e.RTRSend = k&RTRWrite != 0, k&RTRRead != 0, k&RTRSend != 0
}

// choose returns the cheapest kind in k that the Reply allows too, or 0. A Read needs an ORD of at
// least one, as limited by the Reply (RFC 6581 §9.3 [R6581-054]).
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

// answer returns the kind named to the initiator by a responder that takes the kinds in k (0: any):
// the cheapest common kind, or else one of k (RFC 6581 §9.2 [R6581-046]).
func (k RTR) answer(req *mpa.Enhanced) RTR {
	if k == 0 {
		k = RTRAny
	}
	if both := k.choose(req, 1); both != 0 {
		return both
	}
	return k & -k
}

// workRequest returns the message of one kind. The STag of a message without bytes is not checked
// (RFC 6581 §9.2 [R6581-053]); a Read without a sink names STag 0.
func (k RTR) workRequest() rnic.SendWR {
	const anySTag = 1
	switch k {
	case RTRWrite:
		return rnic.SendWR{Op: rnic.OpWrite, RemoteSTag: anySTag}
	case RTRRead:
		return rnic.SendWR{Op: rnic.OpRead, RemoteSTag: anySTag}
	}
	return rnic.SendWR{Op: rnic.OpSend}
}

// sayReady lets the queued RTR leave, if a peer that spoke first has not done so, and waits until
// TCP has it; for a Read, until the peer has answered it. After an error the QP has ended.
func (s *stream) sayReady(ctx context.Context, opened <-chan struct{}) error {
	if s.work.Begin() {
		s.tx.runInline(inlineBytes)
	}
	done := s.q.QP().Done()
	select {
	case <-opened:
		return nil
	case <-done:
	case <-ctx.Done():
		s.Abort(ctx.Err())
		<-done
	}
	select {
	case <-opened: // the RTR was through before the end, which Done and Err report
		return nil
	default:
		return fmt.Errorf("rnic: our first message was not answered: %w", s.q.QP().Err())
	}
}
