// Out-of-order requests: some are held, for networks that reorder packets.

package core

import (
	"sync"

	"github.com/nfsrdma/nfsrdma/rnic/roce/packet"
)

// earlyRoom is the size of the reorder window, in PSNs; a power of two. Requests further ahead,
// and duplicates of held ones, are dropped: the peer retransmits them.
const earlyRoom = 32

// An early holds out-of-order requests by PSN. It also shortens retransmission after a loss: the
// missing packet's acknowledge covers the held ones.
type early struct {
	slots [earlyRoom]*kept
	n     int
}

// A kept is one held request, with room for its payload.
type kept struct {
	p    Packet
	room [MaxMTU]byte
}

var keptPool = sync.Pool{New: func() any { return new(kept) }}

// keep holds a request that is d PSNs ahead, and reports whether it did. The request's content is
// checked later, when its PSN is due.
func (e *early) keep(p *Packet, d uint32) bool {
	if d >= earlyRoom || p.Reserved || len(p.Payload) > MaxMTU {
		return false
	}
	slot := &e.slots[p.PSN%earlyRoom]
	if *slot == nil {
		*slot = keptPool.Get().(*kept)
		e.n++
	} else if (*slot).p.PSN == p.PSN {
		return false // the first copy stays
	}
	k := *slot
	k.p = *p
	k.p.Network = nil
	k.p.Payload = k.room[:copy(k.room[:], p.Payload)]
	return true
}

// take removes the request with the given PSN; nil if there is none. The caller must release it.
func (e *early) take(psn uint32) *kept {
	slot := &e.slots[psn%earlyRoom]
	k := *slot
	if k == nil || k.p.PSN != psn {
		return nil
	}
	*slot = nil
	e.n--
	return k
}

func (k *kept) release() {
	k.p = Packet{}
	keptPool.Put(k)
}

// clear releases all held requests.
func (e *early) clear() {
	for i, k := range e.slots {
		if e.n == 0 {
			return
		}
		if k != nil {
			e.slots[i] = nil
			e.n--
			k.release()
		}
	}
}

// follow takes held requests that are now in order, and acknowledges them, as the peer may be
// retransmitting them. If the last is a Read, its data acknowledges them instead.
func (qp *QP) follow() {
	e := &qp.res.early
	some := false
	for e.n > 0 && qp.res.fault == nil && qp.state.receives() {
		k := e.take(qp.in.epsn)
		if k == nil {
			break
		}
		d := qp.inTurn(&k.p)
		k.release()
		if d != Accepted {
			break
		}
		some = true
	}
	if some && qp.res.fault == nil && !qp.res.told && nextPSN(qp.res.last) == qp.in.epsn {
		qp.acknowledge()
	}
}

// inTurn takes the request with the expected PSN.
func (qp *QP) inTurn(p *Packet) Drop {
	d := qp.request(p)
	switch d {
	case Accepted:
	case DropNoReceive:
		// Requests behind this one are out of order until the peer sends it again. The peer has
		// filled the gap, and continues after the RNR delay.
		qp.res.told = true
		qp.res.gap.open = false
		qp.res.early.clear()
		qp.res.push(answer{op: packet.OpAck, psn: qp.in.epsn, syndrome: packet.RNR(qp.attrs.RNRTimer)})
	case DropAccess:
		qp.fault(packet.NAKRemoteAccess, d)
	default:
		qp.fault(packet.NAKInvalidRequest, d)
	}
	return d
}
