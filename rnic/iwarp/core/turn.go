// The right to transmit: the turn, its states, and one writer for each transition.

package core

import "strconv"

// A turnHolder says which goroutine has the turn.
type turnHolder uint8

const (
	turnFree     turnHolder = iota // free for any goroutine with something to send
	heldByCaller                   // a poster, or the receive loop after its batch: never waits
	heldByLoop                     // the transmit loop: woken, or running; it may wait
)

// A sendGate is a state of access to the turn.
type sendGate uint8

const (
	gateShut     sendGate = iota // start-up: sending waits for the peer's first FPDU, or our RTR
	gateOpen                     // the turn can be taken
	gateCorked                   // the receive loop runs handlers; their posts leave in one batch
	gateYielding                 // corked while the loop yields; large posts open the gate
)

// A Turn is the right to transmit on one stream. Exactly one goroutine builds FPDUs and passes them
// to TCP, because the segment order is the stream order (RFC 5041 §5.3 [R5041-067]). That goroutine
// has something to send at that moment, so no other goroutine must be woken.
//
//	holder                    take                      handOver
//	            ┌──────────┐ ──────► ┌──────────┐ ─────────────► ┌────────┐
//	            │   free   │         │  caller  │  socket full,  │  loop  │
//	            └──────────┘ ◄────── └──────────┘  budget spent  └────────┘
//	                 ▲       giveBack                                │
//	                 └──────────────── giveBack ─────────────────────┘
//
//	gate                      open                 cork                  yield
//	            ┌──────────┐ ──────► ┌──────────┐ ──────► ┌───────────┐ ──────► ┌──────────┐
//	            │   shut   │         │   open   │         │  corked   │         │ yielding │
//	            └──────────┘         └──────────┘ ◄────── └───────────┘         └──────────┘
//	                                       ▲      uncork                            │
//	                                       └─────────── uncork, or endYield ────────┘
//
// take needs an open gate and a free turn; takeCorked takes a free turn with a corked gate, and
// leaves the gate corked. A gate that leaves open takes the turn from no goroutine: a holder
// continues until it has nothing to send, or leaves the rest to the receive loop (giveBack). With a
// shut gate there is never a holder. Work.mu guards the Turn. No other code writes these fields.
type Turn struct {
	holder turnHolder
	gate   sendGate
}

// open allows sending.
func (t *Turn) open() {
	if t.gate == gateShut {
		t.gate = gateOpen
	}
}

// shut begins a connection that does not start by sending.
func (t *Turn) shut() { t.gate = gateShut }

// cork leaves posts to the receive loop, which uncorks the gate after its handlers.
func (t *Turn) cork() {
	if t.gate == gateOpen {
		t.gate = gateCorked
	}
}

// yield lets the receive loop yield to other goroutines, so that their posts also leave in its
// batch.
func (t *Turn) yield() {
	if t.gate == gateCorked {
		t.gate = gateYielding
	}
}

// endYield opens the gate early for a large post.
func (t *Turn) endYield() {
	if t.gate == gateYielding {
		t.gate = gateOpen
	}
}

// uncork ends a cork.
func (t *Turn) uncork() {
	if t.gate != gateShut {
		t.gate = gateOpen
	}
}

// take gives the turn to the caller, if it is free.
func (t *Turn) take() bool {
	if t.holder != turnFree || t.gate != gateOpen {
		return false
	}
	t.holder = heldByCaller
	return true
}

// takeCorked gives the turn to the caller while the gate is corked, if the turn is free: to send
// the posts so far.
func (t *Turn) takeCorked() bool {
	if t.holder != turnFree || t.gate != gateCorked {
		return false
	}
	t.holder = heldByCaller
	return true
}

// handOver passes the turn to the transmit loop, which the caller must wake.
func (t *Turn) handOver() { t.holder = heldByLoop }

// giveBack ends the turn.
func (t *Turn) giveBack() { t.holder = turnFree }

// mayBegin reports whether the gate lets a message begin: a holder continues while the gate is
// corked.
func (t *Turn) mayBegin() bool { return t.gate != gateShut }

// leave reports whether a holder must leave further work to the receive loop.
func (t *Turn) leave() bool { return t.gate == gateCorked || t.gate == gateYielding }

var (
	holderNames = [...]string{turnFree: "free", heldByCaller: "caller", heldByLoop: "loop"}
	gateNames   = [...]string{gateShut: "shut", gateOpen: "open", gateCorked: "corked", gateYielding: "yielding"}
)

func (h turnHolder) String() string {
	if int(h) < len(holderNames) {
		return holderNames[h]
	}
	return "holder(" + strconv.Itoa(int(h)) + ")"
}

func (g sendGate) String() string {
	if int(g) < len(gateNames) {
		return gateNames[g]
	}
	return "gate(" + strconv.Itoa(int(g)) + ")"
}

// String returns both states, for tests and debuggers.
func (t Turn) String() string { return "gate " + t.gate.String() + ", turn " + t.holder.String() }
