// The right to transmit: the turn, its states, and one writer for each transition.

package core

import "strconv"

// A holder says which goroutine has the turn.
type holder uint8

const (
	nobody holder = iota // free for any goroutine with something to send
	caller               // a poster, or the receive loop after its batch: never waits for room
	loop                 // the transmit loop: woken, or running; it may wait
)

// A door is a state of access to the turn.
type door uint8

const (
	doorShut    door = iota // start-up: sending waits for the peer's first FPDU, or our RTR
	doorOpen                // the turn can be taken
	doorCollect             // the receive loop runs handlers, and sends their posts in one batch
	doorLinger              // the same while it yields to others; large posts open the door
)

// A Turn is the right to transmit on one stream. Exactly one goroutine builds FPDUs and passes them
// to TCP, because the segment order is the stream order (RFC 5041 §5.3 [R5041-067]). It is a
// goroutine that has something to send at that moment, so that no other one must be woken.
//
//	holder                    take                      handOver
//	            ┌──────────┐ ──────► ┌──────────┐ ─────────────► ┌────────┐
//	            │  nobody  │         │  caller  │  socket full,  │  loop  │
//	            └──────────┘ ◄────── └──────────┘  budget spent  └────────┘
//	                 ▲       giveBack                                │
//	                 └──────────────── giveBack ─────────────────────┘
//
//	door                      open                collect                linger
//	            ┌──────────┐ ──────► ┌──────────┐ ──────► ┌───────────┐ ──────► ┌──────────┐
//	            │   shut   │         │   open   │         │  collect  │         │  linger  │
//	            └──────────┘         └──────────┘ ◄────── └───────────┘         └──────────┘
//	                                       ▲      resume                            │
//	                                       └────────── resume, or interrupt ────────┘
//
// take needs an open door and a free turn; takePart does the same with a door at collect, and
// leaves it there. A door that leaves open takes the turn from no goroutine: a holder continues
// until it has nothing to send, or leaves the rest to the receive loop (giveBack). With a shut door
// there is never a holder. Work.mu guards the Turn. No other code writes these fields.
type Turn struct {
	holder holder
	door   door
}

// open allows sending.
func (t *Turn) open() {
	if t.door == doorShut {
		t.door = doorOpen
	}
}

// shut begins a connection that does not start by sending.
func (t *Turn) shut() { t.door = doorShut }

// collect leaves posts to the receive loop, which resumes after its handlers.
func (t *Turn) collect() {
	if t.door == doorOpen {
		t.door = doorCollect
	}
}

// linger lets the receive loop yield to other goroutines, so that their posts also leave in its
// batch.
func (t *Turn) linger() {
	if t.door == doorCollect {
		t.door = doorLinger
	}
}

// interrupt ends a linger that would delay a large post.
func (t *Turn) interrupt() {
	if t.door == doorLinger {
		t.door = doorOpen
	}
}

// resume ends a collect.
func (t *Turn) resume() {
	if t.door != doorShut {
		t.door = doorOpen
	}
}

// take gives the turn to the caller, if it is free.
func (t *Turn) take() bool {
	if t.holder != nobody || t.door != doorOpen {
		return false
	}
	t.holder = caller
	return true
}

// takePart gives the turn to the caller while posts are collected, if it is free: to send the posts
// so far.
func (t *Turn) takePart() bool {
	if t.holder != nobody || t.door != doorCollect {
		return false
	}
	t.holder = caller
	return true
}

// handOver passes the turn to the transmit loop, which the caller must wake.
func (t *Turn) handOver() { t.holder = loop }

// giveBack ends the turn.
func (t *Turn) giveBack() { t.holder = nobody }

// mayBegin reports whether the door lets a message begin: a holder continues while posts are
// collected.
func (t *Turn) mayBegin() bool { return t.door != doorShut }

// leave reports whether a holder must leave further work to the receive loop.
func (t *Turn) leave() bool { return t.door == doorCollect || t.door == doorLinger }

var (
	holderNames = [...]string{nobody: "nobody", caller: "caller", loop: "loop"}
	doorNames   = [...]string{doorShut: "shut", doorOpen: "open", doorCollect: "collect", doorLinger: "linger"}
)

func (h holder) String() string {
	if int(h) < len(holderNames) {
		return holderNames[h]
	}
	return "holder(" + strconv.Itoa(int(h)) + ")"
}

func (d door) String() string {
	if int(d) < len(doorNames) {
		return doorNames[d]
	}
	return "door(" + strconv.Itoa(int(d)) + ")"
}

// String returns both states, for tests and debuggers.
func (t Turn) String() string { return "door " + t.door.String() + ", turn of " + t.holder.String() }
