// The life of a Conn: its states, and the only function that changes them.

package cm

import "strconv"

// state is where a Conn is in its life.
//
//	active side                              passive side                              datagram service
//
//	Connect                                  REQ                                       Resolve     SIDR_REQ
//	   ▼                                      ▼                                           ▼            ▼
//	reqSent ── REJ, no answer ──► released   reqReceived ── Reject ──► refused         asking      asked ── Answer
//	   │ REP                                  │ Accept                    │               │            │       ▼
//	   ▼                                      ▼                           │ a while       │ SIDR_REP,  │    answered
//	repReceived ── REJ ──► timeWait          repSent ── REJ, DREQ         ▼               │ no answer  │ a while │ a while
//	   │ Confirm                              │ RTU │                  released           ▼            ▼       ▼
//	   └──────────►  established  ◄───────────┘     ▼                                  released     released released
//	                   │       │                 timeWait
//	        Disconnect │       │ DREQ, REJ, superseded
//	                   ▼       │
//	               dreqSent    │
//	   DREP, DREQ, REJ │       │
//	     or no answer  ▼       ▼
//	                   timeWait ── a while ──► released
//
// What another CM has left goes from released to dreqSent: see EndFormer.
//
// Disconnect ends the other states too, by a REJ instead of a DREQ: reqSent and asking go to
// released, reqReceived to refused, repReceived and repSent to timeWait. A repSent whose RTU does
// not come is released: who asked may never have been there. Half-open are reqReceived, repSent,
// refused, asked and answered: any of them goes to released when it has to make room (halfopen.go).
type state uint8

const (
	released    state = iota // of no use any more, not in any table
	reqSent                  // a REQ is repeated until it is answered
	repReceived              // the owner has the REP
	established              // data flows
	dreqSent                 // a DREQ is repeated until it is answered
	timeWait                 // over; packets of it may still come, and a DREQ that has to be answered again
	reqReceived              // the owner has the REQ
	repSent                  // the REP is out, and no RTU has come
	refused                  // the REJ is out, and answers the REQ's repetitions
	asking                   // a SIDR_REQ is repeated until it is answered
	asked                    // the owner has the SIDR_REQ
	answered                 // the SIDR_REP is out, and answers the SIDR_REQ's repetitions

	states = int(answered) + 1
)

var stateNames = [states]string{"released", "REQ sent", "REP received", "established", "DREQ sent", "time-wait",
	"REQ received", "REP sent", "refused", "SIDR_REQ sent", "SIDR_REQ received", "SIDR_REP sent"}

func (s state) String() string {
	if int(s) < states {
		return stateNames[s]
	}
	return "state(" + strconv.Itoa(int(s)) + ")"
}

// halfOpen reports whether a connection of this state was asked for by an address that has not
// proven itself.
func (s state) halfOpen() bool {
	return s == reqReceived || s == repSent || s == refused || s == asked || s == answered
}

// known reports whether the peer may have packets on their way to the queue pair.
func (s state) known() bool {
	return s == repReceived || s == repSent || s == established || s == dreqSent
}

// The arrows of the drawing: next[s] is what can follow s. A Conn begins as released.
var next = [states][]state{
	released:    {reqSent, reqReceived, dreqSent, asking, asked},
	reqSent:     {repReceived, released},
	repReceived: {established, timeWait},
	established: {dreqSent, timeWait},
	dreqSent:    {timeWait},
	timeWait:    {released},
	reqReceived: {repSent, refused, released},
	repSent:     {established, timeWait, released},
	refused:     {released},
	asking:      {released},
	asked:       {answered, released},
	answered:    {released},
}

// onState is told of each change; tests hold them against next. It is written before the first CM
// is made, and nil in programs.
var onState func(k *Conn, to state)

// become is the one writer of a Conn's state, and keeps the tables that depend on it. Each arrow
// has one function that draws it:
//
//	Connect, Resolve      released → reqSent, asking
//	request, ask          released → reqReceived, asked
//	reply                 reqSent → repReceived
//	Confirm               repReceived → established
//	Accept                reqReceived → repSent
//	ready                 repSent → established
//	Reject                reqReceived → refused
//	Answer                asked → answered
//	sendDREQ              established, or released of what another CM has left → dreqSent
//	end                   any → timeWait, released
//	giveUp, evict         reqSent, asking and half-open ones → released
//	due                   timeWait, refused, answered → released
//	resolved              asking → released
func (c *CM) become(k *Conn, to state) {
	if onState != nil {
		onState(k, to)
	}
	from := k.state
	k.state = to
	c.place(k, from)
	switch to {
	case established:
		c.counters.Established++
	case released:
		c.timers.stop(k)
		c.forget(k)
		c.tell(Event{Kind: Released, Conn: k})
	}
}
