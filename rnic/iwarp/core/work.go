// Everything to send: posted work, our Reads waiting for the peer, and the peer's Reads waiting for
// us; and the right to send it, the turn.

package core

import (
	"strconv"
	"sync"

	"github.com/nfsrdma/nfsrdma/rnic"
)

// An entry is a posted work request with this provider's data for it.
type entry = rnic.SendEntry[progress]

// progress is the state of a work request.
type progress struct {
	sinkSTag rnic.STag // Read: the sink's STag at posting time; 0: no sink
	atomicID uint32    // atomic operation: its request's identifier
	sent     bool      // the whole message is in a batch
	end      uint64    // stream position after its last byte
}

var sendChunks = sync.Pool{New: func() any { return new(rnic.SendChunk[progress]) }}

// Work is everything one stream has to send, and the Turn to send it. Posters, the receive loop and
// the transmitter meet only here, so Work has its own lock, the only one in this package. The lock
// is held for a few instructions; under it only the CQ's methods run.
type Work struct {
	mu    sync.Mutex
	sq    rnic.SendQueue[progress] // guarded by mu, as is all below
	turn  Turn
	next  nextSide
	reads readsOut
	irq   readsIn

	drained chan struct{} // not nil: closed when nothing is outstanding
	opened  chan struct{} // not nil: closed when the RTR, the first message, is done
	rtrDone func(rnic.Status)
}

// nextSide selects the next message when both sides have a message ready: the sides take turns, so
// that neither starves.
type nextSide bool

const (
	ourWork   nextSide = false
	peersRead nextSide = true
)

// A pickedMessage is a message taken from Work to be cut into segments: exactly one field is set.
type pickedMessage struct {
	e *entry
	r *peerRequest
}

// Init makes an empty Work for at most depth work requests.
func (w *Work) Init(q *rnic.ProviderQP, depth int) {
	w.sq.Init(q, depth, &sendChunks)
	w.rtrDone = w.noteRTR
}

// Start makes the queue accept posts. With gated, sending waits for ungate.
func (w *Work) Start(ird, ord int, gated bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.reads.init(ord)
	w.irq.init(ird)
	if gated {
		w.turn.shut()
	} else {
		w.turn.open()
	}
	w.sq.Open()
}

// Post queues work requests, all or none, and reports whether the caller must transmit them.
//
// A poster that gets the turn transmits on its own goroutine: one system call, and no other
// goroutine is woken. Otherwise the holder finds the new work before it gives the turn back,
// because Rest checks the queue under the same lock: no work request is forgotten.
func (w *Work) Post(wrs []rnic.Posted) (mine bool, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if err := w.sq.Room(len(wrs)); err != nil {
		return false, err
	}
	for i := range wrs {
		if w.reads.ord == 0 && awaited(wrs[i].Op) {
			return false, errNoORD
		}
	}
	for i := range wrs {
		w.push(&wrs[i])
	}
	if w.sq.Waiting() >= maxYieldPosts || w.sq.Last().Bytes >= maxYieldBytes {
		w.turn.endYield()
	}
	return w.claim(), nil
}

// push appends a work request. The caller holds mu and has checked for room.
func (w *Work) push(p *rnic.Posted) *entry {
	i := w.sq.Push(p)
	e := w.sq.At(i)
	e.P.sinkSTag, e.P.sent, e.P.end = 0, false, 0
	switch {
	case p.Op.IsAtomic():
		e.P.atomicID = i // unique among outstanding requests
	case awaited(p.Op) && p.MR != nil:
		e.P.sinkSTag = p.MR.STag()
	}
	return e
}

// claim gives the turn to the caller if there is something to send and the turn is free. The caller
// holds mu.
func (w *Work) claim() bool { return w.ready() && w.turn.take() }

// ready reports whether a message can begin. The caller holds mu.
func (w *Work) ready() bool {
	return w.turn.mayBegin() && (w.irq.waiting() || w.workReady())
}

// workReady reports whether the next work request can begin. A Read may wait for a free ORD slot
// (RFC 5040 §6.1 [R5040-174]), a fenced request for all Reads to end.
func (w *Work) workReady() bool {
	e := w.sq.Next()
	switch {
	case e == nil:
		return false
	case e.Fence && !awaited(e.Op), e.Op == rnic.OpLocalInvalidate:
		return w.reads.count() == 0
	case awaited(e.Op):
		// The queue is in order, so a waiting Read delays all later posts. Responses to the peer's
		// Reads continue; otherwise two peers waiting for each other would wait forever.
		return w.reads.count() < w.reads.ord
	}
	return true
}

// pick takes the next message, alternating between responses and work requests if both are there.
func (w *Work) pick() (b pickedMessage, ok bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.noteMade()
	if !w.turn.mayBegin() {
		return b, false
	}
	// A local invalidation is no message: invalidateNext does it when the current batch has left.
	work := w.workReady() && w.sq.Next().Op != rnic.OpLocalInvalidate
	switch {
	case w.irq.waiting() && (w.next == peersRead || !work):
		w.next = ourWork
		return pickedMessage{r: w.irq.begin()}, true
	case work:
		w.next = peersRead
		i := w.sq.Begin()
		b.e = w.sq.At(i)
		if awaited(b.e.Op) {
			w.reads.push(i)
		}
		return b, true
	}
	return b, false
}

// made is called before bytes leave, when every picked message is complete in a batch.
func (w *Work) made() {
	w.mu.Lock()
	w.noteMade()
	w.mu.Unlock()
}

// noteMade publishes requests as outstanding, and stops counting responses that the peer might
// have. From then on the receive loop can complete the requests, and their entries can be reused: a
// peer might answer before a request has left, or without having received one. So noteMade must
// come after the last use of the entries, when no picked message is still to be cut. The caller
// holds mu.
func (w *Work) noteMade() {
	w.reads.made = w.reads.tail
	w.irq.built = w.irq.next
}

// taken completes all work that TCP has completely taken, up to stream position pos: Sends and
// Writes (RFC 5040 §6: the LLP has them), and responses to the peer's Reads. It reports
// whether the CQ had room.
func (w *Work) taken(pos uint64) (fits bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for i, end := w.sq.Begun(); i != end; i++ {
		e := w.sq.At(i)
		if e.Done || awaited(e.Op) {
			continue
		}
		// Entries are in stream order, so no later entry is complete either.
		if !e.P.sent || e.P.end > pos {
			break
		}
		e.Done = true
	}
	w.irq.taken(pos)
	return w.retire()
}

// retire completes finished work, oldest first, and closes drained when no work is left. The caller
// holds mu.
func (w *Work) retire() (fits bool) {
	fits = w.sq.Retire(w.rtrDone)
	w.noteDrained()
	return fits
}

func (w *Work) noteDrained() {
	if w.drained != nil && w.sq.Empty() && w.irq.empty() {
		close(w.drained)
		w.drained = nil
	}
}

// invalidateNext executes local invalidations at the front of the queue; they send nothing. It
// releases the lock during each invalidation, which waits for placements.
func (w *Work) invalidateNext() {
	for {
		e := w.sq.Next()
		if e == nil || !w.ready() || w.irq.waiting() || e.Op != rnic.OpLocalInvalidate {
			return
		}
		mr := e.MR
		w.mu.Unlock()
		mr.Invalidate()
		w.mu.Lock()
		if w.sq.Next() != e { // the queue was flushed meanwhile
			return
		}
		w.sq.Begin()
		e.Done = true
		w.retire()
	}
}

// Rest gives the turn back unless there is more to send, and reports whether it did. The caller has
// the turn.
func (w *Work) Rest() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.turn.leave() {
		w.invalidateNext()
	}
	if !w.turn.leave() && w.ready() {
		return false
	}
	w.turn.giveBack()
	return true
}

// GiveUp gives the turn back when the stream has ended.
func (w *Work) GiveUp() {
	w.mu.Lock()
	w.turn.giveBack()
	w.mu.Unlock()
}

// HandOver passes the turn to the transmit loop, which the caller must wake.
func (w *Work) HandOver() {
	w.mu.Lock()
	w.turn.handOver()
	w.mu.Unlock()
}

// TurnOfLoop reports whether the transmit loop must send.
func (w *Work) TurnOfLoop() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.turn.holder == heldByLoop
}

// Cork makes posts wait until Uncork: the receive loop runs handlers.
func (w *Work) Cork() {
	w.mu.Lock()
	w.turn.cork()
	w.mu.Unlock()
}

// ClaimCorked reports whether the caller must send the posts since Cork, although more will come.
func (w *Work) ClaimCorked() (mine bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.ready() && w.turn.takeCorked()
}

// YieldCorked reports whether the receive loop should let others run before Uncork: only if nothing
// waits to be sent. Their posts leave in its batch, unless they are large.
func (w *Work) YieldCorked() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.sq.Waiting() > 0 || w.irq.waiting() || w.turn.gate != gateCorked {
		return false
	}
	w.turn.yield()
	return true
}

// Uncork makes posts leave at once again, and reports whether the caller must send the waiting
// ones.
func (w *Work) Uncork() (mine bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.turn.uncork()
	return w.claim()
}

// ungate allows sending: the peer has sent an FPDU.
func (w *Work) ungate() {
	w.mu.Lock()
	w.turn.open()
	w.mu.Unlock()
}

// Gated reports whether sending must wait (RFC 5044 §7.1.2 rule 4).
func (w *Work) Gated() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return !w.turn.mayBegin()
}

// Close refuses further posts; the channel is closed when all work is done.
func (w *Work) Close() <-chan struct{} {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.sq.Close()
	c := make(chan struct{})
	w.drained = c
	w.noteDrained()
	return c
}

// Outstanding reports whether work of ours, or a response, is unfinished.
func (w *Work) Outstanding() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return !w.sq.Empty() || !w.irq.empty()
}

// Flush completes all unfinished work as flushed, oldest first. Sending has ended before it.
func (w *Work) Flush() {
	w.mu.Lock()
	defer w.mu.Unlock()
	// The Read lists name entries of the send queue, so they are emptied before the queue is
	// flushed. The peer's requests complete nothing here and are dropped.
	w.reads.clear()
	w.irq.clear()
	w.sq.Flush(w.rtrDone)
	w.noteDrained()
}

// A turnHolder is the kind of goroutine that has the turn.
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
// continues until it has nothing to send, or leaves the rest to the receive loop (giveBack). Start
// and PostRTR shut the gate before the first post, so with a shut gate there is never a holder.
// Work.mu guards the Turn. No other code writes these fields.
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
