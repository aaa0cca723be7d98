// The requester's states without a peer: the effect of the connection's end on each.

package rpcrdma

import (
	"errors"
	"testing"

	"github.com/nfsrdma/nfsrdma/rnic"
	"github.com/nfsrdma/nfsrdma/rnic/iwarp"
)

// pending reports whether the table finds the call by its XID.
func (s callState) pending() bool {
	return s == callPosted || s == callLeaving || s == callSent || s.givenUp()
}

// The end of a connection leaves no call waiting, in any state, and does not touch calls that wait
// for nothing.
func TestEndOfConnectionInEachState(t *testing.T) {
	paths := map[callState][]callState{ // the path to each state
		callIdle:      {},
		callCredited:  {callCredited},
		callPosted:    {callCredited, callPosted},
		callLeaving:   {callCredited, callPosted, callLeaving},
		callEarly:     {callCredited, callPosted, callEarly},
		callSent:      {callCredited, callPosted, callSent},
		callAnswered:  {callCredited, callPosted, callSent, callAnswered},
		callAbandoned: {callCredited, callPosted, callSent, callAbandoned},
		callOrphaned:  {callCredited, callPosted, callSent, callAbandoned, callOrphaned},
	}
	after := map[callState]callState{callIdle: callIdle, callCredited: callCredited, callPosted: callAnswered, callLeaving: callAnswered,
		callEarly: callAnswered, callSent: callAnswered, callAnswered: callAnswered, callAbandoned: callIdle, callOrphaned: callIdle}
	for state, path := range paths {
		c, err := newConn(iwarp.Open(rnic.DeviceConfig{}), Config{Credits: 1})
		if err != nil {
			t.Fatalf("newConn: %v", err)
		}
		rq, k := &c.requester, nullCall(c, 7)
		for _, s := range path {
			k.become(s)
		}
		if state.holdsCredit() {
			rq.credits.inflight++
		}
		if state.pending() {
			k.xid = 7
			rq.pending.put(k)
		}
		if state.givenUp() {
			rq.abandoned++
		}
		var lost []*Call
		if state == callEarly {
			lost = append(lost, k) // not pending any more
		}
		rq.end(errStalled, lost)
		if k.state != after[state] || rq.pending.n != 0 || rq.abandoned != 0 {
			t.Errorf("%v: is %v, %d pending, %d abandoned, want %v, 0, 0", state, k.state, rq.pending.n, rq.abandoned, after[state])
		}
		woken := len(k.wake) == 1
		want := k.state == callAnswered && state != callAnswered
		if woken != want {
			t.Errorf("%v: woken %v, want %v", state, woken, want)
		}
		if want && !errors.Is(k.err, errStalled) {
			t.Errorf("%v: ended with %v, want %v", state, k.err, errStalled)
		}
		c.qp.Close()
	}
}
