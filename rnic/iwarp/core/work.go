// What is to be sent: posted work, Reads of ours that the peer has to answer, and Reads of its that
// we have to.

package core

import (
	"sync"

	"github.com/nfsrdma/nfsrdma/rnic"
	"github.com/nfsrdma/nfsrdma/rnic/iwarp/ddp"
)

// An entry is a posted work request, with what this provider keeps with it.
type entry = rnic.SendEntry[progress]

// progress is how far a work request has come.
type progress struct {
	sinkSTag rnic.STag // Read: the sink's STag when it was posted; 0: it has none
	atomicID uint32    // atomic operation: how its request is named
	sent     bool      // all of it is in a batch
	end      uint64    // stream position after its last byte
}

var sendChunks = sync.Pool{New: func() any { return new(rnic.SendChunk[progress]) }}

// awaited reports whether the peer answers a work request, which then takes one of the ORD:
// Reads, and what goes the same way (RFC 7306 §5.2).
func awaited(op rnic.Opcode) bool {
	return op == rnic.OpRead || op == rnic.OpReadInvalidate || op.IsAtomic()
}

// sinkTO is where the bytes go that a Read asks for; one of no bytes need not have a sink.
func sinkTO(e *entry) uint64 {
	if e.MR == nil {
		return 0
	}
	return e.MR.Base() + e.Offset
}

// An answer is one inbound Read Request or atomic operation, held until the last byte of its
// response is with TCP (RFC 5040 §6.1).
type answer struct {
	sinkSTag, srcSTag rnic.STag
	sinkTO, srcTO     uint64
	size              uint32
	ddp               [ddp.UntaggedLen]byte // of the request, for a Terminate
	length            uint16                // ULPDU length of the request
	built             bool
	end               uint64 // stream position after its last byte, when built

	atomic   bool // an Atomic Response, of what follows; the operation has been done
	atomicID uint32
	original uint64
}

// Work is all that one stream has to send, and the Turn to send it. Posters, the receive loop and
// the transmitter meet here, and nowhere else, so it has a lock of its own: it is the only lock in
// this package, is held for a few instructions, and no method of another part runs under it but
// those of the CQ.
type Work struct {
	mu    sync.Mutex
	sq    rnic.SendQueue[progress] // guarded by mu, as is all that follows
	turn  Turn
	next  answering
	reads readsOut
	irq   readsIn

	drained chan struct{} // not nil: closed when nothing is outstanding
	opened  chan struct{} // not nil: closed when the RTR, which is the first of all, is done
	rtrDone func(rnic.Status)
}

// answering is whose message is next when both have one ready: they take turns, so that neither
// starves.
type answering bool

const (
	ourWork   answering = false
	peersRead answering = true
)

// A Begun is a message that has been taken from Work to be cut into segments: exactly one is set.
type begun struct {
	e *entry
	r *answer
}

// Init makes an empty Work for at most depth work requests.
func (w *Work) Init(q *rnic.ProviderQP, depth int) {
	w.sq.Init(q, depth, &sendChunks)
	w.rtrDone = w.noteRTR
}

// Start takes posts from now on. With gated, nothing is sent before ungate.
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

// Post queues work requests, all or none, and reports whether it is the caller who has to transmit
// them.
//
// The poster who gets the turn transmits on its own goroutine: one system call, and no other
// goroutine is woken. If somebody else has it, that one finds the new work before it gives the turn
// back, since Rest looks at the queue under the same lock: no work request is left lying.
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
	if w.sq.Waiting() >= lingerPosts || w.sq.Last().Bytes >= lingerBytes {
		w.turn.interrupt()
	}
	return w.claim(), nil
}

// Posts that are not held back for the receive loop to come round again.
const (
	lingerPosts = 64
	lingerBytes = 32 << 10
)

// push appends a work request. The caller holds mu and has checked for room.
func (w *Work) push(p *rnic.Posted) *entry {
	i := w.sq.Push(p)
	e := w.sq.At(i)
	e.P.sinkSTag, e.P.sent, e.P.end = 0, false, 0
	switch {
	case p.Op.IsAtomic():
		e.P.atomicID = i // unique among those that are outstanding
	case awaited(p.Op) && p.MR != nil:
		e.P.sinkSTag = p.MR.STag()
	}
	return e
}

// claim gives the turn to the caller if there is something to send, and it can be had. The caller
// holds mu.
func (w *Work) claim() bool { return w.ready() && w.turn.take() }

// ready reports whether a message can begin. The caller holds mu.
func (w *Work) ready() bool {
	return w.turn.mayBegin() && (w.irq.waiting() || w.workReady())
}

// workReady reports whether the next work request can begin: it waits for a free ORD
// slot (RFC 5040 §6.1 [R5040-174]), or after a fence for all Reads to end.
func (w *Work) workReady() bool {
	e := w.sq.Next()
	switch {
	case e == nil:
		return false
	case e.Fence && !awaited(e.Op), e.Op == rnic.OpLocalInvalidate:
		return w.reads.count() == 0
	case awaited(e.Op):
		// The queue is in order, so a Read that has to wait holds up what was posted after it;
		// responses to the peer's Reads go on, or two peers that wait for each other would wait for
		// ever.
		return w.reads.count() < w.reads.ord
	}
	return true
}

// pick takes the next message: responses and work requests in turn, when both are there.
func (w *Work) pick() (b begun, ok bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.noteMade()
	if !w.turn.mayBegin() {
		return b, false
	}
	// A local invalidation is no message: invalidateNext does it when the batch in hand has left.
	work := w.workReady() && w.sq.Next().Op != rnic.OpLocalInvalidate
	switch {
	case w.irq.waiting() && (w.next == peersRead || !work):
		w.next = ourWork
		return begun{r: w.irq.begin()}, true
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

// made is told before bytes leave, when every message that was picked is whole in a batch.
func (w *Work) made() {
	w.mu.Lock()
	w.noteMade()
	w.mu.Unlock()
}

// noteMade publishes requests as outstanding, and no longer counts responses that the peer might
// have. From then on the receive loop can complete the requests, and their entries can be used
// again: a peer might answer before a request has left, or without having one. So this comes when
// nothing of the entries is needed any more: no message that was picked is still to be cut. The
// caller holds mu.
func (w *Work) noteMade() {
	w.reads.made = w.reads.tail
	w.irq.built = w.irq.next
}

// taken completes what TCP has taken all of, up to stream position pos: Sends and Writes (RFC 5040
// §6: they are with the LLP), and responses to the peer's Reads. It reports whether the CQ had
// room.
func (w *Work) taken(pos uint64) (fits bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for i, end := w.sq.Begun(); i != end; i++ {
		e := w.sq.At(i)
		if e.Done || awaited(e.Op) {
			continue
		}
		// In order of the stream, so nothing after it is complete either.
		if !e.P.sent || e.P.end > pos {
			break
		}
		e.Done = true
	}
	w.irq.taken(pos)
	return w.retire()
}

// retire completes what is done, oldest first, and closes drained when nothing is left. The caller
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

// invalidateNext does local invalidations that are next, which send nothing.
// The lock is not held while one is done: it waits for placements.
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
		if w.sq.Next() != e { // flushed meanwhile
			return
		}
		w.sq.Begin()
		e.Done = true
		w.retire()
	}
}

// Rest gives the turn back unless there is more to send, and reports whether it did. The
// caller has the turn.
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

// HandOver passes the turn to the transmit loop, which the caller then wakes.
func (w *Work) HandOver() {
	w.mu.Lock()
	w.turn.handOver()
	w.mu.Unlock()
}

// TurnOfLoop reports whether it is the transmit loop that has to send.
func (w *Work) TurnOfLoop() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.turn.holder == loop
}

// Collect has posts wait until Resume: the receive loop runs handlers.
func (w *Work) Collect() {
	w.mu.Lock()
	w.turn.collect()
	w.mu.Unlock()
}

// ReleasePart reports whether the caller has to send what has been posted since Collect, although
// more is to come.
func (w *Work) ReleasePart() (mine bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.ready() && w.turn.takePart()
}

// Linger reports whether the receive loop ought to let others run before it resumes: only if
// nothing waits to be sent. What they post leaves in its batch, unless it is much.
func (w *Work) Linger() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.sq.Waiting() > 0 || w.irq.waiting() {
		return false
	}
	w.turn.linger()
	return true
}

// Resume has posts sent at once again, and reports whether the caller has to send what was
// collected.
func (w *Work) Resume() (mine bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.turn.resume()
	return w.claim()
}

// ungate lets sending begin: the peer has turned to FPDUs.
func (w *Work) ungate() {
	w.mu.Lock()
	w.turn.open()
	w.mu.Unlock()
}

// Gated reports whether nothing may be sent yet (RFC 5044 §7.1.2 rule 4).
func (w *Work) Gated() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return !w.turn.mayBegin()
}

// Close takes no more posts; the channel is closed when all work is done.
func (w *Work) Close() <-chan struct{} {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.sq.Close()
	c := make(chan struct{})
	w.drained = c
	w.noteDrained()
	return c
}

// Outstanding reports whether work of ours, or a response, has not been done.
func (w *Work) Outstanding() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return !w.sq.Empty() || !w.irq.empty()
}

// Flush completes all that is not complete as flushed, oldest first. Nothing is sent any more when
// it is called.
func (w *Work) Flush() {
	w.mu.Lock()
	defer w.mu.Unlock()
	// The lists of Reads name entries of the send queue: they are emptied before those are flushed.
	// The peer's requests complete nothing of ours, they are forgotten.
	w.reads.clear()
	w.irq.clear()
	w.sq.Flush(w.rtrDone)
	w.noteDrained()
}
