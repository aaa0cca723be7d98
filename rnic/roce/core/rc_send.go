// The requester of RC: what is on the wire, what is sent again, and how much at once.

package core

import (
	"github.com/nfsrdma/nfsrdma/rnic"
	"github.com/nfsrdma/nfsrdma/rnic/roce/packet"
)

// requesting is the requester's side of an RC QP. PSNs in the order of the circle:
//
//	una ── next ── high ── out.psn
//	 │      │       │        └ of the work request that begins next
//	 │      │       └ after the last that was ever sent: answers have PSNs before it
//	 │      └ of the packet that is sent next; before high when work is sent again
//	 └ the oldest that is not acknowledged
//
// What is not acknowledged is kept in the send queue, and packets are built anew when they are sent
// again.
type requesting struct {
	una, next, high uint32
	message         uint32 // of the last packet of the last Send or Write that is done
	i               uint32 // index in the send queue of the work request that next is of, when next != out.psn
	inPlace         bool   // out.c stands at next
	reads           int    // outstanding Reads and atomics
	answers         bool   // an answer is next; see nextRC

	// How many packets are on the wire before an acknowledge is waited for: one more for each that
	// got through until the network has shown what it carries, from then on one more for each
	// window, half as many after each loss, so that a network that loses packets for want of room
	// is relieved (RFC 5681 §3.1).
	window, grown uint32
	widest        uint32   // the largest window
	found         bool     // what the network carries: there was a loss or a CNP
	careful       bool     // a loss has made the window small
	ends          []uint32 // of requests for Reads and atomics that are not answered in full, MaxReads at most: the PSN after each, oldest first
	slowed        bool     // by a CNP,
	slowedAt      uint32   // with everything before it on the wire
	unasked       uint32   // packets since the last one that asked for an acknowledge

	// 0: none. The first is armed while packets are on the wire; the second holds sending back.
	deadline, rnrUntil Instant
	probing                    // beside the deadline
	sizing                     // likewise
	retries, rnrs      uint8   // in a row, without progress
	backed             uint32  // what una was when a gap had work sent again; una-1: no gap had since una moved
	limit              limit   // of the peer's receives
	refused            Instant // since when the network refuses what is sent; 0: it does not
}

// Sizes of the window, in packets. The largest is what 512 KiB have, and 256 at most: beside a TCP
// connection that keeps a queue full, a connection has the share of the link that it has of the
// queue, and with 128 small packets, as Linux rxe has, that was no fair one.
const (
	minWindow      = 4
	initialWindow  = 64
	maxWindow      = 256
	maxWindowBytes = 512 << 10
)

// widest is the largest window of a path MTU. UD has none, and no window.
func widest(mtu int) uint32 { return uint32(min(maxWindow, maxWindowBytes/max(mtu, 1))) }

// askEach is how many packets leave at most before an acknowledge is asked for. As many leave when
// it comes: two of the longest messages of UDP, of 15 packets of the largest path MTU each.
const askEach = 30

// begin sets the PSN of the first packet, and whether the peer tells its credits: until it does it
// has none.
func (r *requesting) begin(psn uint32, mtu int, credits bool) {
	r.una, r.next, r.high, r.message, r.backed = psn, psn, psn, (psn-1)&maxPSN, (psn-1)&maxPSN
	r.widest = widest(mtu)
	r.limit = limit{obeyed: credits}
	r.window, r.grown, r.found, r.ends = initialWindow, 0, false, r.ends[:0]
}

// grow opens the window for n packets that have got through. Data of Reads opens it slowly from the
// beginning: it comes when the peer has time, and its requests give the peer's packets room that
// nothing has tried yet.
func (r *requesting) grow(n uint32, fast bool) {
	if fast && !r.found {
		r.window = min(r.window+n, r.widest)
	} else if r.grown += n; r.grown >= r.window {
		r.grown, r.window = 0, min(r.window+1, r.widest)
	}
	r.careful = r.careful && r.window < r.widest
}

// shrink makes the window half as large.
func (r *requesting) shrink() {
	if r.held != 0 {
		r.window, r.held = r.held, 0
	}
	r.window = max(minWindow, r.window/2)
	r.grown, r.found = 0, true
}

// nextRequest builds the next packet of work of ours, and returns its length; 0: none can be sent.
func (qp *QP) nextRequest(now Instant, b []byte) (n int) {
	r := &qp.req
	if !qp.state.receives() || qp.state == RTR || r.rnrUntil != 0 {
		return 0
	}
	if r.short == shortDue {
		return qp.buildShort(b)
	}
	if distance(r.next, r.una) >= r.window {
		return 0
	}
	if r.next == qp.out.psn && !qp.beginRC() {
		return 0
	}
	e := qp.sq.At(r.i)
	if r.next != e.P.first && r.limit.lone(e) && distance(e.P.first, r.una) < halfCircle {
		return 0
	}
	psn := r.next
	if awaited(e.Op) {
		n = qp.buildRead(e, b)
	} else {
		n = qp.buildMessage(e, b)
	}
	if qp.out.again = psn != r.high; !qp.out.again && r.unasked == 0 { // new, and answered at once
		r.time(now, psn)
	}
	if distance(r.next, r.una) > distance(r.high, r.una) {
		r.high = r.next
	}
	if n == 0 {
		return 0 // the next piece of a Read waits for the one before
	}
	if r.deadline == 0 {
		r.deadline = qp.overdue(now)
		r.armProbe(now)
	}
	if r.next != qp.out.psn && r.next == nextPSN(e.P.last) {
		qp.seek(r.next)
	}
	return n
}

// overdue is when an answer to what is sent now is overdue; 0: never. Each time in a row it takes
// twice as long: the time-out can be short, and a peer that is stopped for some seconds is not
// given up.
func (qp *QP) overdue(now Instant) Instant {
	if qp.attrs.Timeout == 0 {
		return 0
	}
	return now + 4096<<(qp.attrs.Timeout+min(qp.req.retries, maxRetry))
}

// beginRC gives the next work request its PSNs. Reads and atomics wait for one of the ORD to be
// free; after a fence, and for a local invalidation, all of them have to be done.
func (qp *QP) beginRC() bool {
	r := &qp.req
	for qp.state == RTS {
		e := qp.sq.Next()
		switch {
		case e == nil:
			return false
		case awaited(e.Op) && r.reads >= qp.attrs.MaxReads:
			return false
		case (e.Fence || e.Op == rnic.OpLocalInvalidate) && r.reads > 0:
			return false
		case needsReceive(e.Op) && !r.limit.admits(r.una == qp.out.psn):
			return false
		}
		count := uint32(1)
		if !e.Op.IsAtomic() && e.Op != rnic.OpLocalInvalidate {
			count = packets(e.Bytes, qp.attrs.PathMTU)
		}
		if r.una != qp.out.psn && distance(qp.out.psn, r.una)+count > halfCircle {
			return false // the peer could not tell what is new from what comes again
		}
		i := qp.sq.Begin()
		if e.Op == rnic.OpLocalInvalidate {
			e.MR.Invalidate()
			e.Done = true
			qp.retire()
			continue
		}
		e.P.first, e.P.last, e.P.got = qp.out.psn, (qp.out.psn+count-1)&maxPSN, qp.out.psn
		qp.out.psn = nextPSN(e.P.last)
		if awaited(e.Op) {
			r.reads++ // its requests are messages of their own: buildRead
		} else {
			r.limit.begin(e.P.first, needsReceive(e.Op))
		}
		r.i = i
		qp.out.c, r.inPlace = cursor{sgl: e.SGL}, true
		return true
	}
	return false
}

// buildMessage builds packet next of a Send or a Write.
func (qp *QP) buildMessage(e *entry, b []byte) int {
	r, mtu := &qp.req, qp.attrs.PathMTU
	at := int(distance(r.next, e.P.first)) * mtu
	if !r.inPlace {
		qp.out.c, r.inPlace = cursor{sgl: e.SGL}, true
		qp.out.c.skip(at)
	}
	size := min(int(e.Bytes)-at, mtu)
	last := r.next == e.P.last
	h := packet.Header{BTH: qp.bth(opcode(packet.RC, e.Op, at == 0, last), r.next)}
	h.Pad = packet.PadFor(size)
	h.SE = last && solicited(e.Op)
	h.RETH = packet.RETH{VA: e.RemoteTO, RKey: uint32(e.RemoteSTag), Length: e.Bytes}
	h.Imm, h.Invalidate = uint32(e.Immediate), uint32(e.Invalidate)
	// An acknowledge is asked for where a message ends, and often enough that the window never
	// closes for want of one.
	r.next = nextPSN(r.next)
	r.unasked++
	h.AckReq = last || r.unasked >= min(max(1, r.window/4), askEach) || distance(r.next, r.una) >= r.window || at == 0 && r.limit.lone(e)
	if h.AckReq {
		r.unasked = 0
	}
	n, t := qp.out.c.put(b, &h, size)
	qp.out.tail = t
	return n
}

// buildRead builds a Read Request for what is missing of a Read, or the next piece of that, or the
// request of an atomic operation. It returns 0 if the piece has to wait.
func (qp *QP) buildRead(e *entry, b []byte) int {
	r := &qp.req
	count := qp.piece(e)
	if count == 0 {
		return 0
	}
	h := packet.Header{BTH: qp.bth(packet.RCReadRequest, r.next)}
	h.AckReq = true
	at := distance(r.next, e.P.first) * uint32(qp.attrs.PathMTU)
	h.RETH = packet.RETH{VA: e.RemoteTO + uint64(at), RKey: uint32(e.RemoteSTag), Length: e.Bytes - at}
	if to := (r.next + count - 1) & maxPSN; to != e.P.last {
		h.RETH.Length = count * uint32(qp.attrs.PathMTU)
	}
	if e.Op.IsAtomic() {
		h.Opcode = packet.RCFetchAdd
		h.Atomic = packet.AtomicETH{VA: e.RemoteTO, RKey: uint32(e.RemoteSTag), SwapAdd: e.Atomic.Data}
		if e.Op == rnic.OpCmpSwap {
			h.Opcode, h.Atomic.Compare = packet.RCCmpSwap, e.Atomic.Compare
		}
	}
	fresh := r.next == r.high
	r.next = (r.next + count) & maxPSN
	if fresh {
		r.limit.begin(h.PSN, false)
		r.ends = append(r.ends, r.next)
	}
	r.unasked = 0
	return h.Put(b)
}

// bth is what the packets of a connection have in common.
func (qp *QP) bth(op packet.Opcode, psn uint32) packet.BTH {
	return packet.BTH{Opcode: op, PKey: qp.attrs.PKey, DestQP: qp.attrs.DestQPN, PSN: psn}
}

// seek has psn, which is not acknowledged, be sent next.
func (qp *QP) seek(psn uint32) {
	r := &qp.req
	r.next, r.inPlace = psn, false
	for i, end := qp.sq.Begun(); i != end; i++ {
		e := qp.sq.At(i)
		if e.Op != rnic.OpLocalInvalidate && distance(psn, e.P.first) <= distance(e.P.last, e.P.first) {
			r.i = i
			return
		}
	}
}

// again sends everything that is not acknowledged once more: an answer is overdue, or the peer has
// told of a gap. Too often in a row, and the QP ends.
func (qp *QP) again(now Instant) {
	r := &qp.req
	if r.retries >= qp.attrs.RetryCount {
		qp.becomeERR(ErrRetry)
		return
	}
	if qp.tooLong() {
		return
	}
	r.retries++
	r.scheduleShort()
	r.deadline = qp.overdue(now)
	r.armProbe(now)
	qp.lost()
}

// lost takes what is on the wire for lost: the window shrinks, and all of it is sent again.
func (qp *QP) lost() {
	r := &qp.req
	qp.count.Retransmissions++
	r.shrink()
	r.careful = true
	r.unasked, r.timing = 0, false
	qp.seek(r.una)
}

// retire completes what is done at the head of the send queue.
func (qp *QP) retire() {
	if !qp.sq.Retire(nil) {
		qp.becomeERR(rnic.ErrCQOverrun)
	}
}
