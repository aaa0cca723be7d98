// The mechanism's interfaces: contexts, and both ends of their creation.

package gss

import (
	"context"
	"fmt"
	"time"
)

// A Context is an established security context of a mechanism. It is safe for concurrent use. In
// steady state its methods allocate nothing if dst has room.
type Context interface {
	// Principal names the peer: at the acceptor, the initiator ("alice@EXAMPLE.ORG").
	Principal() string
	// Expires is the end of the context's ticket.
	Expires() time.Time
	// MIC appends a token over the concatenated parts (RFC 2743 GSS_GetMIC).
	MIC(dst []byte, parts ...[]byte) []byte
	// VerifyMIC checks a token from the peer's MIC.
	VerifyMIC(token []byte, parts ...[]byte) error
	// Wrap appends a token with the concatenated parts sealed (GSS_Wrap with confidentiality).
	Wrap(dst []byte, parts ...[]byte) []byte
	// Unwrap opens a token from the peer's Wrap. It may decrypt in the token's memory, and plain
	// may alias the token.
	Unwrap(token []byte) (plain []byte, err error)
	// Overhead returns a MIC token's largest size, and the largest growth by Wrap, in bytes.
	Overhead() (mic, wrap int)
}

// An Acceptor is a server's end of context creation. It is safe for concurrent use.
type Acceptor interface {
	// Accept takes an initiator's first token and returns the Context and the reply token. An error
	// is an *Error, or a *ContinueError if the mechanism needs another token. Token is the
	// caller's memory.
	Accept(token []byte) (ctx Context, reply []byte, err error)
}

// An Initiator is a client's end of the creation of one context, always with mutual
// authentication.
type Initiator interface {
	// Start returns the first token; it may ask a key server.
	Start(ctx context.Context) (token []byte, err error)
	// Finish takes the acceptor's reply token. An error may be a *ContinueError with the next
	// token.
	Finish(reply []byte) (Context, error)
}

// A ContinueError means that context creation needs another exchange (GSS_S_CONTINUE_NEEDED).
type ContinueError struct {
	Token []byte   // at the initiator: the next token
	Next  Acceptor // at the acceptor: takes the next token
}

func (e *ContinueError) Error() string { return "gss: context creation needs another token" }

// An Error is a mechanism's failure, with its codes (RFC 2743 §1.2.1.1; values of RFC 2203
// appendix A).
type Error struct {
	Major, Minor uint32
	Text         string
	Reason       Reason // at an acceptor, for a server's counts
}

func (e *Error) Error() string {
	return fmt.Sprintf("%s (GSS major %#x, minor %#x)", e.Text, e.Major, e.Minor)
}

// Major status codes (RFC 2203 appendix A).
const (
	Complete           uint32 = 0
	ContinueNeeded     uint32 = 1
	NoContext          uint32 = 0x00080000
	DefectiveToken     uint32 = 0x00090000
	CredentialsExpired uint32 = 0x000b0000
	Failure            uint32 = 0x000d0000
	Unavailable        uint32 = 0x00100000
)
