// Calls with a security flavor, on the client.

package transport

import (
	"bytes"
	"context"
	"fmt"
	"time"

	"github.com/nfsrdma/nfsrdma/rpcrdma/mem"
	"github.com/nfsrdma/nfsrdma/xdr"
	"github.com/nfsrdma/nfsrdma/xdr/oncrpc"
)

// NewSessionAuth returns an Auth for calls secured by a Session.
func NewSessionAuth(s Session) *Auth { return &Auth{session: s} }

// A clientSecurity is an outCall's security state.
type clientSecurity struct {
	session Session // nil: none
	state   Secured
	sealed  *mem.Buffer // the sealed arguments

	// For session, during an attempt.
	conn  clientConn
	until time.Time

	verf *oncrpc.OpaqueAuth // receives a copy of the reply's verifier, if not nil
}

func (s *clientSecurity) clear() {
	s.endAttempt()
	s.session, s.verf = nil, nil
}

// endAttempt ends the use of the message's memory.
func (s *clientSecurity) endAttempt() {
	s.state.clear()
	s.sealed.Put()
	s.sealed, s.conn, s.until = nil, nil, time.Time{}
}

// attemptSecured is attempt for a call with a Session. A server that has lost the context gets a
// second attempt with a new one, under the same XID.
func (k *outCall) attemptSecured(ctx context.Context, l clientConn, until time.Time) error {
	s := &k.secure
	for retried := false; ; retried = true {
		s.conn, s.until = l, until
		if err := s.session.Begin(ctx, k, until, &s.state); err != nil {
			s.endAttempt()
			return beginError(ctx, err)
		}
		err := k.attemptOnce(ctx, l, until)
		again := s.session.End(&s.state, err)
		s.endAttempt()
		if !again || retried {
			return err
		}
	}
}

// beginError returns Begin's error, or errNoAnswer if the attempt's time ended Begin's wait for
// room in the window: earlier calls have no answer. A UserError has its own cause.
func beginError(ctx context.Context, err error) error {
	if err == context.DeadlineExceeded && ctx.Err() == nil { //nolint:errorlint // a wrapped one is a UserError
		return errNoAnswer
	}
	return err
}

// Program implements Control.
func (k *outCall) Program() (prog, vers uint32) { return k.proc.Prog, k.proc.Vers }

// Control implements Control with a call of its own. It is not sent again, because a mechanism may
// refuse a token that it has seen. Over UDP it ends when k would be sent again: k's next attempt
// begins with another token.
func (k *outCall) Control(ctx context.Context, cred []byte, args xdr.Marshaler, res xdr.Unmarshaler, maxReply int) (verf oncrpc.OpaqueAuth, err error) {
	own := outCallPool.Get().(*outCall)
	defer own.recycle()
	own.xid, own.answers = k.xids.Add(1), k.answers
	own.proc = &Proc{Prog: k.proc.Prog, Vers: k.proc.Vers, Name: "RPCSEC_GSS control"}
	own.cred = oncrpc.OpaqueAuth{Flavor: oncrpc.FlavorGSS, Body: cred}
	own.args, own.res, own.maxReply, own.resend = args, res, maxReply, k.resend
	own.secure.verf = &verf
	err = own.attempt(ctx, k.secure.conn, k.secure.until)
	return verf, err
}

// signHeader ends the header with a verifier over its bytes.
func (k *outCall) signHeader() {
	s := &k.secure.state
	h := &k.callHeader
	h.Cred = oncrpc.OpaqueAuth{Flavor: oncrpc.FlavorGSS, Body: s.By.Credential(s)}
	h.EncodeXDR(&k.enc)
	k.enc.Truncate(k.enc.Len() - emptyAuth)
	h.Verf = oncrpc.OpaqueAuth{Flavor: oncrpc.FlavorGSS, Body: s.By.Sign(s, k.enc.Bytes())}
	h.Verf.EncodeXDR(&k.enc)
}

// emptyAuth is the size of an AUTH_NONE verifier.
const emptyAuth = 8

// encodeSealed encodes the arguments and protects them.
func (k *outCall) encodeSealed() error {
	s := &k.secure.state
	at := k.enc.Len()
	s.By.Reserve(s, &k.enc)
	if k.args != nil {
		k.args.EncodeXDR(&k.enc)
	}
	return s.By.Seal(s, &k.enc, at, k)
}

// Buffer implements Memory for the sealed arguments.
func (k *outCall) Buffer(n int) []byte {
	k.secure.sealed = mem.Get(n)
	return k.secure.sealed.B
}

// checkVerifier checks the verifier of an accepted reply. A denied reply has none.
func (k *outCall) checkVerifier() error {
	s, h := &k.secure.state, &k.replyHeader
	if k.secure.verf != nil {
		*k.secure.verf = oncrpc.OpaqueAuth{Flavor: h.Verf.Flavor, Body: bytes.Clone(h.Verf.Body)}
	}
	if s.By == nil || h.Denied {
		return nil
	}
	if h.Verf.Flavor != oncrpc.FlavorGSS {
		return fmt.Errorf("%w: no verifier of RPCSEC_GSS: it may come from another server", ErrBadReply)
	}
	if err := s.By.Check(s, h.Verf.Body); err != nil {
		return fmt.Errorf("%w: its verifier is wrong: it may come from another server: %w", ErrBadReply, err)
	}
	return nil
}

// openResults unprotects the results, which are the rest of the reply.
func (k *outCall) openResults() error {
	s := &k.secure.state
	if !s.covers() {
		return nil
	}
	if k.dec.ItemsLeft() > 0 {
		return fmt.Errorf("%w: protected results in a chunk", ErrBadReply)
	}
	if err := s.By.Open(s, &k.dec); err != nil {
		return fmt.Errorf("%w: protected results of %s: %w", ErrBadReply, k.proc.Name, err)
	}
	k.dec.SetSink(k.sink)
	return nil
}

// room returns the reply's largest size besides the item for sink, and the sink to offer. Protected
// results come whole: the item is copied to its sink after it has been checked.
func (k *outCall) room() (maxReply int, sink []byte) {
	n := oncrpc.ReplySize + k.maxReply
	s := &k.secure.state
	if s.By != nil {
		n += s.By.Overhead(s)
	}
	if s.covers() {
		return n + xdr.RoundUp(len(k.sink)), nil
	}
	return n, k.sink
}
