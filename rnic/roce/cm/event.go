// What has happened: events, and the errors that a connection ends with.

package cm

import (
	"errors"
	"net/netip"
	"strconv"

	"github.com/nfsrdma/nfsrdma/rnic/roce/mad"
)

// EventKind is what has happened to a connection.
type EventKind uint8

// The events.
const (
	Requested   EventKind = iota // passive: a REQ has come; Accept or Reject it
	Replied                      // active: the REP has come; Confirm it, or Disconnect
	Established                  // both: the connection is made
	Ended                        // it is over, or was never made; Err says why, nil after a Disconnect of one's own
	Released                     // the last event: the Conn is nothing any more, and its QPN is free
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

// An Event is told to the owner once.
type Event struct {
	Kind EventKind
	Conn *Conn

	// Remote is the peer's queue pair, with Requested and Replied. With Resolved its QPN and QKey
	// count.
	Remote QP

	// Source is who asks, with Requested and Asked: the address that the request came from, and the
	// port that the peer says it has, 0 if the service is not one of IP.
	Source netip.AddrPort

	// Private is what the peer's program has sent along, without the IP CM header, to the end of
	// its field: what the program has not filled is zero. It is the owner's.
	Private []byte

	// Err is why, with Ended: one of the errors below, a *RejectError, a *SIDRError, or nil.
	Err error
}

// Why a connection has ended.
var (
	ErrTimeout      = errors.New("the peer does not answer")
	ErrEvicted      = errors.New("too many requests for connections: this one made room for another")
	ErrDisconnected = errors.New("disconnected by the peer")
	ErrForgotten    = errors.New("the peer does not know the connection any more: it has been started anew")
	ErrSuperseded   = errors.New("the peer has made another connection with the same queue pair")
)

// A RejectError is the peer's refusal.
type RejectError struct {
	Reason  mad.Reason
	Info    []byte // what would do instead, for some reasons
	Private []byte // of RejConsumer, the words of the peer's program
}

func (e *RejectError) Error() string { return "the peer refuses: " + e.Reason.String() }

// A SIDRError is the peer's answer that there is no queue pair.
type SIDRError struct {
	Status  mad.SIDRStatus
	Private []byte
}

func (e *SIDRError) Error() string { return "the peer refuses: " + e.Status.String() }
