// Queued answers of an RC responder: acknowledges, Read data and atomic results, in order and
// bounded.

package core

import (
	"github.com/nfsrdma/nfsrdma/rnic"
	"github.com/nfsrdma/nfsrdma/rnic/roce/packet"
)

// An answer is a queued acknowledge, or data owed to the peer.
type answer struct {
	op       packet.Operation // OpAck, OpReadResponse, OpAtomicAck
	psn      uint32           // PSN of the answer's next packet
	syndrome packet.Syndrome  // OpAck
	original uint64           // OpAtomicAck

	begin uint32 // OpReadResponse, OpAtomicAck: first PSN requested
	last  uint32 // the last PSN
	first bool   // OpReadResponse: no packet of the answer has been built
	va    uint64 // address of the remaining data
	rkey  rnic.STag
	left  uint32
	again bool // the answer is for a repeated request
}

// responding is an RC QP's responder state.
type responding struct {
	msn uint32 // completed messages
	// last is the PSN of the last packet taken for a Send or Write; acknowledges carry it. With
	// lastValid, last is at most half a circle back, so that last cannot look like a future PSN.
	last      uint32
	lastValid bool
	empty     bool // the last acknowledge reported zero receives
	nakSent   bool // the peer knows that it must retransmit from the expected PSN
	gap       gap
	reorder   reorderBuffer
	fault     *Fault // the QP ends when the queued answers have left

	// The answer ring. head and tail only count up and are masked on use. Since adjacent
	// acknowledges merge, the ring has room for IRD answers with data, IRD answers to repeated
	// requests, and an acknowledge after each of them.
	ring           []answer
	head, tail     uint32
	reads, replays int // queued answers with data, to new and to repeated requests

	cnp notifying

	atomics []saved // the latest IRD results, for repeated requests
	oldest  int
}

// saved is an atomic operation's original value, by PSN.
type saved struct {
	psn    uint32
	valid  bool
	before uint64
}

// init allocates room for ird answers with data.
func (r *responding) init(ird int) {
	size := 4
	for size < 4*ird+2 {
		size *= 2
	}
	r.ring, r.atomics = make([]answer, size), make([]saved, ird)
}

func (r *responding) at(i uint32) *answer { return &r.ring[i&uint32(len(r.ring)-1)] }

// push queues an answer; the caller makes sure of room. push counts answers with data, and merges
// adjacent acknowledges.
func (r *responding) push(a answer) {
	switch {
	case a.op != packet.OpAck && a.again:
		r.replays++
	case a.op != packet.OpAck:
		r.reads++
	case r.head != r.tail && r.at(r.tail-1).op == packet.OpAck:
		// The newer acknowledge covers more. A queued NAK stays: a NAK is sent only once, and no
		// later acknowledge can replace it.
		if old := r.at(r.tail - 1); old.syndrome.Kind() == packet.KindACK || a.syndrome.Kind() != packet.KindACK {
			*old = a
		}
		return
	}
	*r.at(r.tail) = a
	r.tail++
}

// pop removes the oldest answer.
func (r *responding) pop() {
	switch a := r.at(r.head); {
	case a.op == packet.OpAck:
	case a.again:
		r.replays--
	default:
		r.reads--
	}
	r.head++
}

// replay answers a repeated request. If its first answer is still queued or partly sent, that
// answer restarts at the requested PSN and ends at the requested end: the requester has given up
// on packets in flight. Otherwise replay queues another answer, within the bound.
func (r *responding) replay(a answer, ird int) {
	for i := r.head; i != r.tail; i++ {
		old := r.at(i)
		if old.op != a.op || distance(a.last, old.begin) > distance(old.last, old.begin) {
			continue
		}
		// The peer asks again for packets that have left already.
		if distance(a.psn, old.psn) >= halfCircle {
			a.again = old.again
			*old = a
		}
		return
	}
	if r.replays < ird {
		a.again = true
		r.push(a)
	}
}

func (r *responding) clear() { r.head, r.reads, r.replays = r.tail, 0, 0 }

// remember records an atomic operation's original value in place of the oldest value. The list is
// empty only if IRD is 0, which permits no atomics.
func (r *responding) remember(psn uint32, before uint64) {
	r.atomics[r.oldest] = saved{psn, true, before}
	r.oldest = (r.oldest + 1) % len(r.atomics)
}

func (r *responding) remembered(psn uint32) (before uint64, ok bool) {
	for i := range r.atomics {
		if s := &r.atomics[i]; s.valid && s.psn == psn {
			return s.before, true
		}
	}
	return 0, false
}

// nextAnswer builds the next answer packet, and returns its length; 0: no answer is queued.
func (qp *QP) nextAnswer(b []byte) (n int) {
	r := &qp.res
	for r.head != r.tail && n == 0 {
		a := r.at(r.head)
		switch a.op {
		case packet.OpReadResponse:
			n = qp.readData(a, b)
		case packet.OpAtomicAck:
			h := packet.Header{BTH: qp.bth(packet.RCAtomicAck, a.psn), Original: a.original}
			h.AETH = qp.aeth(packet.ACK(packet.CreditUnlimited))
			n = h.Put(b)
			r.pop()
		default:
			h := packet.Header{BTH: qp.bth(packet.RCAck, a.psn), AETH: qp.aeth(a.syndrome)}
			n = h.Put(b)
			r.pop()
		}
	}
	if r.head == r.tail && r.fault != nil {
		qp.becomeERR(r.fault)
	}
	return n
}

// readData builds the next packet of Read data. It checks access rights for each packet; if the
// memory has been revoked meanwhile, readData returns 0 and queues a NAK instead.
func (qp *QP) readData(a *answer, b []byte) (n int) {
	size := min(int(a.left), qp.attrs.PathMTU)
	ends := a.psn == a.last
	op := packet.RCReadResponseMiddle
	switch {
	case a.first && ends:
		op = packet.RCReadResponseOnly
	case a.first:
		op = packet.RCReadResponseFirst
	case ends:
		op = packet.RCReadResponseLast
	}
	h := packet.Header{BTH: qp.bth(op, a.psn)}
	if op != packet.RCReadResponseMiddle {
		h.AETH = qp.aeth(packet.ACK(packet.CreditUnlimited))
	}
	h.Pad = packet.PadFor(size)
	qp.out.again = a.again
	n = h.Put(b)
	if size > 0 {
		mr := qp.q.Find(nil, a.rkey)
		src, fault := qp.q.Borrow(mr, a.rkey, a.va, size, rnic.RemoteRead)
		if fault != rnic.MemOK {
			psn := a.psn
			if a.again {
				// The peer may have received all data and then released the memory: a late
				// repeated request must not end the QP. If the peer does wait for the data, the
				// NAK informs it.
				qp.res.replays--
				// Replace the answer in place, so that a queued acknowledge stays.
				*a = answer{op: packet.OpAck, psn: psn, syndrome: packet.NAK(packet.NAKRemoteAccess)}
				return 0
			}
			qp.res.clear()
			qp.res.fault = &Fault{packet.NAKRemoteAccess, DropAccess}
			qp.res.push(answer{op: packet.OpAck, psn: psn, syndrome: packet.NAK(packet.NAKRemoteAccess)})
			return 0
		}
		// CopyTail computes the CRC only for multiples of 256 bytes. Then no pad follows the tail.
		qp.out.tail = packet.CopyTail(b[n:], src)
		n += size
		qp.q.Return(mr)
	}
	n += padAfter(b[n:], h.Pad)
	a.va += uint64(size)
	a.left -= uint32(size)
	a.first = false
	if a.psn = nextPSN(a.psn); ends {
		qp.res.pop()
	}
	return n
}
