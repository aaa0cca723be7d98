// Who may transmit: the turn, its states, and one writer for each transition.

package core

import "strconv"

// A holder is who has the turn.
type holder uint8

const (
	nobody holder = iota // whoever has something to send takes it
	caller               // a poster, or the receive loop after its batch: never waits for room
	loop                 // the transmit loop: woken, or running; it may wait
)

// A door is whether the turn can be taken.
type door uint8

const (
	doorShut    door = iota // start-up: nothing may be sent before the first FPDU of the peer, or our RTR
	doorOpen                // it can
	doorCollect             // the receive loop runs handlers, and will send what they post in one batch
	doorLinger              // the same, and it lets others run meanwhile: much posted work opens the door
)

// A Turn is the right to transmit on one stream. Exactly one goroutine builds FPDUs and hands
// them to TCP, for the order of segments is the order of the stream (RFC 5041 §5.3 [R5041-067]); it
// is whoever has something to send at that moment, so that no goroutine has to be woken for it.
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
// take needs an open door and nobody as holder; takePart is the same with a door at collect, and
// leaves it there. A door that leaves open takes the turn from nobody: a holder goes on until it
// has nothing to send, or (giveBack) is asked to leave the rest to the receive loop. A shut door
// never has a holder. Turn is guarded by Work.mu. No other code writes these fields.
type Turn struct {
	holder holder
	door   door
}

// open lets sending begin.
func (t *Turn) open() {
	if t.door == doorShut {
		t.door = doorOpen
	}
}

// shut is the start of a connection that does not begin with sending.
func (t *Turn) shut() { t.door = doorShut }

// collect has posts left for the receive loop, which resumes when its handlers have run.
func (t *Turn) collect() {
	if t.door == doorOpen {
		t.door = doorCollect
	}
}

// linger is for a receive loop that lets others run, so that what they post leaves in its batch
// too.
func (t *Turn) linger() {
	if t.door == doorCollect {
		t.door = doorLinger
	}
}

// interrupt ends a linger that would hold back much.
func (t *Turn) interrupt() {
	if t.door == doorLinger {
		t.door = doorOpen
	}
}

// resume ends what collect began.
func (t *Turn) resume() {
	if t.door != doorShut {
		t.door = doorOpen
	}
}

// take gives the turn to the caller, if it can be taken.
func (t *Turn) take() bool {
	if t.holder != nobody || t.door != doorOpen {
		return false
	}
	t.holder = caller
	return true
}

// takePart gives the turn to the caller while posts are collected, if nobody has it: to send those
// that there are.
func (t *Turn) takePart() bool {
	if t.holder != nobody || t.door != doorCollect {
		return false
	}
	t.holder = caller
	return true
}

// handOver passes the turn on to the transmit loop, which has to be woken.
func (t *Turn) handOver() { t.holder = loop }

// giveBack ends the turn.
func (t *Turn) giveBack() { t.holder = nobody }

// mayBegin reports whether the door lets a message begin: a holder goes on while others collect.
func (t *Turn) mayBegin() bool { return t.door != doorShut }

// leave reports whether a holder that could go on is to leave the rest to the receive loop.
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

// String is both states, for tests and debuggers.
func (t Turn) String() string { return "door " + t.door.String() + ", turn of " + t.holder.String() }
