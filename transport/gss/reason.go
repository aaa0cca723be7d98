// Why a server refuses contexts and calls, for its counts.

package gss

import "sync/atomic"

// A Reason is why a server refused a context, or a call in one.
type Reason uint8

// The reasons. A mechanism reports those for its tokens by Error.Reason.
const (
	ReasonOther         Reason = iota // see the log
	ReasonToken                       // the token is malformed, or another mechanism's
	ReasonKey                         // the server has no key for the ticket
	ReasonTicketTime                  // the ticket has expired, or is not valid yet
	ReasonClock                       // the client's clock differs by too much
	ReasonReplay                      // the token was used before
	ReasonAuthenticator               // the token does not prove that its sender owns the ticket
	ReasonRealm                       // no KDC has checked the realms that the ticket passed
	ReasonUnsupported                 // the token asks for a feature or a cipher that is missing here
	ReasonUser                        // the principal is no user of this server
	ReasonCredential                  // the credential does not decode, or contradicts its call
	ReasonUnknown                     // the server has no such context: it restarted, or needed room
	ReasonExpired                     // the ticket has expired since the context's creation
	ReasonIdle                        // the context was unused for too long
	ReasonVerifier                    // the header does not match its verifier
	ReasonSequence                    // the sequence number was used before, or all are used up
	ReasonBody                        // arguments do not match their protection
	reasons
)

var reasonNames = [reasons]string{
	ReasonOther:         "other",
	ReasonToken:         "token",
	ReasonKey:           "key",
	ReasonTicketTime:    "ticket_time",
	ReasonClock:         "clock",
	ReasonReplay:        "replay",
	ReasonAuthenticator: "authenticator",
	ReasonRealm:         "realm",
	ReasonUnsupported:   "unsupported",
	ReasonUser:          "user",
	ReasonCredential:    "credential",
	ReasonUnknown:       "context_unknown",
	ReasonExpired:       "context_expired",
	ReasonIdle:          "context_idle",
	ReasonVerifier:      "verifier",
	ReasonSequence:      "sequence",
	ReasonBody:          "body",
}

// String returns words joined by underscores, such as "ticket_time".
func (r Reason) String() string {
	if r < reasons {
		return reasonNames[r]
	}
	return reasonNames[ReasonOther]
}

// Reasons lists all reasons.
func Reasons() []Reason {
	list := make([]Reason, reasons)
	for r := range list {
		list[r] = Reason(r)
	}
	return list
}

// failureCounts counts refused contexts and calls by reason. The zero value is ready.
type failureCounts [reasons]atomic.Uint64

func (c *failureCounts) count(r Reason) {
	if r >= reasons {
		r = ReasonOther
	}
	c[r].Add(1)
}

// figures returns the counts.
func (c *failureCounts) figures() map[Reason]uint64 {
	all := make(map[Reason]uint64, reasons)
	for r := range c {
		all[Reason(r)] = c[r].Load()
	}
	return all
}
