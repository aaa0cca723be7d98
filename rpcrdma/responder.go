// The responder: what serves calls on a connection, and how a call goes through it.

package rpcrdma

import (
	"net/netip"
	"sync"

	"github.com/nfsrdma/nfsrdma/rpcrdma/mem"
)

// A Handler serves inbound RPC calls.
type Handler interface {
	// ServeRPC is called on the connection's receive loop: it must not block.
	// It ends, now or later and on any goroutine, in exactly one of the
	// Request's Reply, RejectChunks and Drop.
	ServeRPC(r *Request)
}

// A responder serves the calls of one connection and direction. A call comes in by
// takeCall, on the receive loop, which gives it a Request; the Request goes from there
// through the states of responder_request.go until it is released, and takes the next call.
//
// Lock: mu guards the tables, and the link of each Request. It is held for some
// instructions at a time: nothing is posted, registered or copied with it held, and no
// Handler is called. The Budget's lock, and that of receives, are taken under it.
type responder struct {
	// Set once.
	c       *Conn
	handler Handler      // nil: there is no service, calls are dropped
	account *mem.Account // what the connection holds of the Budget
	client  netip.Addr   // whose calls are remembered in Config.Fatal
	setting sync.Mutex   // held by SetCredits, before mu

	mu       sync.Mutex
	ended    bool         // the connection has ended; nothing is put into free, pulls or backlog any more
	requests []*Request   // all that have been made; a work request names its Request by the index
	free     *Request     // those to use again, linked by Request.next
	serving  int          // calls taken in whose service has not ended; at most grant.allowed
	backlog  []*recvCtx   // calls that wait for a Request, in order; empty while free is not
	pulls    []*Request   // calls that wait for the Budget, in order
	waits    bool         // the first of pulls stands in the Budget's line
	written  recentWrites // STags of late
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

// getRequest takes a free Request, makes one, or returns nil when too many
// replies are on their way. The caller holds mu.
func (rs *responder) getRequest() *Request {
	if r := rs.free; r != nil {
		rs.free, r.next = r.next, nil
		return r
	}
	if len(rs.requests) >= 2*rs.c.cfg.MaxCredits+recvSlack {
		return nil
	}
	r := &Request{
		rs:    rs,
		index: uint64(len(rs.requests)),
	}
	rs.requests = append(rs.requests, r)
	return r
}

// at is the Request of an index.
func (rs *responder) at(index int) *Request {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	return rs.requests[index]
}

// release takes all from a Request that it holds, whichever way it has ended, and
// lets a call of the backlog have it.
func (rs *responder) release(r *Request) {
	bytes := r.free()
	rs.mu.Lock()
	rs.grant.heard(r, false)
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
		r.take(recv)
	}
}

// replySent releases a Request whose reply, or error, has left or was flushed.
func (rs *responder) replySent(index int, ok bool) {
	rs.mu.Lock()
	r := rs.requests[index]
	rs.grant.heard(r, ok)
	rs.mu.Unlock()
	rs.wrote(r, ok)
	rs.release(r)
}

// end lets go of the calls that nobody serves yet, and of those in lost, whose work
// was in the send line. No work is left with the RNIC. The Requests that the Handler
// has are released when it ends them.
func (rs *responder) end(lost []*Request) {
	rs.noteFatalWritten()
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
