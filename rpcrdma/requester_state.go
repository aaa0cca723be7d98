// The life of a Call: its states, and the only function that changes them.

package rpcrdma

import "fmt"

// callState is where a Call is in its life. The requester's lock guards it.
//
//	idle ──── no credit is free ────► queued ──── given up, connection ended ────► idle
//	 │                                  │
//	 │ a credit is free                 │ a credit is given
//	 └────────────────┬─────────────────┘
//	                  ▼
//	              credited ──── cannot be sent ────► idle
//	                  │  ▲
//	          entered │  │ withdrawn (from early too)
//	                  ▼  │
//	     ┌───────── posted ─────────┐
//	     │ reply      │ Do gives up │ send completed
//	     │            ▼             │
//	     │    ┌──── leaving ─────┐  │
//	     ▼    ▼ reply       send ▼  ▼
//	     early                  sent ──── Do gives up ────► abandoned ──── Release ────► orphaned
//	       │ send completed       │ reply                       │ reply                    │ reply
//	       └────► answered ◄──────┘                             ▼                          ▼
//	                 │ Release                                 idle                       idle
//	                 ▼
//	               idle
//
// The end of the connection counts as the reply, and as the completed send, of every
// call that has none yet. A Call that came back to idle out of orphaned, or by Release,
// goes to the free list; the others stay with the caller until Release.
type callState uint8

const (
	callIdle      callState = iota // in use by the caller, or on the free list; the peer knows nothing of it
	callQueued                     // in the queue for a credit; Do waits
	callCredited                   // holds a credit; Do exposes memory and builds the header
	callPosted                     // pending under its XID, and with the RNIC or in the send line; Do waits for the reply
	callLeaving                    // as posted, but Do waits only until the caller's memory is not needed any more
	callEarly                      // the reply is here, but the RNIC still has the send buffers; Do waits
	callSent                       // the RNIC has released the send buffers; Do waits for the reply
	callAnswered                   // reply, error, or end of the connection is here; the caller has it
	callAbandoned                  // Do has returned without a reply, whose credit, XID and memory stay taken
	callOrphaned                   // abandoned, and Release was called since
	callStates
)

var callStateNames = [callStates]string{"idle", "queued", "credited", "posted", "leaving", "early", "sent", "answered", "abandoned", "orphaned"}

func (s callState) String() string {
	if s < callStates {
		return callStateNames[s]
	}
	return fmt.Sprintf("callState(%d)", uint8(s))
}

// holdsCredit reports whether a call counts as in flight (RFC 8166 §3.3.1).
func (s callState) holdsCredit() bool { return s >= callCredited && s < callStates }

// givenUp reports whether Do has returned without a reply.
func (s callState) givenUp() bool { return s == callAbandoned || s == callOrphaned }

// awaitsSend reports whether somebody waits for the completion of the call's Send, and for nothing
// else first.
func (s callState) awaitsSend() bool { return s == callLeaving || s == callEarly }

// The arrows of the drawing: callNext[s] is what can follow s.
var callNext = [callStates][]callState{
	callIdle:      {callQueued, callCredited},
	callQueued:    {callIdle, callCredited},
	callCredited:  {callIdle, callPosted},
	callPosted:    {callCredited, callLeaving, callEarly, callSent, callAnswered},
	callLeaving:   {callEarly, callSent, callAnswered},
	callEarly:     {callCredited, callAnswered},
	callSent:      {callAnswered, callAbandoned},
	callAnswered:  {callIdle},
	callAbandoned: {callIdle, callOrphaned},
	callOrphaned:  {callIdle},
}

// onCallState is told of each change; tests hold them against callNext. It is written
// before the first Call is made, and nil in programs.
var onCallState func(k *Call, to callState)

// become is the one writer of a Call's state. Each arrow has one function that draws it:
//
//	takeCredit       idle → queued, idle → credited, queued → idle
//	wakeWaiters      queued → credited
//	enter            credited → posted
//	withdraw         posted → credited, early → credited
//	giveUp           posted → leaving, sent → abandoned
//	sendCompleted    posted → sent, leaving → sent, early → answered
//	answer           posted → early, leaving → early, sent → answered
//	fail             posted, leaving, early, sent → answered (never sent, or connection ended)
//	end              queued → idle
//	Release          abandoned → orphaned
//	giveCredit       credited, answered, abandoned, orphaned → idle
//
// The caller holds requester.mu.
func (k *Call) become(s callState) {
	if onCallState != nil {
		onCallState(k, s)
	}
	switch before, after := k.state.awaitsSend(), s.awaitsSend(); {
	case after && !before:
		k.rq.unsent.Add(1)
	case before && !after:
		k.rq.unsent.Add(-1)
	}
	k.state = s
}
