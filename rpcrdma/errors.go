// Errors of calls, replies and connections.

package rpcrdma

import "errors"

// Errors returned by Do and Reply, in addition to context errors. Only ErrClosed, returned as a
// *ClosedError, means that the connection is unusable. ErrChunk and ErrVersion are permanent: the
// same call would fail again.
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

	// ErrUnreliable reports a device without the basis of RFC 8166: messages that arrive once and
	// in order, and RDMA Reads.
	ErrUnreliable = errors.New("rpcrdma: the provider has no reliable connections with RDMA Reads")
)

// Causes for ending a connection from our side; a ClosedError carries them. They are not exported
// because callers handle them all alike.
var (
	errOvercommit = errors.New("the peer has more calls in flight than it was granted credits")
	errStalled    = errors.New("the peer makes no progress")
	errAbandoned  = errors.New("the peer holds all credits by calls that nobody waits for any more")
	errSendStuck  = errors.New("a cancelled call could not be sent in time")
)

// A ClosedError says why a connection ended. It matches ErrClosed in errors.Is, and exposes its
// cause to errors.Is and errors.As.
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
