// Errors that carry a Terminate code: ours, and those that the peer told us of.

package term

import "errors"

// An Error is a fault that this end found in what the peer sent, or in itself.
// It makes us send a Terminate with Code, where the state of the stream allows one.
type Error struct {
	Code   Code
	detail string // what was wrong, in words; may be empty
	Err    error  // the cause below, or nil
}

// New returns an Error with that code and detail. Details are constants rather
// than formatted: a hostile peer makes us do as little as can be.
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

// Is matches an Error that has the same code and, if target has one, the same detail.
func (e *Error) Is(target error) bool {
	t, ok := target.(*Error)
	return ok && t.Code == e.Code && (t.detail == "" || t.detail == e.detail)
}

// A PeerError is what the peer's Terminate said: the fault was found over there.
type PeerError struct {
	Code Code
	// SegLen is the DDP Segment Length that the peer returned, 0 if it returned none.
	SegLen uint16
	// STag is that of the peer's memory which the returned headers name as target or
	// source, 0 if they name none.
	STag uint32
}

func (e *PeerError) Error() string { return "the peer terminated the stream: " + e.Code.String() }

// RefusedSTag is the STag of the peer's whose use by us it refused: a protection error of RDMAP or
// DDP (RFC 5040 §4.8, RFC 5041 §7.1) that came with the header of the segment.
func (e *PeerError) RefusedSTag() (stag uint32, ok bool) {
	protection := e.Code.EType == 1 && (e.Code.Layer == LayerRDMAP || e.Code.Layer == LayerDDP)
	return e.STag, e.STag != 0 && protection
}

// Is matches a PeerError that has the same code.
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
