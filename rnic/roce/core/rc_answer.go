// Answers of the responder of RC on their way: acknowledges, and data of Reads and atomics, in
// order and bounded.

package core

import (
	"github.com/nfsrdma/nfsrdma/rnic"
	"github.com/nfsrdma/nfsrdma/rnic/roce/packet"
)

// An answer is an acknowledge, or data that is owed.
type answer struct {
	op       packet.Operation // OpAck, OpReadResponse, OpAtomicAck
	psn      uint32           // of the next packet
	syndrome packet.Syndrome  // OpAck
	original uint64           // OpAtomicAck

	begin uint32 // OpReadResponse, OpAtomicAck: the PSN that was asked from
	last  uint32 // the last PSN
	first bool   // OpReadResponse: nothing of it has been sent
	va    uint64 // where the rest of the data is
	rkey  rnic.STag
	left  uint32
	again bool // the request came once more
}

// responding is the responder's side of an RC QP.
type responding struct {
	msn  uint32 // messages that were completed
	last uint32 // PSN of the last packet of a Send or Write that was taken: the one that acknowledges have,
	// lastValid: it is not further back than half of all PSNs, so that it is none that is to come.
	lastValid bool
	empty     bool // the peer has been told that there are no receives
	told      bool // the peer knows that it has to send again from the expected PSN on
	gap       gap
	early     early
	fault     *Fault // the QP ends when the answers have left

	// A ring; head and tail count on and are masked on use. It has room for IRD answers with data,
	// IRD to requests that came once more, and an acknowledge after each: acknowledges that follow
	// one another become one.
	ring           []answer
	head, tail     uint32
	reads, replays int // answers with data, of both kinds

	cnp notifying

	atomics []saved // the last of them, IRD at most, for requests that come again
	oldest  int
}

// saved is what an atomic operation found.
type saved struct {
	psn    uint32
	valid  bool
	before uint64
}

// init makes room for ird answers with data.
func (r *responding) init(ird int) {
	size := 4
	for size < 4*ird+2 {
		size *= 2
	}
	r.ring, r.atomics = make([]answer, size), make([]saved, ird)
}

func (r *responding) at(i uint32) *answer { return &r.ring[i&uint32(len(r.ring)-1)] }

// push adds an answer, for which there is room: those with data are counted, and of acknowledges no
// two stand together.
func (r *responding) push(a answer) {
	switch {
	case a.op != packet.OpAck && a.again:
		r.replays++
	case a.op != packet.OpAck:
		r.reads++
	case r.head != r.tail && r.at(r.tail-1).op == packet.OpAck:
		// Each acknowledges what the one before it would have. A NAK stays until it has been sent:
		// what it tells is told once, and no acknowledge that comes after it says more.
		if old := r.at(r.tail - 1); old.syndrome.Kind() == packet.KindACK || a.syndrome.Kind() != packet.KindACK {
			*old = a
		}
		return
	}
	*r.at(r.tail) = a
	r.tail++
}

// pop drops the oldest answer.
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

// replay answers a request once more. If its answer waits, or goes on, it begins anew where the
// request asks, and ends there: who asks for a part again has given up what is on its way. One more
// is queued only within the bound.
func (r *responding) replay(a answer, ird int) {
	for i := r.head; i != r.tail; i++ {
		old := r.at(i)
		if old.op != a.op || distance(a.last, old.begin) > distance(old.last, old.begin) {
			continue
		}
		if distance(a.psn, old.psn) >= halfCircle { // packets that have left already are asked for again
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

// remember keeps what an atomic operation found, in place of the oldest one. There is no room only
// where IRD is 0, and no atomic is taken.
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

// nextAnswer builds the next packet of an answer, and returns its length; 0: there is none.
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

// readData builds the next packet of a Read's data, or 0 and a NAK in its place when the memory has
// been taken away meanwhile. Rights are checked with each packet.
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
				// The peer may have had all of the data, and then given up the memory: a request
				// that comes late ends nothing. If it does wait for it, this tells it.
				qp.res.replays--
				*a = answer{op: packet.OpAck, psn: psn, syndrome: packet.NAK(packet.NAKRemoteAccess)} // in its place: an acknowledge that waits stays
				return 0
			}
			qp.res.clear()
			qp.res.fault = &Fault{packet.NAKRemoteAccess, DropAccess}
			qp.res.push(answer{op: packet.OpAck, psn: psn, syndrome: packet.NAK(packet.NAKRemoteAccess)})
			return 0
		}
		qp.out.tail = packet.CopyTail(b[n:], src) // if there is any it is of a multiple of 256 bytes, which has no pad
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
