// Events, and the errors that end a connection.

package cm

import (
	"errors"
	"net/netip"
	"strconv"

	"github.com/nfsrdma/nfsrdma/rnic/roce/mad"
)

// EventKind is the kind of an event.
type EventKind uint8

// The events.
const (
	Requested   EventKind = iota // passive: a REQ has come; Accept or Reject it
	Replied                      // active: the REP has come; Confirm it, or Disconnect
	Established                  // both sides: the connection is complete
	Ended                        // the Conn has ended; Err is the reason, nil after Disconnect
	Released                     // the last event: the Conn is invalid, and its QPN free
	Asked                        // passive: a SIDR_REQ has come; Answer it
	Resolved                     // active: the SIDR_REP has come

	eventKinds = int(Resolved) + 1
)

var eventNames = [eventKinds]string{"requested", "replied", "established", "ended", "released", "asked", "resolved"}

func (k EventKind) String() string {
	if int(k) < eventKinds {
		return eventNames[k]
	}
	return "EventKind(" + strconv.Itoa(int(k)) + ")"
}

// An Event is reported to the owner once.
type Event struct {
	Kind EventKind
	Conn *Conn

	// Remote is the peer's queue pair, for Requested and Replied. For Resolved Remote has only QPN
	// and QKey.
	Remote QP

	// Source, for Requested and Asked, is the request's source address, and the port stated by the
	// peer; 0: not an IP service.
	Source netip.AddrPort

	// Private is the data from the peer's program, without the IP CM header, zero-padded to the
	// field's size. The owner may keep it.
	Private []byte

	// Err, for Ended, is an error of this package, a *RejectError, a *SIDRError, or nil.
	Err error
}

// Reasons for a connection's end.
var (
	ErrTimeout      = errors.New("the peer does not answer")
	ErrEvicted      = errors.New("too many requests for connections: this one made room for another")
	ErrDisconnected = errors.New("disconnected by the peer")
	ErrForgotten    = errors.New("the peer does not know the connection any more: it has been started anew")
	ErrSuperseded   = errors.New("the peer has made another connection with the same queue pair")
)

// A RejectError is the peer's REJ.
type RejectError struct {
	Reason  mad.Reason
	Info    []byte // for some reasons: an acceptable alternative
	Private []byte // for RejConsumer: data from the peer's program
}

func (e *RejectError) Error() string { return "the peer refuses: " + e.Reason.String() }

// A SIDRError is a negative SIDR_REP.
type SIDRError struct {
	Status  mad.SIDRStatus
	Private []byte
}

func (e *SIDRError) Error() string { return "the peer refuses: " + e.Status.String() }
