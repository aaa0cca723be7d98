// The states of a QP as InfiniBand has them, and the table of what may follow what.

package core

import (
	"errors"
	"fmt"
	"math/bits"
	"net/netip"
	"strconv"

	"github.com/nfsrdma/nfsrdma/rnic"
	"github.com/nfsrdma/nfsrdma/rnic/roce/packet"
)

// State is where a QP is in its life (IBA 10.3.1).
//
//	 ┌───────┐   ┌──────┐   ┌─────┐   ┌─────┐ ◄──────────  ┌─────┐
//	 │ RESET ├──►│ INIT ├──►│ RTR ├──►│ RTS ├────────────► │ SQD │
//	 └───────┘   └──────┘   └─────┘   └──┬──┘              └─────┘
//	     ▲           │         │         │ ▲
//	     └───────────┴─────────┘         │ │
//	                        a send fails │ │ Modify
//	   any state                (UC, UD) ▼ │
//	       │                         ┌─────┴─┐
//	       │ Modify, or              │  SQE  │
//	       ▼ the QP fails            └───────┘
//	    ┌─────┐
//	    │ ERR │  for good
//	    └─────┘
//
//	         receives may be posted   packets are taken   sends may be posted   sends leave
//	RESET    yes, the verbs say so    no                  no                    no
//	INIT     yes                      no                  no                    no
//	RTR      yes                      yes                 no                    no
//	RTS      yes                      yes                 yes                   yes
//	SQD      yes                      yes                 yes                   the message in hand, to its end
//	SQE      yes                      yes                 no                    no: all of them have been flushed
//	ERR      no                       no                  no                    no: all work has been flushed
//
// From ERR there is no way back to RESET: its QP of the verbs has ended, and a new one is made.
type State uint8

// The states.
const (
	RESET State = iota
	INIT
	RTR // ready to receive
	RTS // ready to send
	SQD // send queue drained, or about to be
	SQE // send queue error
	ERR

	states = int(ERR) + 1
)

var stateNames = [states]string{"RESET", "INIT", "RTR", "RTS", "SQD", "SQE", "ERR"}

// String is the state's name in the architecture.
func (s State) String() string {
	if int(s) < states {
		return stateNames[s]
	}
	return "State(" + strconv.Itoa(int(s)) + ")"
}

// receives reports whether packets are taken.
func (s State) receives() bool { return s == RTR || s == RTS || s == SQD || s == SQE }

// Attr is a set of attributes of a QP.
type Attr uint16

// The attributes. A port has one P_Key and one address, so there are no indexes of tables.
const (
	AttrPKey    Attr = 1 << iota
	AttrQKey         // UD
	AttrAccess       // what the peer may do: RemoteWrite, RemoteRead, RemoteAtomic
	AttrPeer         // address of the peer: the address vector
	AttrPathMTU      // of a connection; UD goes by the port's
	AttrDestQPN
	AttrRQPSN
	AttrSQPSN

	// Of RC alone.
	AttrTimeout      // Attrs.Timeout, RetryCount and RNRRetry
	AttrRNRTimer     // what an RNR NAK of ours asks for
	AttrMaxReads     // ORD: Reads and atomics of ours on the wire
	AttrMaxDestReads // IRD: those of the peer's that are held
	AttrFlowControl  // Attrs.ObeyCredits and GiveCredits
)

var attrNames = [...]string{"P_Key", "Q_Key", "access", "peer address", "path MTU", "destination QPN", "receive PSN", "send PSN",
	"time-out and retries", "RNR timer", "ORD", "IRD", "flow control"}

// String is the names, joined by commas.
func (a Attr) String() (s string) {
	for i, name := range attrNames {
		if a&(1<<i) == 0 {
			continue
		}
		if s != "" {
			s += ", "
		}
		s += name
	}
	return s
}

// Attrs is the values of the attributes.
type Attrs struct {
	PKey   uint16
	QKey   uint32
	Access rnic.Access
	Peer   netip.Addr
	// PeerPort is the UDP port that all packets of the peer come from, 0 if that is not known. It
	// belongs to Peer. Whoever has an account on the peer's host, or on this one if that is the
	// same, can send from its address, but not from its port.
	PeerPort uint16
	PathMTU  int    // 256, 512, 1024, 2048 or 4096 bytes of payload (IBA path MTU [IBU-212])
	DestQPN  uint32 // 24 bits, as are the next two
	RQPSN    uint32 // what the first packet of the peer has
	SQPSN    uint32 // what ours will have

	Timeout    uint8 // 5 bits: 4.096 µs times two to this power; 0: none
	RetryCount uint8 // 3 bits: how often in a row work is sent again, for want of an answer or at the peer's asking
	RNRRetry   uint8 // 3 bits: the same for a receiver that is not ready; 7: for ever
	RNRTimer   uint8 // 5 bits, a code of packet.RNR

	MaxReads, MaxDestReads int // 0 to MaxOutstandingReads

	// End-to-end flow control (IBA 9.7.7.2): whether the peer's acknowledges tell how many receives
	// it has, and ours tell how many there are.
	ObeyCredits, GiveCredits bool
}

// MaxOutstandingReads is the most that ORD and IRD can be.
const MaxOutstandingReads = 255

// A change is one arrow of the drawing: what has to come with it, and what else can.
type change struct {
	allowed   bool
	need, may Attr
}

// changes has a table of arrows for each service, after ibv_modify_qp(3) (verbs (ibv_modify_qp.3)
// UD [IBU-230], verbs (ibv_modify_qp.3) UC [IBU-231]). UD and UC have no time-out, no count of
// retries, and no timer of RNR; RC has no SQE.
var changes = map[packet.Service]*[states][states]change{
	packet.RC: {
		RESET: {INIT: {true, AttrPKey | AttrAccess, 0}},
		INIT: {RESET: {true, 0, 0}, INIT: {true, 0, AttrPKey | AttrAccess},
			RTR: {true, AttrPeer | AttrPathMTU | AttrDestQPN | AttrRQPSN | AttrMaxDestReads | AttrRNRTimer, AttrPKey | AttrAccess | AttrFlowControl}},
		RTR: {RESET: {true, 0, 0}, RTS: {true, AttrSQPSN | AttrTimeout | AttrMaxReads, AttrAccess | AttrRNRTimer}},
		RTS: {RTS: {true, 0, AttrAccess | AttrRNRTimer}, SQD: {true, 0, 0}},
		SQD: {SQD: {true, 0, AttrAccess | AttrRNRTimer | AttrTimeout}, RTS: {true, 0, AttrAccess | AttrRNRTimer}},
	},
	packet.UD: {
		RESET: {INIT: {true, AttrPKey | AttrQKey, 0}},
		INIT:  {RESET: {true, 0, 0}, INIT: {true, 0, AttrPKey | AttrQKey}, RTR: {true, 0, AttrPKey | AttrQKey}},
		RTR:   {RESET: {true, 0, 0}, RTS: {true, AttrSQPSN, AttrQKey}},
		RTS:   {RTS: {true, 0, AttrQKey}, SQD: {true, 0, 0}},
		SQD:   {SQD: {true, 0, AttrPKey | AttrQKey}, RTS: {true, 0, AttrQKey}},
		SQE:   {RTS: {true, 0, AttrQKey}},
	},
	packet.UC: {
		RESET: {INIT: {true, AttrPKey | AttrAccess, 0}},
		INIT: {RESET: {true, 0, 0}, INIT: {true, 0, AttrPKey | AttrAccess},
			RTR: {true, AttrPeer | AttrPathMTU | AttrDestQPN | AttrRQPSN, AttrPKey | AttrAccess}},
		RTR: {RESET: {true, 0, 0}, RTS: {true, AttrSQPSN, AttrAccess}},
		RTS: {RTS: {true, 0, AttrAccess}, SQD: {true, 0, 0}},
		SQD: {SQD: {true, 0, AttrPKey | AttrPeer | AttrAccess}, RTS: {true, 0, AttrAccess}},
		SQE: {RTS: {true, 0, AttrAccess}},
	},
}

// Errors of Modify.
var (
	ErrTransition = errors.New("no such change of state")
	ErrAttr       = errors.New("attributes do not suit the change of state")
	ErrValue      = errors.New("value out of its range")
)

// Modify changes the state and the attributes in set, all or nothing. To ERR there is always a way:
// all sends complete as flushed, and the caller has the rest of the QP end
// (rnic.ProviderQP.Flushed).
func (qp *QP) Modify(to State, set Attr, a Attrs) error {
	qp.mu.Lock()
	defer qp.mu.Unlock()
	if to == ERR {
		qp.becomeERR(rnic.ErrClosed)
		return nil
	}
	if int(to) >= states {
		return fmt.Errorf("%w: to %v", ErrTransition, to)
	}
	c := changes[qp.service][qp.state][to]
	switch {
	case !c.allowed:
		return fmt.Errorf("%w: %v to %v", ErrTransition, qp.state, to)
	case set&c.need != c.need:
		return fmt.Errorf("%w: %v to %v lacks %v", ErrAttr, qp.state, to, c.need&^set)
	case set&^(c.need|c.may) != 0:
		return fmt.Errorf("%w: %v to %v has no use for %v", ErrAttr, qp.state, to, set&^(c.need|c.may))
	}
	if err := a.check(set); err != nil {
		return err
	}
	qp.set(set, &a)
	qp.become(to)
	return nil
}

// check validates the values that are set.
func (a *Attrs) check(set Attr) error {
	wide := func(attr Attr, v uint32) bool { return set&attr != 0 && v > maxPSN }
	switch {
	case set&AttrPathMTU != 0 && !ValidMTU(a.PathMTU):
		return fmt.Errorf("%w: path MTU %d", ErrValue, a.PathMTU)
	case set&AttrPeer != 0 && !a.Peer.IsValid():
		return fmt.Errorf("%w: no peer address", ErrValue)
	case set&AttrTimeout != 0 && (a.Timeout > maxCode || a.RetryCount > maxRetry || a.RNRRetry > maxRetry), set&AttrRNRTimer != 0 && a.RNRTimer > maxCode:
		return fmt.Errorf("%w: time-out %d, retries %d, %d, RNR timer %d", ErrValue, a.Timeout, a.RetryCount, a.RNRRetry, a.RNRTimer)
	case set&AttrMaxReads != 0 && uint(a.MaxReads) > MaxOutstandingReads, set&AttrMaxDestReads != 0 && uint(a.MaxDestReads) > MaxOutstandingReads:
		return fmt.Errorf("%w: ORD %d, IRD %d", ErrValue, a.MaxReads, a.MaxDestReads)
	case wide(AttrDestQPN, a.DestQPN), wide(AttrRQPSN, a.RQPSN), wide(AttrSQPSN, a.SQPSN): // IBA 9.8.2.1.1 [IBU-040]
		return fmt.Errorf("%w: more than 24 bits", ErrValue)
	}
	return nil
}

// set takes over the attributes. The caller holds mu.
func (qp *QP) set(set Attr, a *Attrs) {
	if set&AttrPKey != 0 {
		qp.attrs.PKey = a.PKey
	}
	if set&AttrQKey != 0 {
		qp.attrs.QKey = a.QKey
		if qp.num == GSI {
			qp.attrs.QKey = GSIQKey // whatever is asked for (IBA 9.6 [IBU-180])
		}
	}
	if set&AttrAccess != 0 {
		qp.attrs.Access = a.Access
	}
	if set&AttrPeer != 0 {
		qp.attrs.Peer, qp.attrs.PeerPort = a.Peer.Unmap().WithZone(""), a.PeerPort
	}
	if set&AttrPathMTU != 0 {
		qp.attrs.PathMTU = a.PathMTU
	}
	if set&AttrDestQPN != 0 {
		qp.attrs.DestQPN = a.DestQPN
	}
	if set&AttrRQPSN != 0 {
		qp.in.epsn = a.RQPSN
		qp.res.last, qp.res.lastValid = (a.RQPSN-1)&maxPSN, true
	}
	if set&AttrSQPSN != 0 {
		qp.out.psn = a.SQPSN
		qp.req.begin(a.SQPSN, qp.attrs.PathMTU, qp.attrs.ObeyCredits)
	}
	if set&AttrTimeout != 0 {
		qp.attrs.Timeout, qp.attrs.RetryCount, qp.attrs.RNRRetry = a.Timeout, a.RetryCount, a.RNRRetry
	}
	if set&AttrRNRTimer != 0 {
		qp.attrs.RNRTimer = a.RNRTimer
	}
	if set&AttrMaxReads != 0 {
		qp.attrs.MaxReads = a.MaxReads
	}
	if set&AttrMaxDestReads != 0 {
		qp.attrs.MaxDestReads = a.MaxDestReads
		qp.res.init(a.MaxDestReads)
	}
	if set&AttrFlowControl != 0 {
		qp.attrs.ObeyCredits, qp.attrs.GiveCredits = a.ObeyCredits, a.GiveCredits
	}
}

// The largest codes of 5 and of 3 bits; of RNRRetry the latter means for ever.
const (
	maxCode  = 31
	maxRetry = 7
)

// become is the one writer of the state beside becomeSQE and becomeERR. The caller holds mu.
func (qp *QP) become(to State) {
	qp.state = to
	switch to {
	case RTS:
		qp.sq.Open()
	case RESET:
		qp.in.release() // of a message that came before the QP was to be given up
		// And what came too early: the next peer's PSNs can be the same.
		qp.res.early.clear()
		qp.res.clear()
		qp.res.told, qp.res.empty, qp.res.gap, qp.res.fault, qp.res.msn = false, false, gap{}, nil, 0
	}
}

// becomeSQE stops the send queue after work that could not be sent: what was posted is flushed,
// what comes is taken as before (9.9.3 [reconstructed] class requester [IBU-171]). The caller holds
// mu.
func (qp *QP) becomeSQE() {
	qp.state = SQE
	qp.out.drop()
	qp.sq.Flush(nil)
}

// becomeERR ends the QP; the first cause is kept. The caller holds mu.
func (qp *QP) becomeERR(cause error) {
	if qp.state == ERR {
		return
	}
	// Before work completes as flushed: who polls that finds the cause.
	if qp.state >= RTS {
		qp.q.Fail(cause, false)
	}
	qp.state, qp.cause = ERR, cause
	qp.out.drop()
	qp.res.clear()
	qp.res.early.clear()
	qp.in.release()
	qp.sq.Flush(nil) // all sends; the receives are the verbs' to flush (verbs flush [IBU-242])
}

// Ended is why the QP is in ERR, nil if it is not.
func (qp *QP) Ended() error {
	qp.mu.Lock()
	defer qp.mu.Unlock()
	return qp.cause
}

// Query is the state and the attributes; RQPSN is the PSN that is expected, SQPSN that of the next
// packet.
func (qp *QP) Query() (State, Attrs) {
	qp.mu.Lock()
	defer qp.mu.Unlock()
	a := qp.attrs
	a.RQPSN, a.SQPSN = qp.in.epsn, qp.out.psn
	return qp.state, a
}

// Path MTUs, in bytes of payload.
const (
	minMTU = 256
	MaxMTU = 4096

	// headerRoom is what a path MTU leaves of a link's for the headers before the payload and
	// after it, as Linux rxe has it.
	headerRoom = 80
)

// ValidMTU reports one of the five path MTUs (IBA path MTU [IBU-212]).
func ValidMTU(n int) bool { return n >= minMTU && n <= MaxMTU && n&(n-1) == 0 }

// PathMTU is the largest path MTU for a link whose packets have at most linkMTU bytes, IP header
// included; 0 if there is none (IBA path MTU [IBU-213]).
func PathMTU(linkMTU int) int {
	n := min(linkMTU-headerRoom, MaxMTU)
	if n < minMTU {
		return 0
	}
	return 1 << (bits.Len(uint(n)) - 1)
}
