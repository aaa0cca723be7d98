// The UC and UD requester: it cuts messages into packets, and completes them as those leave.

package core

import (
	"fmt"
	"net/netip"
	"sync"

	"github.com/nfsrdma/nfsrdma/rnic"
	"github.com/nfsrdma/nfsrdma/rnic/roce/packet"
)

// An entry is a posted work request with this provider's state.
type entry = rnic.SendEntry[progress]

// progress is a work request's progress.
type progress struct {
	built bool   // all its packets are built
	end   uint64 // sending.built when built was set

	// RC
	first, last uint32    // the request's PSNs; for a Read, the responses' PSNs
	got         uint32    // Read: the next response's expected PSN
	sink        rnic.STag // Read: the sink's STag at posting time
}

var sendChunks = sync.Pool{New: func() any { return new(rnic.SendChunk[progress]) }}

// MaxPacket is the buffer size for Next: headers, payload and pad of the largest packet, without
// the ICRC that follows.
const MaxPacket = packet.MaxHeaderLen + MaxMTU

// A Route is a packet's destination, and the known CRC over its end.
type Route struct {
	Peer netip.Addr
	// SrcPort is the UDP source port, constant for a QP and peer (IBA UDP source port [IBU-227]).
	SrcPort uint16
	Tail    packet.Tail
	Again   bool // a retransmission
}

// sending is the requester's packet-building state.
type sending struct {
	psn         uint32 // of the next packet
	e           *entry // the message being cut into packets; nil: none
	c           cursor
	at          uint32 // the message's bytes already in packets
	built, sent uint64 // packets

	tail  packet.Tail // of the packet being built
	again bool        // the packet being built is a retransmission
}

// drop discards the current message.
func (o *sending) drop() { o.e, o.c = nil, cursor{} }

// Next builds the next packet in b, which must have MaxPacket bytes. It returns the packet's
// length without the ICRC, and its route; ok is false if there is nothing to send. The caller
// must send each built packet, in this order.
func (qp *QP) Next(now Instant, b []byte) (n int, r Route, ok bool) {
	qp.mu.Lock()
	defer qp.mu.Unlock()
	qp.out.tail, qp.out.again = packet.Tail{}, false
	if qp.service == packet.RC {
		n = qp.nextRC(now, b)
		r = qp.route(nil)
		r.Tail, r.Again = qp.out.tail, qp.out.again
		return n, r, n > 0
	}
	// Packets of different messages do not interleave (C9-176 / table 56 [IBU-050]).
	if qp.out.e == nil && !qp.begin() {
		return 0, r, false
	}
	e := qp.out.e
	r = qp.route(e)
	n = qp.build(e, b)
	r.Tail = qp.out.tail
	return n, r, true
}

// begin takes the next work request that has a packet, and reports whether it found one. In SQD no
// message begins.
func (qp *QP) begin() bool {
	for qp.state == RTS {
		e := qp.sq.Next()
		if e == nil {
			return false
		}
		qp.sq.Begin()
		switch {
		case e.Op == rnic.OpLocalInvalidate:
			e.MR.Invalidate()
		case qp.service == packet.UD && int(e.Bytes) > qp.portMTU:
			// Nothing is sent and no error reported: the work completes as if (C10-93.1.1
			// [IBU-234]).
		default:
			qp.out.e, qp.out.at = e, 0
			qp.out.c = cursor{sgl: e.SGL}
			return true
		}
		e.P.built, e.P.end = true, qp.out.built
		qp.complete()
	}
	return false
}

// route returns the peer's address and our source port for a message's packets. A datagram's
// peer is in its address handle, a connected QP's in its attributes.
func (qp *QP) route(e *entry) Route {
	if qp.service == packet.UD {
		return Route{Peer: e.AH.Addr.Unmap(), SrcPort: SourcePort(qp.num, e.AH.QPN)}
	}
	return Route{Peer: qp.attrs.Peer, SrcPort: SourcePort(qp.num, qp.attrs.DestQPN)}
}

// SourcePort returns the UDP source port of packets between two QPs, 0xC000 to 0xFFFF, by Linux's
// formula: the formula spreads connections over the network's paths, and keeps each connection on
// one path (rdma_get_udp_sport, ib_verbs.h [IBU-228]).
func SourcePort(local, remote uint32) uint16 {
	v := uint64(local) * uint64(remote)
	v ^= v >> 20
	v ^= v >> 40
	label := uint32(v & 0xfffff)
	return uint16(label&0x3fff^label>>14) | 0xc000
}

// build writes e's next packet: a full path MTU, or the rest in the last packet (C9-177 to C9-179
// [IBU-051 IBU-052 IBU-053]).
func (qp *QP) build(e *entry, b []byte) (n int) {
	o := &qp.out
	mtu := qp.mtu()
	left := int(e.Bytes - o.at)
	size := min(left, mtu)
	first, last := o.at == 0, left == size

	var h packet.Header
	h.Opcode = opcode(qp.service, e.Op, first, last)
	h.PKey, h.PSN = qp.attrs.PKey, o.psn
	h.Pad = packet.PadFor(size)
	h.SE = last && solicited(e.Op) // verbs solicited event [IBU-240]
	h.Imm = uint32(e.Immediate)
	if qp.service == packet.UD {
		h.DestQP = e.AH.QPN
		h.DETH = packet.DETH{QKey: qp.qkey(e.AH.QKey), SrcQP: qp.num}
	} else {
		h.DestQP = qp.attrs.DestQPN
		h.RETH = packet.RETH{VA: e.RemoteTO, RKey: uint32(e.RemoteSTag), Length: e.Bytes}
	}
	n, o.tail = o.c.put(b, &h, size)

	o.psn = nextPSN(o.psn)
	o.at += uint32(size)
	o.built++
	if last {
		e.P.built, e.P.end = true, o.built
		o.drop()
	}
	return n
}

// mtu returns the largest payload of a packet.
func (qp *QP) mtu() int {
	if qp.service == packet.UD {
		return qp.portMTU
	}
	return qp.attrs.PathMTU
}

// qkey returns the Q_Key to send: the QP's own if the work request's has bit 31 set, so that only
// QPs with a controlled Q_Key can send it (IBA 10.2.5 [IBU-232]).
func (qp *QP) qkey(asked uint32) uint32 {
	if asked&(1<<31) != 0 {
		return qp.attrs.QKey
	}
	return asked
}

// solicited reports whether a message raises a solicited event at the receiver.
func solicited(op rnic.Opcode) bool {
	return op == rnic.OpSendSE || op == rnic.OpSendSEImmediate || op == rnic.OpWriteSEImmediate || op == rnic.OpSendSEInvalidate
}

func invalidates(op rnic.Opcode) bool {
	return op == rnic.OpSendInvalidate || op == rnic.OpSendSEInvalidate
}

// opcode returns a packet's opcode by its position in the message (tables 38 and 56, C9-176
// [IBU-047]).
func opcode(s packet.Service, op rnic.Opcode, first, last bool) packet.Opcode {
	rc := packet.RCSendFirst
	if op == rnic.OpWrite || op == rnic.OpWriteImmediate || op == rnic.OpWriteSEImmediate {
		rc = packet.RCWriteFirst
	}
	switch imm := op.CarriesImmediate(); {
	case last && invalidates(op):
		rc = packet.RCSendLastInv
		if first {
			rc = packet.RCSendOnlyInv
		}
	case first && last && imm:
		rc += packet.RCSendOnlyImm
	case first && last:
		rc += packet.RCSendOnly
	case last && imm:
		rc += packet.RCSendLastImm
	case last:
		rc += packet.RCSendLast
	case !first:
		rc += packet.RCSendMiddle
	}
	return packet.Opcode(s)<<5 | rc
}

// Sent notes that n more packets have left, and completes the messages that end with these packets,
// because no answer will come (IBA 9.8.2.1.4 [IBU-055]).
//
// For RC Sent does nothing: the peer's acknowledge completes a message, and a packet that did not
// leave counts as lost.
func (qp *QP) Sent(n int) {
	qp.mu.Lock()
	defer qp.mu.Unlock()
	if qp.service == packet.RC {
		return
	}
	qp.out.sent += uint64(n)
	qp.moved.Add(uint64(n) * uint64(qp.mtu()))
	qp.complete()
}

// complete completes messages that have left, oldest first. The caller holds mu.
func (qp *QP) complete() {
	for i, end := qp.sq.Begun(); i != end; i++ {
		e := qp.sq.At(i)
		if e.Done {
			continue
		}
		if !e.P.built || e.P.end > qp.out.sent {
			break
		}
		e.Done = true
	}
	if !qp.sq.Retire(nil) {
		qp.becomeERR(rnic.ErrCQOverrun)
	}
}

// SendFailed notes that the network refused the first packet not counted by Sent. The packet's
// message completes with an error, later work is flushed, and the QP goes to SQE (IBA 9.8.2.1.4
// [IBU-056], 9.8.3.1.2 [IBU-136]). Built packets that have not left are discarded, and their PSNs
// are used again.
func (qp *QP) SendFailed() {
	qp.mu.Lock()
	defer qp.mu.Unlock()
	o := &qp.out
	if qp.state == ERR || o.built == o.sent || qp.service == packet.RC {
		return
	}
	o.psn = (o.psn - uint32(o.built-o.sent)) & maxPSN
	o.built = o.sent
	for i, end := qp.sq.Begun(); i != end; i++ {
		if e := qp.sq.At(i); !e.Done {
			e.Done, e.Status = true, rnic.WCLocErr
			break
		}
	}
	qp.becomeSQE()
}

// String names the QP for errors and tests.
func (qp *QP) String() string { return fmt.Sprintf("%v QP %#06x", qp.service, qp.num) }
