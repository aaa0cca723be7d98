// InfiniBand's QP states, and the table of permitted changes.

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

// State is a QP's state (IBA 10.3.1).
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
//	    │ ERR │  permanently
//	    └─────┘
//
//	         receives may be posted   packets are taken   sends may be posted   sends leave
//	RESET    yes, the verbs say so    no                  no                    no
//	INIT     yes                      no                  no                    no
//	RTR      yes                      yes                 no                    no
//	RTS      yes                      yes                 yes                   yes
//	SQD      yes                      yes                 yes                   current message
//	SQE      yes                      yes                 no                    no: flushed
//	ERR      no                       no                  no                    no: flushed
//
// ERR does not lead back to RESET: the rnic.QP has ended, and the program makes a new QP.
type State uint8

// The states.
const (
	RESET State = iota
	INIT
	RTR // ready to receive
	RTS // ready to send
	SQD // send queue drained or draining
	SQE // send queue error
	ERR

	states = int(ERR) + 1
)

var stateNames = [states]string{"RESET", "INIT", "RTR", "RTS", "SQD", "SQE", "ERR"}

// String returns the state's architectural name.
func (s State) String() string {
	if int(s) < states {
		return stateNames[s]
	}
	return "State(" + strconv.Itoa(int(s)) + ")"
}

// receives reports whether the QP takes packets.
func (s State) receives() bool { return s == RTR || s == RTS || s == SQD || s == SQE }

// Attr is a set of attributes of a QP.
type Attr uint16

// The attributes. A port has one P_Key and one address, so there are no table indexes.
const (
	AttrPKey    Attr = 1 << iota
	AttrQKey         // UD
	AttrAccess       // the peer's rights: RemoteWrite, RemoteRead, RemoteAtomic
	AttrPeer         // the peer's address: the address vector
	AttrPathMTU      // path MTU of a connection; UD uses the port's
	AttrDestQPN
	AttrRQPSN
	AttrSQPSN

	// Only for RC.
	AttrTimeout      // Attrs.Timeout, RetryCount and RNRRetry
	AttrRNRTimer     // the delay that this side's RNR NAKs request
	AttrMaxReads     // ORD: this side's Reads and atomics in flight
	AttrMaxDestReads // IRD: the peer's Reads and atomics
	AttrFlowControl  // Attrs.ObeyCredits and GiveCredits
)

var attrNames = [...]string{"P_Key", "Q_Key", "access", "peer address", "path MTU", "destination QPN", "receive PSN", "send PSN",
	"time-out and retries", "RNR timer", "ORD", "IRD", "flow control"}

// String joins the names by commas.
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

// Attrs has the attribute values.
type Attrs struct {
	PKey   uint16
	QKey   uint32
	Access rnic.Access
	Peer   netip.Addr
	// PeerPort is the UDP source port of all the peer's packets; 0 if unknown. It belongs to Peer.
	// Any user on the peer's host, which may be this host, can send from the peer's address, but
	// not from that port.
	PeerPort uint16
	PathMTU  int    // 256, 512, 1024, 2048 or 4096 bytes of payload (IBA path MTU [IBU-212])
	DestQPN  uint32 // 24 bits, as are the next two
	RQPSN    uint32 // PSN of the peer's first packet
	SQPSN    uint32 // PSN of our first packet

	Timeout    uint8 // 5 bits: 4.096 µs × 2^Timeout; 0: none
	RetryCount uint8 // 3 bits: most consecutive retransmissions, after a timeout or a NAK
	RNRRetry   uint8 // 3 bits: retries after RNR NAKs; 7: unlimited
	RNRTimer   uint8 // 5 bits, a code of packet.RNR

	MaxReads, MaxDestReads int // 0 to MaxOutstandingReads

	// End-to-end flow control (IBA 9.7.7.2): ObeyCredits if the peer's acknowledges carry its
	// receive count, GiveCredits if ours carry ours.
	ObeyCredits, GiveCredits bool
}

// MaxOutstandingReads is the largest ORD and IRD.
const MaxOutstandingReads = 255

// A change is a permitted change of State, with its required and optional attributes.
type change struct {
	allowed   bool
	need, may Attr
}

// changes has each service's permitted changes, after ibv_modify_qp(3) (verbs (ibv_modify_qp.3) UD
// [IBU-230], verbs (ibv_modify_qp.3) UC [IBU-231]). UD and UC have no timeout, retry count or RNR
// timer; RC has no SQE.
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

// Errors returned by Modify.
var (
	ErrTransition = errors.New("no such change of state")
	ErrAttr       = errors.New("attributes do not suit the change of state")
	ErrValue      = errors.New("value out of its range")
)

// Modify changes the state and the attributes in set, all or nothing. ERR is always permitted:
// all sends complete as flushed, and the caller ends the rest of the QP
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

// check validates the attributes in set.
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
	// IBA 9.8.2.1.1 [IBU-040].
	case wide(AttrDestQPN, a.DestQPN), wide(AttrRQPSN, a.RQPSN), wide(AttrSQPSN, a.SQPSN):
		return fmt.Errorf("%w: more than 24 bits", ErrValue)
	}
	return nil
}

// set copies the attributes. The caller holds mu.
func (qp *QP) set(set Attr, a *Attrs) {
	if set&AttrPKey != 0 {
		qp.attrs.PKey = a.PKey
	}
	if set&AttrQKey != 0 {
		qp.attrs.QKey = a.QKey
		if qp.num == GSI {
			qp.attrs.QKey = GSIQKey // overrides any value (IBA 9.6 [IBU-180])
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

// The largest codes of 5 and 3 bits; as RNRRetry, maxRetry means unlimited.
const (
	maxCode  = 31
	maxRetry = 7
)

// Only become, becomeSQE and becomeERR write the state. The caller holds mu.
func (qp *QP) become(to State) {
	qp.state = to
	switch to {
	case RTS:
		qp.sq.Open()
	case RESET:
		qp.in.release() // a message before the reset may hold a buffer
		// Also drop out-of-order requests: the next peer's PSNs can be the same.
		qp.res.reorder.clear()
		qp.res.clear()
		qp.res.nakSent, qp.res.empty, qp.res.gap, qp.res.fault, qp.res.msn = false, false, gap{}, nil, 0
	}
}

// becomeSQE stops the send queue after a failed send: it flushes posted work; packets are still
// taken (9.9.3 [reconstructed] class requester [IBU-171]). The caller holds mu.
func (qp *QP) becomeSQE() {
	qp.state = SQE
	qp.out.drop()
	qp.sq.Flush(nil)
}

// becomeERR ends the QP and keeps the first cause. The caller holds mu.
func (qp *QP) becomeERR(cause error) {
	if qp.state == ERR {
		return
	}
	// Before the flush: a poller that sees flushed work must find the cause.
	if qp.state >= RTS {
		qp.q.Fail(cause, false)
	}
	qp.state, qp.cause = ERR, cause
	qp.out.drop()
	qp.res.clear()
	qp.res.reorder.clear()
	qp.in.release()
	qp.sq.Flush(nil) // flushes sends only; package rnic flushes receives (verbs flush [IBU-242])
}

// Ended returns the reason for ERR, or nil in other states.
func (qp *QP) Ended() error {
	qp.mu.Lock()
	defer qp.mu.Unlock()
	return qp.cause
}

// Query returns the state and attributes; RQPSN is the expected PSN, SQPSN the next packet's.
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

	// headerRoom is the part of a link MTU reserved for headers and trailers, as in Linux rxe.
	headerRoom = 80
)

// ValidMTU reports whether n is one of the five path MTUs (IBA path MTU [IBU-212]).
func ValidMTU(n int) bool { return n >= minMTU && n <= MaxMTU && n&(n-1) == 0 }

// PathMTU returns the largest path MTU for a link MTU in bytes, IP header included; 0 if no path
// MTU fits (IBA path MTU [IBU-213]).
func PathMTU(linkMTU int) int {
	n := min(linkMTU-headerRoom, MaxMTU)
	if n < minMTU {
		return 0
	}
	return 1 << (bits.Len(uint(n)) - 1)
}
