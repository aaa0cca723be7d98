// What can go wrong with a call, a reply and a connection.

package rpcrdma

import "errors"

// Errors that Do and Reply return, beside those of the context. Of them only ErrClosed, which
// comes as a *ClosedError, says that the connection is of no more use. ErrChunk and ErrVersion
// are permanent: the same call would fail again.
var (
	ErrChunk    = errors.New("rpcrdma: the peer could not use the chunks of the call (ERR_CHUNK)")
	ErrVersion  = errors.New("rpcrdma: the peer does not speak RPC-over-RDMA version 1 (ERR_VERS)")
	ErrTooLarge = errors.New("rpcrdma: message too large")
	ErrBadReply = errors.New("rpcrdma: the reply does not fit the chunks of the call")
	ErrClosed   = errors.New("rpcrdma: connection is closed")
	ErrXID      = errors.New("rpcrdma: another call with this XID is under way")
	ErrMessage  = errors.New("rpcrdma: not an RPC message")
	ErrTimeout  = errors.New("rpcrdma: no reply in time")
	ErrEnded    = errors.New("rpcrdma: the request has been ended already")

	// ErrUnreliable is of a device without what RFC 8166 builds on: messages that arrive once and
	// in order, and RDMA Reads.
	ErrUnreliable = errors.New("rpcrdma: the provider has no reliable connections with RDMA Reads")
)

// Reasons for which we end a connection ourselves; a ClosedError carries them. They are not
// exported: nobody can do more about one than about another.
var (
	errOvercommit = errors.New("the peer has more calls in flight than it was granted credits")
	errStalled    = errors.New("the peer makes no progress")
	errAbandoned  = errors.New("the peer holds all credits by calls that nobody waits for any more")
	errSendStuck  = errors.New("a cancelled call could not be sent in time")
)

// A ClosedError is why a connection ended. It satisfies errors.Is(err, ErrClosed),
// and gives the cause to errors.Is and errors.As.
type ClosedError struct {
	Cause error // nil: Close was called on our side
}

func (e *ClosedError) Error() string {
	if e.Cause == nil {
		return ErrClosed.Error()
	}
	return ErrClosed.Error() + ": " + e.Cause.Error()
}

// Unwrap returns ErrClosed and the cause.
func (e *ClosedError) Unwrap() []error {
	if e.Cause == nil {
		return []error{ErrClosed}
	}
	return []error{ErrClosed, e.Cause}
}
