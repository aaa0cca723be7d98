// Out-of-order requests: some are buffered, for networks that reorder packets.

package core

import (
	"sync"

	"github.com/nfsrdma/nfsrdma/internal/tally"
	"github.com/nfsrdma/nfsrdma/rnic/roce/packet"
)

// A reorderBuffer buffers out-of-order requests by PSN. The buffer also shortens retransmission
// after a loss: the missing packet's acknowledge covers the buffered ones.
type reorderBuffer struct {
	slots [reorderWindow]*bufferedRequest
	n     int
	tally tally.Counter // won: taken in order; lost: dropped again; passed: too far ahead
}

// A bufferedRequest is one buffered request, with room for its payload.
type bufferedRequest struct {
	p    Packet
	room [MaxMTU]byte
}

var bufferedPool = sync.Pool{New: func() any { return new(bufferedRequest) }}

// add buffers a request that is d PSNs ahead, and reports whether it could. The request's content
// is checked when its PSN is due.
func (e *reorderBuffer) add(p *Packet, d uint32) bool {
	if d >= reorderWindow || p.Reserved || len(p.Payload) > MaxMTU {
		e.tally.Pass()
		return false
	}
	slot := &e.slots[p.PSN%reorderWindow]
	if *slot == nil {
		*slot = bufferedPool.Get().(*bufferedRequest)
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

// take removes the request with the given PSN; nil if no such request is buffered. The caller must
// release it.
func (e *reorderBuffer) take(psn uint32) *bufferedRequest {
	slot := &e.slots[psn%reorderWindow]
	k := *slot
	if k == nil || k.p.PSN != psn {
		return nil
	}
	*slot = nil
	e.n--
	e.tally.Win()
	return k
}

func (k *bufferedRequest) release() {
	k.p = Packet{}
	bufferedPool.Put(k)
}

// clear releases all buffered requests.
func (e *reorderBuffer) clear() {
	for i, k := range e.slots {
		if e.n == 0 {
			return
		}
		if k != nil {
			e.slots[i] = nil
			e.n--
			e.tally.Lose()
			k.release()
		}
	}
}

// takeBuffered takes buffered requests that are now in order, and acknowledges these requests, as
// the peer may be retransmitting them. If the last request is a Read, its data acknowledges them
// instead.
func (qp *QP) takeBuffered() {
	e := &qp.res.reorder
	progressed := false
	for e.n > 0 && qp.res.fault == nil && qp.state.receives() {
		k := e.take(qp.in.epsn)
		if k == nil {
			break
		}
		d := qp.takeNext(&k.p)
		k.release()
		if d != Accepted {
			break
		}
		progressed = true
	}
	if progressed && qp.res.fault == nil && !qp.res.nakSent && nextPSN(qp.res.last) == qp.in.epsn {
		qp.acknowledge()
	}
}

// takeNext takes the request with the expected PSN.
func (qp *QP) takeNext(p *Packet) Drop {
	d := qp.request(p)
	switch d {
	case Accepted:
	case DropNoReceive:
		// Requests behind the refused one are out of order until the peer sends that one again. The
		// peer has filled the gap, and continues after the RNR delay.
		qp.res.nakSent = true
		qp.res.gap.open = false
		qp.res.reorder.clear()
		qp.res.push(answer{op: packet.OpAck, psn: qp.in.epsn, syndrome: packet.RNR(qp.attrs.RNRTimer)})
	case DropAccess:
		qp.fault(packet.NAKRemoteAccess, d)
	default:
		qp.fault(packet.NAKInvalidRequest, d)
	}
	return d
}
