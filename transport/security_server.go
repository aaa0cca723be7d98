// Calls with a security flavor, on the server.

package transport

import (
	"errors"

	"github.com/nfsrdma/nfsrdma/rpcrdma"
	"github.com/nfsrdma/nfsrdma/xdr"
	"github.com/nfsrdma/nfsrdma/xdr/oncrpc"
)

// A callSecurity is a Call's security state.
type callSecurity struct {
	state   Secured
	control *Procedure        // replaces procedure 0
	verf    oncrpc.OpaqueAuth // of the reply; Body aliases state's scratch memory
	results int               // offset of the plain results in the reply
}

func (s *callSecurity) clear() {
	s.state.clear()
	s.control, s.verf, s.results = nil, oncrpc.OpaqueAuth{}, 0
}

// Security returns the call's security state, for its SecurityFlavor.
func (c *Call) Security() *Secured { return &c.secure.state }

// Credential returns the bytes of the call's credential, in the call's memory.
func (c *Call) Credential() []byte { return c.header.Cred.Body }

// ReplyVerifier begins a successful reply with this verifier, for a SecurityFlavor's control
// procedure.
func (c *Call) ReplyVerifier(v oncrpc.OpaqueAuth) {
	c.secure.verf = v
	c.startReply(&oncrpc.ReplyHeader{Accept: oncrpc.Success})
}

// authenticateBy lets the flavor of h's credential check the call. false: the call has ended.
func (s *dispatcher) authenticateBy(c *Call, h *oncrpc.CallHeader) bool {
	if h.Cred.Flavor == oncrpc.FlavorTLS {
		return s.denyAuth(c, c.refuseTLS(h))
	}
	f := s.flavor(h.Cred.Flavor)
	if f == nil {
		return s.denyAuth(c, oncrpc.AuthRejectedCred) // the client may use another flavor
	}
	head := c.args.Before()[:credOffset+xdr.RoundUp(len(h.Cred.Body))]
	switch v := f.Authenticate(c, h, head); v.Action {
	case ActionDeny:
		c.secure.state.clear() // a denied reply has no verifier
		return s.denyAuth(c, v.Stat)
	case ActionDrop:
		s.refused.count(refusedReplay)
		c.via.drop(c)
		return false
	default:
		c.secure.control = v.Control
	}
	// The context names the user, so the socket's owner does not matter.
	c.Owner = Owner{Kind: OwnerRemote}
	return true
}

// credOffset is the offset of the credential's body in a call.
const credOffset = 32

func (s *dispatcher) flavor(f oncrpc.Flavor) SecurityFlavor {
	for _, known := range s.security {
		if known.Flavor() == f {
			return known
		}
	}
	return nil
}

// open unprotects the arguments of an authenticated call. false: the call has ended.
func (s *dispatcher) open(c *Call) bool {
	if !c.secure.state.covers() {
		return true
	}
	// RFC 8166 §6.1: nothing in a protected body is eligible for a chunk.
	req := c.via.request(c)
	if c.args.ItemsLeft() > 0 || req != nil && req.Offered()&rpcrdma.OfferedWrite != 0 {
		s.refused.count(refusedChunks)
		c.via.rejectChunks(c)
		return false
	}
	if c.secure.state.By.Open(&c.secure.state, &c.args) != nil {
		s.refused.count(refusedAuth)
		c.accept(oncrpc.GarbageArgs)
		return false
	}
	return true
}

// startVerifier sets h's verifier, and returns whether protected results follow.
func (c *Call) startVerifier(h *oncrpc.ReplyHeader) (covered bool) {
	s := &c.secure.state
	if h.Denied {
		return false
	}
	if s.By != nil && c.secure.verf.Body == nil {
		c.secure.verf = oncrpc.OpaqueAuth{Flavor: oncrpc.FlavorGSS, Body: s.By.Verifier(s)}
	}
	h.Verf = c.secure.verf
	return s.covers() && h.OK()
}

// results returns the reply's plain results, without items, before send.
func (c *Call) results() []byte { return c.res.Bytes()[c.secure.results:] }

// replay sends the results of an equal call.
func (c *Call) replay(results []byte) {
	c.startReply(&oncrpc.ReplyHeader{Accept: oncrpc.Success})
	c.res.Raw(results)
	c.send()
}

// send ends the call with its results, protected if necessary. Without memory for sealed results
// there is no reply (RFC 2203 §5.3.3.4.4), and the client repeats the call.
func (c *Call) send() {
	s := &c.secure.state
	if s.covers() {
		c.moveLarge()
		if s.By.Seal(s, &c.res, c.secure.results-sealedStart, (*sealMemory)(c)) != nil {
			c.via.drop(c)
			return
		}
	}
	c.via.reply(c)
}

// sealedStart is what Protection.Reserve appends: a length and a sequence number.
const sealedStart = 8

// moveLarge lets a follower receive while the leader seals or sends a long reply.
func (c *Call) moveLarge() {
	if recordSize(&c.res) > tcpWindow {
		c.handOver()
	}
}

// handOver makes a follower the leader if c's goroutine, which runs or has run c, is the leader.
func (c *Call) handOver() {
	if c.leads() && c.standing != standsArrived {
		c.beginRun()
		c.here.lead.Busy(c.run)
		c.here = nil
	}
}

// A sealMemory is a Call whose procedure has ended, as the Memory for its results.
type sealMemory Call

// Buffer implements Memory. Other calls do not wait for the memory.
func (m *sealMemory) Buffer(n int) []byte {
	c := (*Call)(m)
	if b := c.via.buffer(c, n); b != nil {
		return b
	}
	c.handOver()
	return c.awaitBuffer(n)
}

// ErrNoMemory is Protection.Seal's error if Memory has none.
var ErrNoMemory = errors.New("rpc: no memory to seal a message")
