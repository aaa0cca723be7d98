// Security flavors beyond AUTH_SYS: the seam between calls and RPCSEC_GSS.

package transport

import (
	"context"
	"time"

	"github.com/nfsrdma/nfsrdma/xdr"
	"github.com/nfsrdma/nfsrdma/xdr/oncrpc"
)

// # Where a flavor takes part in a call
//
//	server (Call.Security)                          client (outCall.secure)
//
//	receive loop, in the order of arrival           Session.Begin: a context, a number
//	    header decoded                                  │
//	    │                                           header encoded
//	SecurityFlavor.Authenticate ──► deny, drop          Protection.Credential, Sign
//	    │ Cred, Secured                             Protection.Reserve
//	route ──► PROG_UNAVAIL ... with a verifier      arguments encoded
//	    │                                           Protection.Seal
//	no chunks if the service covers the body            │
//	Protection.Open ──► GARBAGE_ARGS                 send, wait for the reply
//	    │                                               │
//	Authorize, lane, duplicate request cache        header decoded
//	    │                                           Protection.Check ──► error
//	startReply: Protection.Verifier, Reserve        Protection.Open ──► error
//	procedure: results encoded                      results decoded
//	    │                                               │
//	cache stores the unprotected results            Session.End ──► once more with a new context
//	Protection.Seal, reply
//
// A control message passes Authenticate and then runs the Procedure that Authenticate has returned,
// instead of the program's procedure 0. So the message gets a worker and a place in its
// connection's limits like any other call.

// A Service is the part of a call that is protected (RFC 2203 §5).
type Service uint32

// The services, as on the wire.
const (
	ServiceNone      Service = 1 // header only: the caller is authenticated
	ServiceIntegrity Service = 2 // arguments and results cannot be changed
	ServicePrivacy   Service = 3 // nor can they be read
)

// CoversBody reports whether arguments and results are protected. Then no part of them may travel
// as a chunk (RFC 8166 §6.1).
func (s Service) CoversBody() bool { return s >= ServiceIntegrity }

// Secured is the security state of one call. It has no context of its own: By is shared by many
// calls. It also has scratch memory for By, which its Call keeps for later calls.
type Secured struct {
	By      Protection // nil: AUTH_NONE or AUTH_SYS
	Seq     uint32
	Service Service
	Control uint32 // kind of control message; 0: data

	Parts  [][]byte // scratch
	Token  []byte   // scratch
	Sealed []byte   // scratch
	Word   [4]byte  // scratch
}

// clear ends the use for one call, and keeps the scratch memory.
func (s *Secured) clear() {
	clear(s.Parts[:cap(s.Parts)])
	*s = Secured{Parts: s.Parts[:0], Token: s.Token[:0], Sealed: s.Sealed[:0]}
}

// covers reports whether the call's arguments and results are protected.
func (s *Secured) covers() bool { return s.By != nil && s.Service.CoversBody() }

// A Memory supplies memory for one message. nil: none is available.
type Memory interface{ Buffer(n int) []byte }

// A Protection is one end of an established security context. It is safe for concurrent use; each
// call passes its own Secured. Results may alias the Secured's scratch memory, until its next use.
type Protection interface {
	// Verifier returns the verifier's body for an accepted reply.
	Verifier(s *Secured) []byte
	// Reserve appends to e the protected body's start, before arguments or results.
	Reserve(s *Secured, e *xdr.Encoder)
	// Seal protects the bytes and items in e after offset at, where Reserve was called. Long ones
	// are encrypted into one buffer from m, which becomes an item; nothing else copies items.
	Seal(s *Secured, e *xdr.Encoder, at int, m Memory) error
	// Open checks the rest of d and resets d to the plain arguments or results, which may be
	// decrypted in place.
	Open(s *Secured, d *xdr.Decoder) error
	// Overhead is the largest difference between the sizes of protected and plain body, plus the
	// size of a verifier's body, in bytes.
	Overhead(s *Secured) int

	// Credential returns the credential's body. For clients, like Sign and Check.
	Credential(s *Secured) []byte
	// Sign returns the verifier's body for a call header up to the end of the credential.
	Sign(s *Secured, head []byte) []byte
	// Check checks the verifier's body of an accepted reply.
	Check(s *Secured, verf []byte) error
}

// An Action is a SecurityFlavor's decision about a call.
type Action uint8

// The decisions.
const (
	ActionServe Action = iota
	ActionDrop         // no reply
	ActionDeny         // AUTH_ERROR
)

// A Verdict is the result of SecurityFlavor.Authenticate.
type Verdict struct {
	Action  Action
	Stat    oncrpc.AuthStat // for ActionDeny
	Control *Procedure      // runs instead of procedure 0, if not nil
}

// A SecurityFlavor authenticates a Server's calls with one flavor.
type SecurityFlavor interface {
	// Flavor is the credential's flavor.
	Flavor() oncrpc.Flavor
	// Authenticate checks a call with the header h. head has the header's bytes up to the end of
	// the credential. Authenticate sets c.Cred and c.Security unless it refuses the call. It runs
	// on the receiving goroutine, in the order of arrival, and must not wait.
	Authenticate(c *Call, h *oncrpc.CallHeader, head []byte) Verdict
}

// A Session secures one caller's calls on the client. It is safe for concurrent use.
type Session interface {
	// Begin prepares one attempt: it sets s, after creating a context by via if none is usable. It
	// waits for room in the context's window until ctx ends, or until the time until, if not zero.
	Begin(ctx context.Context, via Control, until time.Time, s *Secured) error
	// End ends the attempt, with its result. again: the context was unknown to the server, and
	// another attempt will use a new one.
	End(s *Secured, result error) (again bool)
}

// A Control sends control messages over the connection of an attempt.
type Control interface {
	// Program returns the attempt's program and version.
	Program() (prog, vers uint32)
	// Control calls procedure 0 of the attempt's program once, with the credential's body cred and
	// a verifier of AUTH_NONE, and returns a copy of the reply's verifier.
	Control(ctx context.Context, cred []byte, args xdr.Marshaler, res xdr.Unmarshaler, maxReply int) (oncrpc.OpaqueAuth, error)
}
