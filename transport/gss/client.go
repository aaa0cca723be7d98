// The client: contexts of users, their creation, refresh and end.

package gss

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nfsrdma/nfsrdma/transport"
	"github.com/nfsrdma/nfsrdma/xdr/oncrpc"
)

// ClientConfig configures a Client.
type ClientConfig struct {
	// Initiator returns the Initiator for one new context of a user. It may be called
	// concurrently for different users.
	Initiator func(ctx context.Context, user string) (Initiator, error)

	now      func() time.Time // nil: time.Now
	firstSeq uint32           // 0: 1
}

const (
	// refreshBefore is how long before a context's end a new one is made, but at most a tenth of
	// the context's life.
	refreshBefore = time.Minute
	// refreshTime bounds a refresh, which delays one call.
	refreshTime = 5 * time.Second
	// refreshRetry is the pause after a failed refresh, while the old context still serves.
	refreshRetry = 10 * time.Second
	// failureAge is how long a failed creation fails other calls too: a key server that does not
	// answer would otherwise delay them one after the other.
	failureAge = time.Second
	// creationTime bounds a creation without another limit.
	creationTime = time.Minute
	// maxLegs bounds the exchanges of one creation.
	maxLegs = 8
)

// A Client has the contexts of users toward one RPC service, for one or several
// transport.Clients. It is safe for concurrent use.
type Client struct {
	cfg  ClientConfig
	made time.Time

	mu    sync.Mutex         // guards all below; never held during a call
	users map[string]*user   // by name
	all   map[*user]struct{} // these, and forgotten ones that have called again
	timer *time.Timer        // runs sweep while there are users; nil: not yet
}

// NewClient returns a Client.
func NewClient(cfg ClientConfig) *Client {
	if cfg.now == nil {
		cfg.now = time.Now
	}
	if cfg.firstSeq == 0 {
		cfg.firstSeq = 1
	}
	return &Client{cfg: cfg, made: cfg.now(), users: map[string]*user{}, all: map[*user]struct{}{}}
}

// Auth returns the Auth for a user's calls. The first call creates the user's context, which the
// services share.
func (c *Client) Auth(name string, service transport.Service) *transport.Auth {
	c.mu.Lock()
	defer c.mu.Unlock()
	u := c.users[name]
	if u == nil {
		u = &user{client: c, name: name, creating: make(chan struct{}, 1)}
	}
	u.use(c.cfg.now())
	c.remember(u)
	return transport.NewSessionAuth(&session{u, service})
}

// Close destroys all contexts at the server of tc. Errors do not matter: the server forgets
// contexts by itself.
func (c *Client) Close(ctx context.Context, tc *transport.Client) {
	for u := range c.forgetAll() {
		if x := u.current.Swap(nil); x != nil && x.serves(c.cfg.now()) {
			x.destroy(ctx, tc)
		}
	}
}

// A UserError is a failure to get a security context for a user.
type UserError struct {
	User string
	Err  error
}

func (e *UserError) Error() string { return "RPCSEC_GSS for " + e.User + ": " + e.Err.Error() }
func (e *UserError) Unwrap() error { return e.Err }

// A user has one current context.
type user struct {
	client  *Client
	name    string
	current atomic.Pointer[clientContext] // nil: none
	used    atomic.Int64                  // Client.age at the last call, within useStep

	creating chan struct{} // holds a token while a goroutine creates a context

	mu       sync.Mutex // guards both below
	failure  error      // of the last creation
	failedAt time.Time
}

// A clientContext is an established context at the client.
type clientContext struct {
	protection
	handle []byte
	window outstanding
	ends   time.Time

	prog, vers uint32 // of the calls

	refresh atomic.Int64 // time to make a new one, in Unix nanoseconds
}

// Credential implements transport.Protection.
func (x *clientContext) Credential(s *transport.Secured) []byte {
	c := credential{message: message(s.Control), seq: s.Seq, service: s.Service, handle: x.handle}
	s.Token = c.append(s.Token[:0])
	return s.Token
}

// Overhead implements transport.Protection.
func (x *clientContext) Overhead(s *transport.Secured) int { return x.overhead(s) }

// serves reports whether calls can use the context.
func (x *clientContext) serves(now time.Time) bool {
	return now.Before(x.ends) && !x.window.spent()
}

// A session is a user with a service.
type session struct {
	user    *user
	service transport.Service
}

// Begin implements transport.Session.
func (s *session) Begin(ctx context.Context, via transport.Control, until time.Time, sec *transport.Secured) error {
	for {
		x, err := s.user.context(ctx, via, until)
		if err != nil {
			return err
		}
		seq, ok, err := x.window.begin(ctx, until)
		switch {
		case err != nil:
			return err
		case ok:
			sec.By, sec.Seq, sec.Service = x, seq, s.service
			return nil
		}
		s.user.current.CompareAndSwap(x, nil) // its numbers are used up
	}
}

// End implements transport.Session.
func (s *session) End(sec *transport.Secured, result error) (again bool) {
	x := sec.By.(*clientContext)
	x.window.end(sec.Seq)
	if result == nil || !contextRefused(result) {
		return false
	}
	s.user.current.CompareAndSwap(x, nil)
	return true
}

// contextRefused reports whether the server wants another context (RFC 2203 §5.3.3.3). After any
// other denial a new one would not help.
func contextRefused(result error) bool {
	var refused *transport.AuthError
	return errors.As(result, &refused) && (refused.Stat == oncrpc.GSSCredProblem || refused.Stat == oncrpc.GSSCtxProblem)
}

// context returns the user's context, which it creates or refreshes if necessary.
func (u *user) context(ctx context.Context, via transport.Control, until time.Time) (*clientContext, error) {
	now := u.client.cfg.now()
	u.use(now)
	x := u.current.Load()
	if x != nil && !x.serves(now) {
		x = nil
	}
	if x != nil {
		if now.UnixNano() < x.refresh.Load() {
			return x, nil
		}
		return u.refresh(ctx, x, via), nil
	}
	ctx, cancel := creationContext(ctx, until)
	defer cancel()
	select {
	case u.creating <- struct{}{}:
	case <-ctx.Done():
		return nil, &UserError{u.name, fmt.Errorf("the context that another call creates is not ready: %w", ctx.Err())}
	}
	defer func() { <-u.creating }()
	if x := u.current.Load(); x != nil && x.serves(now) {
		return x, nil // another goroutine has created it meanwhile
	}
	return u.create(ctx, via)
}

// creationContext bounds the time of a creation.
func creationContext(ctx context.Context, until time.Time) (context.Context, context.CancelFunc) {
	if until.IsZero() {
		return context.WithTimeout(ctx, creationTime)
	}
	return context.WithDeadline(ctx, until)
}

// refresh replaces x, which still serves, by a new context. One goroutine does so; other calls, and
// calls after a failure, use x.
func (u *user) refresh(ctx context.Context, x *clientContext, via transport.Control) *clientContext {
	select {
	case u.creating <- struct{}{}:
	default:
		return x
	}
	defer func() { <-u.creating }()
	if cur := u.current.Load(); cur != x && cur != nil {
		return cur
	}
	x.refresh.Store(u.client.cfg.now().Add(refreshRetry).UnixNano())
	ctx, cancel := context.WithTimeout(ctx, refreshTime)
	defer cancel()
	if fresh, err := u.create(ctx, via); err == nil {
		return fresh
	}
	return x
}

// create makes a new current context. The caller holds the token of creating.
func (u *user) create(ctx context.Context, via transport.Control) (*clientContext, error) {
	now := u.client.cfg.now()
	u.mu.Lock()
	failure, age := u.failure, now.Sub(u.failedAt)
	u.mu.Unlock()
	if failure != nil && age < failureAge {
		return nil, failure
	}
	x, err := u.negotiate(ctx, via)
	if err == nil {
		u.note(nil, now)
		u.store(x)
		return x, nil
	}
	failure = &UserError{u.name, err}
	// Lost connections and canceled calls say nothing about the user.
	var refused *refusal
	if errors.As(err, &refused) {
		u.note(failure, now)
	}
	return nil, failure
}

// note sets the result of the last creation.
func (u *user) note(failure error, now time.Time) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.failure, u.failedAt = failure, now
}

// A refusal is a failure of creation that would happen again: of the mechanism or the server.
type refusal struct {
	what string
	err  error // may be nil
}

func (e *refusal) Error() string {
	if e.err == nil {
		return e.what
	}
	return e.what + ": " + e.err.Error()
}

func (e *refusal) Unwrap() error { return e.err }

// negotiate exchanges tokens with the server until the context is established (RFC 2203 §5.2).
func (u *user) negotiate(ctx context.Context, via transport.Control) (*clientContext, error) {
	init, err := u.client.cfg.Initiator(ctx, u.name)
	if err != nil {
		return nil, &refusal{"no credentials", err}
	}
	token, err := init.Start(ctx)
	if err != nil {
		if ctx.Err() != nil {
			return nil, fmt.Errorf("no ticket in time: %w", err)
		}
		return nil, &refusal{"no ticket", err}
	}
	cred := credential{message: messageInit}
	for range maxLegs {
		var res initRes
		verf, err := via.Control(ctx, cred.append(nil), &initArg{token}, &res, maxCred+16+maxReplyToken)
		if err != nil {
			return nil, creationError(err)
		}
		if err := checkCreation(&cred, &res); err != nil {
			return nil, err
		}
		x, err := init.Finish(res.token)
		var more *ContinueError
		switch {
		case err != nil && !errors.As(err, &more):
			return nil, &refusal{"the server's token is refused", err}
		case res.major == Complete && more == nil:
			return u.establish(x, verf, &res, via)
		case res.major == Complete || more == nil:
			return nil, &refusal{"client and server disagree whether the context is complete", nil}
		}
		cred = credential{message: messageContinue, handle: res.handle}
		token = more.Token
	}
	return nil, &refusal{fmt.Sprintf("the context is not complete after %d exchanges", maxLegs), nil}
}

// creationError explains a creation message that the server did not accept.
func creationError(err error) error {
	var auth *transport.AuthError
	switch {
	case !errors.As(err, &auth):
		return err
	case auth.Stat == oncrpc.AuthRejectedCred:
		return &refusal{"the server does not accept RPCSEC_GSS", err}
	}
	return &refusal{"the server refuses this user: its log says why", err}
}

// checkCreation checks a reply to a message that creates a context.
func checkCreation(cred *credential, res *initRes) error {
	switch {
	case failed(res.major):
		return &refusal{"the server refuses the context", &Error{Major: res.major, Minor: res.minor, Text: majorText(res.major)}}
	case res.major != Complete && res.major != ContinueNeeded:
		return &refusal{fmt.Sprintf("the server answers with the unexpected status %#x", res.major), nil}
	case len(res.handle) == 0:
		return &refusal{"the server gives the context no handle", nil}
	case cred.message == messageContinue && string(cred.handle) != string(res.handle):
		return &refusal{"the server changes the context's handle", nil}
	}
	return nil
}

// majorText returns the meaning of a status for users.
func majorText(major uint32) string {
	switch major & 0xffff0000 {
	case NoContext:
		return "it does not know the context"
	case DefectiveToken:
		return "the token is defective"
	case CredentialsExpired:
		return "the credentials have expired"
	case Unavailable:
		return "the operation is not available"
	}
	return "failure: the server's log says why"
}

// establish checks the reply's verifier, the MIC over the window, which proves that the server has
// the context's key.
func (u *user) establish(x Context, verf oncrpc.OpaqueAuth, res *initRes, via transport.Control) (*clientContext, error) {
	if verf.Flavor != oncrpc.FlavorGSS {
		return nil, &refusal{"the server's reply has no RPCSEC_GSS verifier", nil}
	}
	if err := x.VerifyMIC(verf.Body, binary.BigEndian.AppendUint32(nil, res.window)); err != nil {
		return nil, &refusal{"the verifier of the server's reply is wrong", err}
	}
	if res.window == 0 {
		return nil, &refusal{"the server's sequence window is empty", nil}
	}
	now := u.client.cfg.now()
	c := &clientContext{protection: protection{x}, handle: res.handle, ends: x.Expires()}
	c.prog, c.vers = via.Program()
	c.window.init(u.client.cfg.firstSeq, res.window)
	life := c.ends.Sub(now)
	c.refresh.Store(c.ends.Add(-min(refreshBefore, life/10)).UnixNano())
	return c, nil
}

// destroy sends DESTROY.
func (x *clientContext) destroy(ctx context.Context, tc *transport.Client) {
	auth := transport.NewSessionAuth((*destroying)(x))
	_ = tc.CallAs(ctx, auth, &transport.Proc{Prog: x.prog, Vers: x.vers, Name: "RPCSEC_GSS DESTROY"}, nil, nil, nil, 0)
}

// A destroying is a context's session for its DESTROY.
type destroying clientContext

// Begin implements transport.Session.
func (x *destroying) Begin(ctx context.Context, _ transport.Control, until time.Time, sec *transport.Secured) error {
	seq, ok, err := x.window.begin(ctx, until)
	if err == nil && !ok {
		err = errSpent
	}
	sec.By, sec.Seq, sec.Service, sec.Control = (*clientContext)(x), seq, transport.ServiceNone, uint32(messageDestroy)
	return err
}

// End implements transport.Session.
func (x *destroying) End(sec *transport.Secured, _ error) (again bool) {
	x.window.end(sec.Seq)
	return false
}
