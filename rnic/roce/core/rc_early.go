// Requests that come before one that is expected: some are kept, for networks that turn the order
// of packets round.

package core

import (
	"sync"

	"github.com/nfsrdma/nfsrdma/rnic/roce/packet"
)

// earlyRoom is how far ahead of what is expected a request may be to be kept, a power of two. What
// lies further ahead, or is kept already, is dropped, for the peer sends it again.
const earlyRoom = 32

// An early is requests that are kept, by their PSN. Those that a requester sends again after a loss
// are few then, too: what was kept is acknowledged with what was missing.
type early struct {
	slots [earlyRoom]*kept
	n     int
}

// A kept is one of them, with room for its payload.
type kept struct {
	p    Packet
	room [MaxMTU]byte
}

var keptPool = sync.Pool{New: func() any { return new(kept) }}

// keep keeps a request that is d PSNs ahead, and reports whether it has. What a packet asks for is
// checked when its turn has come.
func (e *early) keep(p *Packet, d uint32) bool {
	if d >= earlyRoom || p.Reserved || len(p.Payload) > MaxMTU {
		return false
	}
	slot := &e.slots[p.PSN%earlyRoom]
	if *slot == nil {
		*slot = keptPool.Get().(*kept)
		e.n++
	} else if (*slot).p.PSN == p.PSN {
		return false // the first one counts
	}
	k := *slot
	k.p = *p
	k.p.Network = nil
	k.p.Payload = k.room[:copy(k.room[:], p.Payload)]
	return true
}

// take takes out the request with a PSN, nil if there is none. release is next.
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

// clear forgets all of them.
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

// follow takes the requests that were kept and whose turn has come, and acknowledges them: the peer
// may be sending them again. Data of a Read that is the last of them does so, too.
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

// inTurn takes the request that is expected.
func (qp *QP) inTurn(p *Packet) Drop {
	d := qp.request(p)
	switch d {
	case Accepted:
	case DropNoReceive:
		qp.res.told = true      // what follows on the wire is out of order until this one comes again
		qp.res.gap.open = false // the peer has sent again what was missing, and goes on when it has waited
		qp.res.early.clear()
		qp.res.push(answer{op: packet.OpAck, psn: qp.in.epsn, syndrome: packet.RNR(qp.attrs.RNRTimer)})
	case DropAccess:
		qp.fault(packet.NAKRemoteAccess, d)
	default:
		qp.fault(packet.NAKInvalidRequest, d)
	}
	return d
}
