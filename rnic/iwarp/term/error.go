// Errors with a Terminate code: ours, and those reported by the peer.

package term

import "errors"

// An Error is a fault found by this end in the peer's messages, or in itself. It makes us send a
// Terminate with Code, if the stream's state allows one.
type Error struct {
	Code   Code
	detail string // a description; may be empty
	Err    error  // the underlying cause, or nil
}

// New returns an Error with the given code and detail. Details are constants, not formatted, so
// that a hostile peer causes little work.
func New(code Code, detail string) *Error { return &Error{Code: code, detail: detail} }

func (e *Error) Error() string {
	s := e.Code.String()
	if e.detail != "" {
		s += ": " + e.detail
	}
	if e.Err != nil {
		s += ": " + e.Err.Error()
	}
	return s
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// Is matches an Error with the same code and, if target has one, the same detail.
func (e *Error) Is(target error) bool {
	t, ok := target.(*Error)
	return ok && t.Code == e.Code && (t.detail == "" || t.detail == e.detail)
}

// A PeerError is an error from the peer's Terminate: the peer found the fault.
type PeerError struct {
	Code Code
	// SegLen is the DDP Segment Length returned by the peer, 0 if none.
	SegLen uint16
	// STag is the peer's STag named in the returned headers as target or source, 0 if none.
	STag uint32
}

func (e *PeerError) Error() string { return "the peer terminated the stream: " + e.Code.String() }

// RefusedSTag returns the peer's STag that it refused us: from a protection error of RDMAP or DDP
// (RFC 5040 §4.8, RFC 5041 §7.1) with the segment's header.
func (e *PeerError) RefusedSTag() (stag uint32, ok bool) {
	protection := e.Code.EType == 1 && (e.Code.Layer == LayerRDMAP || e.Code.Layer == LayerDDP)
	return e.STag, e.STag != 0 && protection
}

// Is matches a PeerError with the same code.
func (e *PeerError) Is(target error) bool {
	t, ok := target.(*PeerError)
	return ok && t.Code == e.Code
}

// CodeOf returns the code of the first Error in err's chain.
func CodeOf(err error) (Code, bool) {
	var e *Error
	if errors.As(err, &e) {
		return e.Code, true
	}
	return Code{}, false
}
