// The life of a Request: its states, and the only function that changes them.

package rpcrdma

import "fmt"

// requestState is where a Request is in its life, and so who owns it.
//
//	free ──── a call arrives ────► taken ──── ERR_VERS, ERR_CHUNK ────► replying
//	                                │  │ no Read chunks
//	                    Read chunks │  └──────────────► served
//	                                ▼
//	                             waiting ──── connection ended ────► free
//	                                │ budget taken
//	                                ▼
//	                             pulling ──── ERR_CHUNK ────► replying
//	                                │    └─── connection ended ────► free
//	                    Reads ended │
//	                                ▼
//	                             served ──── Drop ────► free
//	                                │ Reply, RejectChunks
//	                                ▼
//	                            replying ──── sent, or flushed ────► free
//
// Until it is replying the call holds its receive buffer and a credit (responder.serving
// counts it); both are given back before the reply is posted, since the reply lets
// the peer use the credit again.
type requestState uint32

const (
	requestFree     requestState = iota // on the free list, or about to be
	requestTaken                        // the receive loop's: its header is checked
	requestWaiting                      // in responder.pulls
	requestPulling                      // the RNIC's, or in the send line: its RDMA Reads are under way
	requestServed                       // the Handler's
	requestReplying                     // the RNIC's, or in the send line: reply or error
	requestStates
)

var requestStateNames = [requestStates]string{"free", "taken", "waiting", "pulling", "served", "replying"}

func (s requestState) String() string {
	if s < requestStates {
		return requestStateNames[s]
	}
	return fmt.Sprintf("requestState(%d)", uint32(s))
}

// The arrows of the drawing: requestNext[s] is what can follow s.
var requestNext = [requestStates][]requestState{
	requestFree:     {requestTaken},
	requestTaken:    {requestWaiting, requestServed, requestReplying},
	requestWaiting:  {requestPulling, requestFree},
	requestPulling:  {requestServed, requestReplying, requestFree},
	requestServed:   {requestReplying, requestFree},
	requestReplying: {requestFree},
}

// onRequestState is told of each change; tests hold them against requestNext. It is
// written before the first connection is made, and nil in programs.
var onRequestState func(from, to requestState)

// become is the one writer of a Request's state, apart from endServed. Whoever owns the
// Request calls it; each arrow has one function that draws it:
//
//	take         free → taken
//	queuePull    taken → waiting
//	startPull    waiting → pulling
//	serve        taken → served, pulling → served
//	refuse       taken → replying, pulling → replying
//	discard      waiting, pulling, replying → free (the connection has ended)
//	free         replying → free
func (r *Request) become(s requestState) {
	if onRequestState != nil {
		onRequestState(r.currentState(), s)
	}
	r.state.Store(uint32(s))
}

// endServed is the Handler's part: served → replying or free. It reports false when the
// Handler has ended the Request before: of two goroutines that try, one succeeds.
func (r *Request) endServed(s requestState) bool {
	if !r.state.CompareAndSwap(uint32(requestServed), uint32(s)) {
		return false
	}
	if onRequestState != nil {
		onRequestState(requestServed, s)
	}
	return true
}

func (r *Request) currentState() requestState { return requestState(r.state.Load()) }
