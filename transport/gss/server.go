// The server: admission of calls by context and sequence number, and control messages.

package gss

import (
	"crypto/rand"
	"encoding/binary"
	"errors"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/nfsrdma/nfsrdma/transport"
	"github.com/nfsrdma/nfsrdma/xdr/oncrpc"
)

// ServerConfig configures a Server.
type ServerConfig struct {
	Acceptor Acceptor
	// Map returns the server's own user for a principal, once for each context. false: the
	// principal is refused. It may be called concurrently, and may look up names.
	Map func(principal string) (transport.Cred, bool)
	// MaxContexts limits the contexts; 0: 16384. A new one above the limit replaces the longest
	// unused one of the host with the most.
	MaxContexts int
	// MaxContextsPerHost limits the contexts created by one IPv4 address or one IPv6 /64; 0: a
	// quarter of MaxContexts. A new one above the limit replaces one of the same host.
	MaxContextsPerHost int
	// Idle is how long a context without calls is kept; 0: an hour.
	Idle time.Duration
	// Logger gets lines for an operator, at most one a second for each text; nil: slog.Default().
	Logger *slog.Logger

	now func() time.Time // nil: time.Now
}

func (cfg *ServerConfig) setDefaults() {
	if cfg.MaxContexts <= 0 {
		cfg.MaxContexts = 16384
	}
	if cfg.MaxContextsPerHost <= 0 {
		cfg.MaxContextsPerHost = max(cfg.MaxContexts/4, 1)
	}
	if cfg.Idle <= 0 {
		cfg.Idle = time.Hour
	}
	if cfg.now == nil {
		cfg.now = time.Now
	}
}

// Limits of contexts in creation.
const (
	maxHalf        = 1024
	maxHalfPerHost = 64
	halfIdle       = 30 * time.Second
)

// A Server authenticates calls by RPCSEC_GSS. One Server may serve several transport.Servers.
type Server struct {
	cfg      ServerConfig
	log      transport.RateLog
	contexts table
	half     table // in creation
	create   transport.Procedure
	destroy  transport.Procedure

	created, refused atomic.Uint64
	failed           failureCounts
}

var _ transport.SecurityFlavor = (*Server)(nil)

// NewServer returns a Server for transport.ServerConfig.Security.
func NewServer(cfg ServerConfig) *Server {
	cfg.setDefaults()
	s := &Server{cfg: cfg}
	s.log.Logger = cfg.Logger
	s.contexts.init(cfg.MaxContexts, cfg.MaxContextsPerHost, cfg.Idle)
	s.half.init(maxHalf, maxHalfPerHost, halfIdle)
	// A worker runs create, because a mechanism's Accept computes for long and Map may wait.
	s.create = transport.Procedure{Name: "GSS_INIT", Run: s.runCreate, Idempotent: true}
	s.destroy = transport.Procedure{Name: "GSS_DESTROY", Run: s.runDestroy, Inline: true, Idempotent: true}
	return s
}

// Figures are a Server's counts.
type Figures struct {
	Contexts         int    // established now
	Created, Refused uint64 // contexts so far
	Evicted          uint64 // contexts removed to make room for others
	// Failures has the refused contexts and calls by reason.
	Failures map[Reason]uint64
}

// Figures returns the current counts.
func (s *Server) Figures() Figures {
	s.contexts.mu.RLock()
	evicted := s.contexts.evicted
	s.contexts.mu.RUnlock()
	return Figures{Contexts: s.contexts.len(), Created: s.created.Load(), Refused: s.refused.Load(), Evicted: evicted, Failures: s.failed.figures()}
}

// Flavor implements transport.SecurityFlavor.
func (s *Server) Flavor() oncrpc.Flavor { return oncrpc.FlavorGSS }

// deny counts a refused call, and returns its verdict.
func (s *Server) deny(why Reason, stat oncrpc.AuthStat) transport.Verdict {
	s.failed.count(why)
	return transport.Verdict{Action: transport.ActionDeny, Stat: stat}
}

// drop counts a call whose sequence number is used or too old, and returns its verdict: no reply.
func (s *Server) drop() transport.Verdict {
	s.failed.count(ReasonSequence)
	return transport.Verdict{Action: transport.ActionDrop}
}

// Authenticate implements transport.SecurityFlavor.
func (s *Server) Authenticate(c *transport.Call, h *oncrpc.CallHeader, head []byte) transport.Verdict {
	var cred credential
	if err := cred.parse(h.Cred.Body); err != nil {
		// Another version is AUTH_REJECTEDCRED in context creation (RFC 2203 §5.2.3.2) and
		// AUTH_BADCRED for an existing context (§5.3.3.3).
		if errors.Is(err, errVersion) && cred.message != messageData && cred.message != messageDestroy {
			return s.deny(ReasonCredential, oncrpc.AuthRejectedCred)
		}
		return s.deny(ReasonCredential, oncrpc.AuthBadCred)
	}
	if cred.message != messageData && h.Proc != 0 {
		return s.deny(ReasonCredential, oncrpc.AuthBadCred)
	}
	if cred.message == messageInit || cred.message == messageContinue {
		return s.authenticateCreation(&cred, h)
	}
	return s.authenticateData(c, &cred, h, head)
}

// authenticateCreation checks the header of a message that creates a context.
func (s *Server) authenticateCreation(cred *credential, h *oncrpc.CallHeader) transport.Verdict {
	switch {
	case h.Verf.Flavor != oncrpc.FlavorNone || len(h.Verf.Body) > 0:
		return s.deny(ReasonVerifier, oncrpc.AuthBadVerf)
	case cred.message == messageInit && len(cred.handle) > 0:
		return s.deny(ReasonCredential, oncrpc.AuthBadCred)
	}
	return transport.Verdict{Control: &s.create}
}

// authenticateData checks a call in an established context. It takes the sequence number last, so
// that no invalid call uses up a number.
func (s *Server) authenticateData(c *transport.Call, cred *credential, h *oncrpc.CallHeader, head []byte) transport.Verdict {
	if cred.service < transport.ServiceNone || cred.service > transport.ServicePrivacy {
		return s.deny(ReasonCredential, oncrpc.AuthBadCred)
	}
	if h.Verf.Flavor != oncrpc.FlavorGSS {
		return s.deny(ReasonVerifier, oncrpc.AuthBadVerf)
	}
	x := s.contexts.find(cred.handle)
	if x == nil {
		return s.deny(ReasonUnknown, oncrpc.GSSCredProblem)
	}
	if cred.seq < maxSeq && !x.window.fresh(cred.seq) {
		return s.drop()
	}
	sec := c.Security()
	if err := x.checkHeader(sec, head, h.Verf.Body); err != nil {
		s.log.Warn("call refused: its RPCSEC_GSS verifier is wrong", "peer", c.Remote, "principal", x.cred.Principal, "error", err)
		return s.deny(ReasonVerifier, oncrpc.GSSCredProblem)
	}
	now := s.cfg.now()
	switch {
	case cred.seq >= maxSeq:
		return s.deny(ReasonSequence, oncrpc.GSSCtxProblem)
	case !now.Before(x.ends):
		s.contexts.remove(x)
		return s.deny(ReasonExpired, oncrpc.GSSCtxProblem)
	case s.contexts.stale(x, now):
		s.contexts.remove(x)
		return s.deny(ReasonIdle, oncrpc.GSSCredProblem)
	case !x.window.take(cred.seq):
		return s.drop()
	}
	x.touch(now)
	sec.By, sec.Seq, sec.Service = x, cred.seq, cred.service
	c.Cred = x.cred
	c.Cred.Flavor = flavorOf(cred.service)
	if cred.message == messageDestroy {
		return transport.Verdict{Control: &s.destroy}
	}
	return transport.Verdict{}
}

// flavorOf returns a service's pseudo-flavor.
func flavorOf(service transport.Service) oncrpc.Flavor {
	return oncrpc.FlavorKrb5 + oncrpc.Flavor(service-transport.ServiceNone)
}

// runCreate is the procedure of INIT and CONTINUE_INIT.
func (s *Server) runCreate(c *transport.Call) error {
	var arg initArg
	arg.DecodeXDR(c.Args)
	if err := c.ArgsErr(); err != nil {
		s.failed.count(ReasonToken)
		return err
	}
	var cred credential
	_ = cred.parse(c.Credential()) // Authenticate has parsed it
	acceptor, res := s.cfg.Acceptor, initRes{}
	if cred.message == messageContinue {
		half := s.half.find(cred.handle)
		if half == nil || s.half.stale(half, s.cfg.now()) || !s.half.remove(half) {
			s.failed.count(ReasonUnknown)
			s.answer(c, nil, &initRes{major: NoContext})
			return nil
		}
		acceptor, res.handle = half.next, cred.handle
	} else {
		res.handle = newHandle()
	}
	x, token, err := acceptor.Accept(arg.token)
	res.token = token
	var more *ContinueError
	switch {
	case errors.As(err, &more):
		s.half.add(&serverContext{next: more.Next, handle: handle(res.handle)}, c.Remote, s.cfg.now())
		res.major = ContinueNeeded
		s.answer(c, nil, &res)
		return nil
	case err != nil:
		s.refuse(c, err)
		return nil
	}
	return s.establish(c, x, &res)
}

func newHandle() []byte {
	h := make([]byte, handleLen)
	_, _ = rand.Read(h) // never fails
	return h
}

// establish enters a new context, and answers with the MIC over the window.
func (s *Server) establish(c *transport.Call, x Context, res *initRes) error {
	cred, ok := s.cfg.Map(x.Principal())
	if !ok {
		s.refused.Add(1)
		s.failed.count(ReasonUser)
		s.log.Warn("principal refused: it is mapped to no user", "peer", c.Remote, "principal", x.Principal())
		return &transport.AuthError{Stat: oncrpc.AuthFailed}
	}
	cred.Principal = x.Principal()
	s.contexts.add(&serverContext{protection: protection{x}, failed: &s.failed, cred: cred, ends: x.Expires(), handle: handle(res.handle)}, c.Remote, s.cfg.now())
	s.created.Add(1)
	res.window = windowSize
	s.answer(c, x.MIC(nil, binary.BigEndian.AppendUint32(nil, windowSize)), res)
	return nil
}

// refuse answers with the mechanism's error: without handle and token (RFC 2203 §5.2.3.1).
func (s *Server) refuse(c *transport.Call, err error) {
	s.refused.Add(1)
	res, why := initRes{major: Failure}, ReasonOther
	var e *Error
	if errors.As(err, &e) {
		why = e.Reason
		if failed(e.Major) {
			res.major, res.minor = e.Major, e.Minor
		}
	}
	s.failed.count(why)
	s.log.Warn("RPCSEC_GSS context refused", "peer", c.Remote, "reason", why.String(), "error", err)
	s.answer(c, nil, &res)
}

// answer encodes the results of context creation. mic is the verifier's body; nil: AUTH_NONE.
func (s *Server) answer(c *transport.Call, mic []byte, res *initRes) {
	if mic != nil {
		c.ReplyVerifier(oncrpc.OpaqueAuth{Flavor: oncrpc.FlavorGSS, Body: mic})
	}
	res.EncodeXDR(c.Res)
}

// runDestroy is the procedure of DESTROY. The reply still gets its verifier by the context.
func (s *Server) runDestroy(c *transport.Call) error {
	s.contexts.remove(c.Security().By.(*serverContext))
	return nil
}
