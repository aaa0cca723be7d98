// The responder: the serving side of a connection, and the path of a call through it.

package rpcrdma

import (
	"net/netip"
	"sync"

	"github.com/nfsrdma/nfsrdma/rpcrdma/mem"
)

// A Handler serves inbound RPC calls.
type Handler interface {
	// ServeRPC takes one call. The call ends, now or later and on any goroutine, in exactly one of
	// the Request's Reply, RejectChunks and Drop. Nothing is received on the connection before
	// ServeRPC has returned, so it MUST NOT wait, and returns true, unless another goroutine takes
	// over the receive side (Request.CanFollow, Conn.Follow). Then it may wait, and returns false.
	ServeRPC(r *Request) (leads bool)
}

// A responder serves a connection's calls in one direction. The receive loop hands a call to
// takeCall, which gives it a Request. The Request goes through the states of responder_request.go
// until it is released, and then takes the next call.
//
// Lock: mu guards the tables, and the link of each Request. It is held for a few instructions at a
// time: nothing is posted, registered or copied under it, and no Handler is called. The locks of
// the Budget and of receives are taken under it.
type responder struct {
	// Set once.
	c       *Conn
	handler Handler      // nil: there is no service, calls are dropped
	account *mem.Account // the connection's account in the Budget
	client  netip.Addr   // the address for Config.Fatal
	setting sync.Mutex   // held by SetCredits, before mu

	mu       sync.Mutex
	ended    bool         // the connection has ended; free, pulls and backlog take nothing more
	requests []*Request   // all Requests ever made; the index is in a work request id
	free     *Request     // idle Requests for reuse, linked by Request.next
	serving  int          // accepted calls still being served; at most grant.allowed
	backlog  []*recvCtx   // calls waiting for a Request, in order; empty while free is not
	pulls    []*Request   // calls waiting for the Budget, in order
	waits    bool         // the first of pulls waits for the Budget
	written  recentWrites // STags of recent replies
	grant    grants
}

func (rs *responder) init(c *Conn) {
	rs.c = c
	rs.handler = c.cfg.Handler
	rs.account = c.cfg.Budget.Open(rs.budgetServed)
	n := recvSlack
	if rs.handler != nil {
		n += c.cfg.Credits
	}
	rs.grant = newGrants(c.cfg.Credits, n)
}

func (rs *responder) at(index int) *Request {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	return rs.requests[index]
}

// release frees all resources of an ended Request, and uses it for the next call in the backlog.
func (rs *responder) release(r *Request) {
	bytes := r.free()
	rs.mu.Lock()
	rs.grant.replyDone(r, false)
	ended := rs.ended
	var recv *recvCtx
	if len(rs.backlog) > 0 && !ended {
		recv = rs.backlog[0]
		rs.backlog = append(rs.backlog[:0], rs.backlog[1:]...)
	} else if !ended {
		r.next, rs.free = rs.free, r
	}
	rs.mu.Unlock()

	if bytes > 0 {
		rs.account.Give(bytes)
	}
	if ended && r.pullMR != nil {
		r.pullMR.Dereg()
	}
	if recv != nil {
		r.here = false
		r.take(recv)
	}
}

// replySent releases a Request after its reply or error was sent or flushed.
func (rs *responder) replySent(index int, ok bool) {
	rs.mu.Lock()
	r := rs.requests[index]
	rs.grant.replyDone(r, ok)
	rs.mu.Unlock()
	rs.recordWrites(r, ok)
	rs.release(r)
}

// end releases the calls not yet served, and the Requests in lost, which come from the waitlist. No
// work is left with the RNIC. Requests at the Handler are released when the Handler ends them.
func (rs *responder) end(lost []*Request) {
	rs.recordFatalWritten()
	rs.mu.Lock()
	rs.ended = true
	lost = append(lost, rs.pulls...)
	rs.serving -= len(rs.backlog)
	rs.pulls, rs.backlog = nil, nil
	free := rs.free
	rs.free = nil
	rs.mu.Unlock()
	rs.account.Leave()
	for _, r := range lost {
		r.discard()
	}
	for ; free != nil; free = free.next {
		if free.pullMR != nil {
			free.pullMR.Dereg()
		}
	}
}
