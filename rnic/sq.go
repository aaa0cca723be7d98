// The send queue: posted work, outstanding RDMA Reads of ours and of the peer, and who may transmit.

package rnic

import "sync"

// A sendEntry is a posted work request on its way.
type sendEntry struct {
	SendWR
	length   uint32 // octets of the message
	sinkSTag STag   // Read: the sink's STag when it was posted
	ours     bool   // an RTR: the ULP knows nothing of it
	value    uint64 // atomic operation: what was there before
	atomicID uint32 // and how its request is named
	sent     bool   // all of it is in a transmit batch, or done with
	end      uint64 // stream position behind its last octet
	done     bool
	status   Status
	segLen   int                 // Write: the cut that crcs were made for
	ncrcs    int                 // of its FPDUs: all, or none where the transmitter is to make them
	crcs     [earlyCRCMax]uint32 // in order
}

// awaited says whether the peer answers a work request, which then takes one of the ORD.
func (op Opcode) awaited() bool { return op == OpRead || op == OpReadInvalidate || op.atomic() }

// sinkTO is where the octets go that a Read asks for; one of no octets may have no sink.
func (e *sendEntry) sinkTO() uint64 {
	if e.MR == nil {
		return 0
	}
	return e.MR.base + e.Offset
}

// isRead is for the Reads and what goes the same way: atomic operations.
func (e *sendEntry) isRead() bool { return e.Op.awaited() }

// A readResponse is one inbound Read Request, held until the last octet of its
// response is with TCP (RFC 5040 §6.1).
type readResponse struct {
	sinkSTag STag
	sinkTO   uint64
	srcSTag  STag
	srcTO    uint64
	size     uint32
	ddp      [18]byte // of the request, for a Terminate
	length   uint16   // ULPDU length of the request
	built    bool
	atomic   bool // an Atomic Response, of what follows; the operation has been done
	atomicID uint32
	original uint64
	end      uint64
}

// A sendQueue is the ring of posted work. Entries [head, next) are with the
// transmitter or done and wait for older ones; [next, tail) have not been begun.
// All indexes count for ever and are masked on use.
type sendQueue struct {
	// set once
	depth int
	mask  uint32

	mu               sync.Mutex
	ring             []*sendChunk // guarded by mu, as is all that follows; see at
	head, next, tail uint32
	open             bool // posts are taken
	gated            bool // responder before the first FPDU (RFC 5044 §7.1.2 rule 4), or initiator before its RTR
	corked           bool // the receive loop will transmit when its batch is done
	yields           bool // it lets others run meanwhile
	active           bool // somebody has the right to transmit
	onLoop           bool // it is the transmit loop, woken or about to be

	// our outstanding Reads, as indexes into ring: [readHead, readTail)
	reads              []uint32
	readMask           uint32
	readHead, readTail uint32
	ord                uint32

	// the peer's Reads: [irqHead, irqNext) built, [irqNext, irqTail) to build
	irq                       []readResponse
	irqMask                   uint32
	irqHead, irqNext, irqTail uint32
	irqBuilt                  uint32 // [irqHead, irqBuilt) are whole in a transmit batch
	ird                       uint32

	turn    bool          // whose message is next when both are ready: true for a response
	drained chan struct{} // not nil: closed when nothing is outstanding
	opened  chan struct{} // not nil: closed when the RTR, which is the first of all, is done
}

func (sq *sendQueue) init(depth int) {
	sq.depth = max(depth, 1)
	size := ringSize(sq.depth + chunkEntries) // so that no chunk has entries of both ends
	sq.ring, sq.mask = make([]*sendChunk, size/chunkEntries), uint32(size-1)
}

// The ring is made of chunks, which are there only while they hold work: most
// connections have a deep queue and little in it.
const chunkEntries = 16

type sendChunk [chunkEntries]sendEntry

var sendChunks = sync.Pool{New: func() any { return new(sendChunk) }}

// setReads sizes the read queues as negotiated.
func (sq *sendQueue) setReads(ird, ord int) {
	sq.ird, sq.ord = uint32(ird), uint32(ord)
	n := ringSize(2 * max(ird, 1)) // those that leave at this moment, and those that follow them
	sq.irqMask = uint32(n - 1)     // made by the first
	n = ringSize(max(ord, 1))
	sq.reads, sq.readMask = make([]uint32, n), uint32(n-1)
}

// at is entry i, one of [head, tail).
func (sq *sendQueue) at(i uint32) *sendEntry {
	return &sq.ring[(i&sq.mask)/chunkEntries][i%chunkEntries]
}

// room makes sure that there is an entry at tail.
func (sq *sendQueue) room() {
	if c := &sq.ring[(sq.tail&sq.mask)/chunkEntries]; *c == nil {
		*c = sendChunks.Get().(*sendChunk)
	}
}

// vacate lets go of the chunk before head when the last entry of it has been retired: nobody
// holds an entry that is not in [head, tail), and none of those is in it.
func (sq *sendQueue) vacate() {
	if sq.head%chunkEntries == 0 {
		c := &sq.ring[((sq.head-1)&sq.mask)/chunkEntries]
		sendChunks.Put(*c)
		*c = nil
	}
}

// push appends a copy of wr. The caller holds mu and has checked for room.
func (sq *sendQueue) push(wr *SendWR, early *earlyCRCs) {
	sq.room()
	e := sq.at(sq.tail)
	e.SendWR = *wr
	e.length = wr.Length
	switch {
	case e.Op.atomic(), e.Op.immediate():
		e.length, e.atomicID = 8, sq.tail
	case e.isRead() && wr.MR != nil:
		e.sinkSTag = wr.MR.STag()
	case e.isRead():
		e.sinkSTag = 0
	default:
		e.length = uint32(total(wr.SGL))
	}
	e.ours = false
	e.value, e.sent, e.done, e.status, e.end = 0, false, false, WCSuccess, 0
	e.ncrcs = 0
	if early != nil {
		early.take(e)
	}
	sq.tail++
}

// claim gives the caller the right to transmit if there is something to
// transmit, nobody has it and nothing holds it back. The caller holds mu.
func (sq *sendQueue) claim() bool {
	if sq.active || sq.corked || !sq.ready() {
		return false
	}
	sq.active = true
	return true
}

// ready says whether a message can begin. The caller holds mu.
func (sq *sendQueue) ready() bool {
	return !sq.gated && (sq.irqNext != sq.irqTail || sq.sqReady())
}

// sqReady says whether the next work request can begin: it waits for a free ORD
// slot (RFC 5040 §6.1, R5040-174), or behind a fence for all Reads to end.
func (sq *sendQueue) sqReady() bool {
	if sq.next == sq.tail {
		return false
	}
	e := sq.at(sq.next)
	out := sq.readTail - sq.readHead
	switch {
	case e.Fence && !e.isRead(), e.Op == OpLocalInvalidate:
		return out == 0
	case e.isRead():
		return out < sq.ord
	}
	return true
}

// retire reports what is complete at the head of the queue, in posting order
// whatever its kind, and tells whether the CQ had room. The caller holds mu.
func (sq *sendQueue) retire(qp *QP) (fits bool) {
	fits = true
	for sq.head != sq.next {
		e := sq.at(sq.head)
		if !e.done {
			break
		}
		if !e.ours && (!e.Unsignaled || e.status != WCSuccess) {
			wc := WC{ID: e.ID, QP: qp, Op: e.Op, Status: e.status, Len: e.length, Value: e.value}
			fits = qp.sendCQ.push(wc) && fits
		}
		if sq.opened != nil {
			sq.begun(e)
		}
		e.SendWR = SendWR{}
		sq.head++
		sq.vacate()
	}
	if sq.drained != nil && sq.head == sq.tail && sq.irqHead == sq.irqTail {
		close(sq.drained)
		sq.drained = nil
	}
	return fits
}

// taken marks as complete what the kernel has taken all of: Sends and Writes
// (RFC 5040 §6: TCP has them), and responses to the peer's Reads. The caller holds mu.
func (sq *sendQueue) taken(qp *QP, pos uint64) bool {
	for i := sq.head; i != sq.next; i++ {
		e := sq.at(i)
		if e.done || e.isRead() {
			continue
		}
		if !e.sent || e.end > pos {
			break
		}
		e.done = true
	}
	for sq.irqHead != sq.irqNext {
		r := &sq.irq[sq.irqHead&sq.irqMask]
		if !r.built || r.end > pos {
			break
		}
		sq.irqHead++
	}
	return sq.retire(qp)
}

// flush completes all that is not complete as flushed, oldest first.
func (sq *sendQueue) flush(qp *QP) {
	sq.mu.Lock()
	defer sq.mu.Unlock()
	sq.open = false
	sq.next = sq.tail
	for i := sq.head; i != sq.tail; i++ {
		if e := sq.at(i); !e.done {
			e.done, e.status = true, WCFlushErr
		}
	}
	sq.irqHead, sq.irqNext, sq.irqBuilt = sq.irqTail, sq.irqTail, sq.irqTail
	sq.readHead = sq.readTail
	sq.retire(qp)
}

// oldestRead is the Read that the next response is for.
func (sq *sendQueue) oldestRead() *sendEntry {
	sq.mu.Lock()
	defer sq.mu.Unlock()
	if sq.readHead == sq.readTail {
		return nil
	}
	return sq.at(sq.reads[sq.readHead&sq.readMask])
}

// irqFull says whether all inbound Reads that were agreed on are here. A
// response that is whole in a batch does not count: the peer may have it, and
// its next Read may be here, before the write to TCP has returned.
func (sq *sendQueue) irqFull() bool {
	sq.mu.Lock()
	defer sq.mu.Unlock()
	return sq.irqTail-sq.irqBuilt >= sq.ird || sq.irqTail-sq.irqHead > sq.irqMask
}

func (sq *sendQueue) pushIRQ(r *readResponse) {
	sq.mu.Lock()
	if sq.irq == nil {
		sq.irq = make([]readResponse, sq.irqMask+1)
	}
	sq.irq[sq.irqTail&sq.irqMask] = *r
	sq.irqTail++
	sq.mu.Unlock()
}

// yield says whether the receive loop may let others run before it transmits:
// only if nothing waits to be sent.
func (sq *sendQueue) yield() bool {
	sq.mu.Lock()
	defer sq.mu.Unlock()
	sq.yields = sq.next == sq.tail && sq.irqNext == sq.irqTail
	return sq.yields
}

// Posts that are not held back for the receive loop to come round again.
const (
	yieldPosts  = 64
	yieldOctets = 32 << 10
)

// uncorkEarly ends a yield that would hold back much. The caller holds mu and has pushed.
func (sq *sendQueue) uncorkEarly() {
	if sq.yields && (sq.tail-sq.next >= yieldPosts || sq.at(sq.tail-1).length >= yieldOctets) {
		sq.corked, sq.yields = false, false
	}
}
