// A Conn's states, and the only function that changes them.

package cm

import "strconv"

// state is a Conn's state.
//
//	active side                              passive side
//
//	Connect                                  REQ
//	   ▼                                      ▼
//	reqSent ── REJ, no answer ──► released   reqReceived ── Reject ──► refused
//	   │ REP                                  │ Accept                    │
//	   ▼                                      ▼                           │ a while
//	repReceived ── REJ ──► timeWait          repSent ── REJ, DREQ         ▼
//	   │ Confirm                              │ RTU │                  released
//	   └──────────►  established  ◄───────────┘     ▼
//	                   │       │                 timeWait
//	        Disconnect │       │ DREQ, REJ, superseded
//	                   ▼       │
//	               dreqSent    │
//	   DREP, DREQ, REJ │       │
//	     or no answer  ▼       ▼
//	                   timeWait ── a while ──► released
//
//	datagram service
//
//	Resolve  ──► sidrReqSent ── SIDR_REP, no answer ──► released
//	SIDR_REQ ──► sidrReqReceived ── Answer ──► sidrRepSent ── a while ──► released
//	             sidrReqReceived ── a while ──► released
//
// A former CM's connection goes from released to dreqSent: see EndFormer.
//
// Disconnect also ends the other states, by a REJ instead of a DREQ: reqSent and sidrReqSent go to
// released, reqReceived to refused, repReceived and repSent to timeWait. A connection in repSent
// without an RTU is released: the requester may never have existed. Half-open states are
// reqReceived, repSent, refused, sidrReqReceived and sidrRepSent: eviction takes them to released
// (halfopen.go).
type state uint8

const (
	released        state = iota // final, in no table
	reqSent                      // repeating a REQ until its answer
	repReceived                  // the owner has the REP
	established                  // data flows
	dreqSent                     // repeating a DREQ until its answer
	timeWait                     // ended; packets or another DREQ can still come
	reqReceived                  // the owner has the REQ
	repSent                      // the REP is sent; no RTU yet
	refused                      // the REJ is sent, and answers repeated REQs
	sidrReqSent                  // repeating a SIDR_REQ until its answer
	sidrReqReceived              // the owner has the SIDR_REQ
	sidrRepSent                  // the SIDR_REP is sent, and answers repeated SIDR_REQs

	states = int(sidrRepSent) + 1
)

var stateNames = [states]string{"released", "REQ sent", "REP received", "established", "DREQ sent", "time-wait",
	"REQ received", "REP sent", "refused", "SIDR_REQ sent", "SIDR_REQ received", "SIDR_REP sent"}

func (s state) String() string {
	if int(s) < states {
		return stateNames[s]
	}
	return "state(" + strconv.Itoa(int(s)) + ")"
}

// halfOpen reports whether the state belongs to a request from an unproven address.
func (s state) halfOpen() bool {
	return s == reqReceived || s == repSent || s == refused || s == sidrReqReceived || s == sidrRepSent
}

// known reports whether the peer may have packets in flight to the queue pair.
func (s state) known() bool {
	return s == repReceived || s == repSent || s == established || s == dreqSent
}

// next[s] are the possible successors of state s. A Conn starts as released.
var next = [states][]state{
	released:        {reqSent, reqReceived, dreqSent, sidrReqSent, sidrReqReceived},
	reqSent:         {repReceived, released},
	repReceived:     {established, timeWait},
	established:     {dreqSent, timeWait},
	dreqSent:        {timeWait},
	timeWait:        {released},
	reqReceived:     {repSent, refused, released},
	repSent:         {established, timeWait, released},
	refused:         {released},
	sidrReqSent:     {released},
	sidrReqReceived: {sidrRepSent, released},
	sidrRepSent:     {released},
}

// stateHook, if not nil, is called for each change. Tests set stateHook before the first CM exists,
// to compare changes with next.
var stateHook func(k *Conn, to state)

// become is the only writer of a Conn's state, and updates the dependent tables. Each change has
// its function:
//
//	Connect, Resolve         released → reqSent, sidrReqSent
//	handleREQ, handleSIDRREQ released → reqReceived, sidrReqReceived
//	handleREP                reqSent → repReceived
//	Confirm                  repReceived → established
//	Accept                   reqReceived → repSent
//	handleRTU                repSent → established
//	Reject                   reqReceived → refused
//	Answer                   sidrReqReceived → sidrRepSent
//	sendDREQ                 established, released (EndFormer) → dreqSent
//	end                      any → timeWait, released
//	timeOut, evict           reqSent, sidrReqSent and half-open ones → released
//	handleTimer              timeWait, refused, sidrRepSent → released
//	handleSIDRREP            sidrReqSent → released
func (c *CM) become(k *Conn, to state) {
	if stateHook != nil {
		stateHook(k, to)
	}
	from := k.state
	k.state = to
	c.updateLists(k, from)
	switch to {
	case established:
		c.counters.Established++
	case released:
		c.timers.stop(k)
		c.unregister(k)
		c.emit(Event{Kind: Released, Conn: k})
	}
}
