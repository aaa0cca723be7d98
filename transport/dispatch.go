// The dispatcher: from a call's RPC header and credential to its procedure and its reply.

package transport

import (
	"bytes"
	"errors"
	"fmt"
	"runtime/debug"
	"slices"
	"sync"

	"github.com/nfsrdma/nfsrdma/xdr/oncrpc"
)

// A dispatcher serves calls from any carrier.
type dispatcher struct {
	programs programs
	drc      *drc
	pool     workerPool
	log      *RateLog
	observer Observer // may be nil
	refused  refusalCounts
	security []SecurityFlavor
}

// serve handles a call with the whole message in args, with detached items. If c.here is set, the
// call may run on the receiving goroutine; leads is then false if a follower has taken over
// receiving. Otherwise serve does not wait, and a worker runs the call. peer and creds belong to
// the connection.
func (s *dispatcher) serve(c *Call, p *peer) (leads bool) {
	if s.admit(c, p) {
		return s.place(c)
	}
	return true
}

// admit finds a call's procedure and authorizes it. false: the call has been answered or dropped,
// or waits for the original call.
func (s *dispatcher) admit(c *Call, p *peer) bool {
	c.Owner, c.Memo, c.Channel = p.owner, p.memo, p.channel()
	items := c.args.ItemsLeft()
	if !s.header(c, p) {
		return false
	}
	// A Read chunk is only for the argument named in the binding (RFC 8166 §6.1 [R8166-189]),
	// never for a part of the RPC header. Answer ERR_CHUNK and not GARBAGE_ARGS, because the
	// transport header is wrong.
	if items > 0 && (!c.proc.ArgItem || c.args.ItemsLeft() != items) {
		s.refused.count(refusedChunks)
		c.via.rejectChunks(c)
		return false
	}
	if !s.open(c) {
		return false
	}
	// Before the duplicate cache: an unauthorized caller MUST NOT get another caller's reply. NULL
	// is open to all, to check whether the server is there (RFC 5531 §12.1).
	if c.header.Proc != 0 && c.prog.Authorize != nil {
		if stat := c.prog.Authorize(c); stat != oncrpc.AuthOK {
			return s.denyAuth(c, stat)
		}
	}
	// Ask for the lane after authorization: until then the arguments are untrusted.
	if c.proc.Lane != nil {
		c.lane = 1 + c.proc.Lane(c)
	}
	// A duplicate has been answered, or will be together with the original.
	return c.proc.Idempotent && !c.proc.NoOverlap || s.drc.admit(c, p)
}

// shed answers a call that gets no worker, and a copy that would replace the call. Neither was
// executed, so both clients may retry.
func (s *dispatcher) shed(c *Call) {
	for c != nil {
		var next *Call
		if c.dup != nil {
			next = s.drc.abandon(c)
		}
		c.startReply(&oncrpc.ReplyHeader{Accept: oncrpc.Success})
		w := c.watch()
		c.proc.Busy(c)
		if s.observer != nil {
			w.tell(s.observer, c, nil)
		}
		c.send()
		c = next
	}
}

// turn runs c on a worker, unless its connection has ended meanwhile: then c's reply is useless,
// and the client repeats the call over another connection. A copy that has already arrived runs
// instead of c.
func (s *dispatcher) turn(c *Call) {
	if c.Ctx.Err() == nil {
		s.run(c)
		return
	}
	if c.dup != nil {
		s.again(s.drc.abandon(c))
	}
	c.via.drop(c)
}

// again runs c, if not nil: a copy that replaces its original.
func (s *dispatcher) again(c *Call) {
	if c != nil && !s.pool.submit(c) {
		s.shed(c)
	}
}

// header decodes the call's RPC header and finds the procedure. After a failure the call has
// ended: with an error reply, or without one if the message is not a call.
func (s *dispatcher) header(c *Call, p *peer) bool {
	h := &c.header
	h.DecodeXDR(&c.args)
	c.XID = h.XID
	switch err := c.args.Err(); err {
	case nil:
	case oncrpc.ErrRPCVersion:
		s.refused.count(refusedHeader)
		c.answer(oncrpc.ReplyHeader{Denied: true, Reject: oncrpc.RPCMismatch, Low: oncrpc.RPCVersion, High: oncrpc.RPCVersion})
		return false
	case oncrpc.ErrCred:
		return s.denyAuth(c, oncrpc.AuthBadCred)
	case oncrpc.ErrVerf:
		return s.denyAuth(c, oncrpc.AuthBadVerf)
	default:
		s.refused.count(refusedHeader)
		c.via.drop(c)
		return false
	}
	if f := h.Cred.Flavor; f != oncrpc.FlavorNone && f != oncrpc.FlavorSys {
		return s.authenticateBy(c, h) && s.route(c, h)
	}
	if stat := c.authenticate(h, &p.creds); stat != oncrpc.AuthOK {
		return s.denyAuth(c, stat)
	}
	return s.route(c, h)
}

// denyAuth denies and counts the call, and returns false.
func (s *dispatcher) denyAuth(c *Call, stat oncrpc.AuthStat) bool {
	s.refused.count(refusedAuth)
	c.deny(stat)
	return false
}

// authenticate checks a credential of AUTH_NONE or AUTH_SYS, and its verifier.
func (c *Call) authenticate(h *oncrpc.CallHeader, creds *credCache) oncrpc.AuthStat {
	switch h.Cred.Flavor {
	case oncrpc.FlavorNone:
		c.Cred = Cred{}
	case oncrpc.FlavorSys:
		cred, ok := creds.sys(h.Cred.Body)
		if !ok {
			return oncrpc.AuthBadCred
		}
		c.Cred = cred
	}
	// Both flavours use a verifier of AUTH_NONE (RFC 5531 §10.1, appendix A).
	if h.Verf.Flavor != oncrpc.FlavorNone {
		return oncrpc.AuthBadVerf
	}
	return oncrpc.AuthOK
}

// A credCache remembers a connection's last credentials by their bytes, so that a caller's next
// call costs a comparison and no allocation.
type credCache struct {
	mu sync.Mutex // guards all

	entries [4]struct {
		body []byte
		cred Cred
	}
	hand int
}

// sys returns the credential encoded in body. All calls with the same bytes share its memory.
func (cc *credCache) sys(body []byte) (Cred, bool) {
	cc.mu.Lock()
	defer cc.mu.Unlock()
	for i := range cc.entries {
		if e := &cc.entries[i]; e.body != nil && bytes.Equal(e.body, body) {
			return e.cred, true
		}
	}
	var a oncrpc.AuthSys
	if a.Parse(body) != nil {
		return Cred{}, false
	}
	e := &cc.entries[cc.hand]
	cc.hand = (cc.hand + 1) % len(cc.entries)
	e.body = slices.Clone(body)
	e.cred = Cred{Flavor: oncrpc.FlavorSys, Machine: string(a.Machine), UID: a.UID, GID: a.GID, GIDs: slices.Clone(a.Groups())}
	return e.cred, true
}

// route finds the procedure, or answers with an error.
func (s *dispatcher) route(c *Call, h *oncrpc.CallHeader) bool {
	prog, low, high, known := s.programs.find(h.Prog, h.Vers)
	switch {
	case prog == nil && known:
		s.refused.count(refusedProgram)
		c.answer(oncrpc.ReplyHeader{Accept: oncrpc.ProgMismatch, Low: low, High: high})
	case prog == nil:
		s.refused.count(refusedProgram)
		c.accept(oncrpc.ProgUnavail)
	default:
		if c.prog, c.proc = prog, prog.procedure(h.Proc); c.secure.control != nil {
			c.proc = c.secure.control
		}
		if c.proc != nil {
			return true
		}
		s.refused.count(refusedProcedure)
		c.accept(oncrpc.ProcUnavail)
	}
	return false
}

// answer ends the call with a reply without results.
func (c *Call) answer(h oncrpc.ReplyHeader) {
	c.startReply(&h)
	c.via.reply(c)
}

func (c *Call) deny(stat oncrpc.AuthStat) {
	c.answer(oncrpc.ReplyHeader{Denied: true, Reject: oncrpc.AuthError, Auth: stat})
}

func (c *Call) accept(stat oncrpc.AcceptStat) { c.answer(oncrpc.ReplyHeader{Accept: stat}) }

// startReply begins the reply and discards results encoded so far.
func (c *Call) startReply(h *oncrpc.ReplyHeader) {
	// A procedure may have failed halfway: a reply has either results or an error status.
	c.res.Truncate(0)
	h.XID = c.XID
	covered := c.startVerifier(h)
	h.EncodeXDR(&c.res)
	if covered {
		c.secure.state.By.Reserve(&c.secure.state, &c.res)
	}
	c.secure.results = c.res.Len()
}

// run runs the procedure and ends the call. It returns the queue in which the call holds a share
// of its lane, or nil. After run, c may be another call.
func (s *dispatcher) run(c *Call) *connQueue {
	c.startReply(&oncrpc.ReplyHeader{Accept: oncrpc.Success})
	var w watch
	if s.observer != nil {
		w = c.watch()
	}
	err := s.protect(c)
	l := c.queue
	if c.standing == standsStays {
		c.here.check(c)
	}
	shed := err == ErrShed && c.proc.Busy != nil
	switch {
	case shed:
		c.startReply(&oncrpc.ReplyHeader{Accept: oncrpc.Success})
		c.proc.Busy(c)
		err = nil
	case err == nil:
		// Check even if the procedure did not: undecodable arguments must not yield results.
		err = c.ArgsErr()
	}
	if s.observer != nil {
		w.tell(s.observer, c, err)
	}
	if c.dup != nil {
		s.again(s.drc.finish(c, err == nil && !shed))
	}
	if c.chunkFault {
		s.refused.count(refusedChunks)
		c.via.rejectChunks(c)
		return l
	}
	if err != nil {
		c.refuse(err)
		return l
	}
	c.send()
	return l
}

// refuse answers with the status for a procedure's error.
func (c *Call) refuse(err error) {
	var auth *AuthError
	switch {
	case errors.Is(err, ErrGarbageArgs):
		c.accept(oncrpc.GarbageArgs)
	case errors.As(err, &auth):
		c.deny(auth.Stat)
	default:
		c.accept(oncrpc.SystemErr)
	}
}

// protect runs the procedure; a panic in it ends only this call.
func (s *dispatcher) protect(c *Call) (err error) {
	c.inside(1)
	defer func() {
		c.inside(-1)
		if r := recover(); r != nil {
			s.log.Warn("panic in a procedure", "procedure", c.proc.Name, "panic", fmt.Sprint(r), "stack", string(debug.Stack()))
			err = ErrSystem
		}
	}()
	return c.proc.Run(c)
}
