// The RC requester: packets in flight, retransmission, and the congestion window.

package core

import (
	"github.com/nfsrdma/nfsrdma/rnic"
	"github.com/nfsrdma/nfsrdma/rnic/roce/packet"
)

// requesting is an RC QP's requester state. Its PSNs in circle order:
//
//	una ── next ── high ── out.psn
//	 │      │       │        └ first PSN of the next work request
//	 │      │       └ after the last PSN ever sent: answers have PSNs before it
//	 │      └ next PSN to send; before high during a retransmission
//	 └ oldest unacknowledged PSN
//
// The send queue keeps unacknowledged work. Retransmitted packets are built from the send queue
// again.
type requesting struct {
	una, next, high uint32
	lastMessage     uint32 // last PSN of the last completed Send or Write
	i               uint32 // send-queue index of next's work request, if next != out.psn
	inPlace         bool   // out.c is at next
	reads           int    // outstanding Reads and atomics
	answers         bool   // answers go next; see nextRC

	// The congestion window: how many packets may be in flight unacknowledged. The window grows by
	// one for each delivered packet until a loss shows the network's capacity, later by one for
	// each window. Each loss halves the window, to relieve a congested network (RFC 5681 §3.1).
	window, grown uint32
	widest        uint32 // the largest window
	capacityKnown bool   // the capacity is known: there was a loss or a CNP
	careful       bool   // a loss has shrunk the window
	// ends has the PSN after each incompletely answered Read or atomic request, oldest first; at
	// most MaxReads.
	ends []uint32
	// A CNP has shrunk the window; slowedAt was then the end of the packets in flight.
	slowed      bool
	slowedAt    uint32
	sinceAckReq uint32 // packets since the last acknowledge request

	// 0: none. deadline runs while packets are in flight; rnrUntil blocks sending.
	deadline, rnrUntil Instant
	probing                  // has a shorter timer, in addition to deadline
	sizing                   // has counts of short packets
	retries, rnrs      uint8 // consecutive, without progress
	// backed is una at the last retransmission for a gap; una-1: none since una advanced.
	backed          uint32
	credit          creditLimit // the peer's receives
	portClosedSince Instant     // start of the network's refusing packets; 0: it takes them
}

// widest returns the largest window for a path MTU, in packets.
func widest(mtu int) uint32 { return uint32(min(maxWindow, maxWindowBytes/max(mtu, 1))) }

// begin sets the first PSN. credits means that the peer's acknowledges carry credits; the first
// acknowledge brings them.
func (r *requesting) begin(psn uint32, mtu int, credits bool) {
	r.una, r.next, r.high, r.lastMessage, r.backed = psn, psn, psn, (psn-1)&maxPSN, (psn-1)&maxPSN
	r.widest = widest(mtu)
	r.credit = creditLimit{obeyed: credits}
	r.window, r.grown, r.capacityKnown, r.ends = initialWindow, 0, false, r.ends[:0]
}

// grow opens the window after n packets have got through. Read data always opens it slowly: the
// data's pace depends on the peer's load, and a wider window would admit more of the peer's
// packets on an untested path.
func (r *requesting) grow(n uint32, fast bool) {
	if fast && !r.capacityKnown {
		r.window = min(r.window+n, r.widest)
	} else if r.grown += n; r.grown >= r.window {
		r.grown, r.window = 0, min(r.window+1, r.widest)
	}
	r.careful = r.careful && r.window < r.widest
}

// shrink halves the window.
func (r *requesting) shrink() {
	if r.savedWindow != 0 {
		r.window, r.savedWindow = r.savedWindow, 0
	}
	r.window = max(minWindow, r.window/2)
	r.grown, r.capacityKnown = 0, true
}

// nextRequest builds the requester's next packet, and returns its length; 0: the requester cannot
// send.
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
	if r.next != e.P.first && r.credit.overdrawn(e) && distance(e.P.first, r.una) < halfCircle {
		return 0
	}
	psn := r.next
	if returnsData(e.Op) {
		n = qp.buildRead(e, b)
	} else {
		n = qp.buildMessage(e, b)
	}
	// Time only a new packet that the peer answers at once.
	if qp.out.again = psn != r.high; !qp.out.again && r.sinceAckReq == 0 {
		r.time(now, psn)
	}
	if distance(r.next, r.una) > distance(r.high, r.una) {
		r.high = r.next
	}
	if n == 0 {
		return 0 // the next Read request waits for the previous one
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

// overdue returns the deadline for answers to packets sent now; 0: never. The timeout doubles with
// each consecutive retry: so the first timeout can be short, and a peer can stall for seconds.
func (qp *QP) overdue(now Instant) Instant {
	if qp.attrs.Timeout == 0 {
		return 0
	}
	return now + 4096<<(qp.attrs.Timeout+min(qp.req.retries, maxRetry))
}

// beginRC assigns PSNs to the next work request. Reads and atomics wait for a free ORD slot. A
// fenced request and a local invalidation wait until all Reads and atomics are done.
func (qp *QP) beginRC() bool {
	r := &qp.req
	for qp.state == RTS {
		e := qp.sq.Next()
		switch {
		case e == nil:
			return false
		case returnsData(e.Op) && r.reads >= qp.attrs.MaxReads:
			return false
		case (e.Fence || e.Op == rnic.OpLocalInvalidate) && r.reads > 0:
			return false
		case needsReceive(e.Op) && !r.credit.admits(r.una == qp.out.psn):
			return false
		}
		count := uint32(1)
		if !e.Op.IsAtomic() && e.Op != rnic.OpLocalInvalidate {
			count = packets(e.Bytes, qp.attrs.PathMTU)
		}
		if r.una != qp.out.psn && distance(qp.out.psn, r.una)+count > halfCircle {
			return false // the peer could not distinguish new packets from duplicates
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
		if returnsData(e.Op) {
			r.reads++ // a Read's requests count as separate messages: buildRead
		} else {
			r.credit.begin(e.P.first, needsReceive(e.Op))
		}
		r.i = i
		qp.out.c, r.inPlace = cursor{sgl: e.SGL}, true
		return true
	}
	return false
}

// buildMessage builds the packet with PSN next, for a Send or Write.
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
	// Request an acknowledge at a message's end, and often enough to keep the window from
	// closing.
	r.next = nextPSN(r.next)
	r.sinceAckReq++
	h.AckReq = last || r.sinceAckReq >= min(max(1, r.window/4), ackReqEvery) || distance(r.next, r.una) >= r.window || at == 0 && r.credit.overdrawn(e)
	if h.AckReq {
		r.sinceAckReq = 0
	}
	n, t := qp.out.c.put(b, &h, size)
	qp.out.tail = t
	return n
}

// buildRead builds the next Read Request for a Read's missing data, or an atomic's request. It
// returns 0 if the request has to wait.
func (qp *QP) buildRead(e *entry, b []byte) int {
	r := &qp.req
	count := qp.unitSize(e)
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
		r.credit.begin(h.PSN, false)
		r.ends = append(r.ends, r.next)
	}
	r.sinceAckReq = 0
	return h.Put(b)
}

// bth builds the BTH of a connection's packet.
func (qp *QP) bth(op packet.Opcode, psn uint32) packet.BTH {
	return packet.BTH{Opcode: op, PKey: qp.attrs.PKey, DestQP: qp.attrs.DestQPN, PSN: psn}
}

// seek makes psn, which is unacknowledged, the next to send.
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

// retransmit retransmits everything unacknowledged: an answer is overdue, or the peer has
// reported a gap. Too many consecutive retries end the QP.
func (qp *QP) retransmit(now Instant) {
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
	qp.rewind()
}

// rewind treats all packets in flight as lost: it shrinks the window and restarts at una.
func (qp *QP) rewind() {
	r := &qp.req
	qp.count.Retransmissions++
	r.shrink()
	r.careful = true
	r.sinceAckReq, r.timing = 0, false
	qp.seek(r.una)
}

// retire completes finished work at the send queue's head.
func (qp *QP) retire() {
	if !qp.sq.Retire(nil) {
		qp.becomeERR(rnic.ErrCQOverrun)
	}
}
