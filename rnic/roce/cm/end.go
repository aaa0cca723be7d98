// Ending a connection: DREQ and DREP, REJ, timeouts, and time-wait.

package cm

import (
	"encoding/binary"

	"github.com/nfsrdma/nfsrdma/rnic/roce/mad"
)

// Disconnect ends a connection or SIDR request in any state. private, at most 220 bytes, is for
// the peer's program if the connection is established. Ended follows, at once or after the peer's
// answer.
func (c *CM) Disconnect(now Instant, k *Conn, private []byte) error {
	if len(private) > len(mad.DREQ{}.PrivateData) {
		return ErrPrivate
	}
	switch k.state {
	case established:
		c.sendDREQ(now, k, private)
		return nil
	case reqSent:
		c.rejectTimeout(k)
	case repReceived:
		c.sendOnce(k, mad.AttrREJ, k.tid, &mad.REJ{LocalCommID: k.id, RemoteCommID: k.remoteID, Message: mad.AnsweredREP, Reason: mad.RejConsumer})
	case repSent:
		c.sendOnce(k, mad.AttrREJ, k.tid, &mad.REJ{LocalCommID: k.id, RemoteCommID: k.remoteID, Message: mad.AnsweredOther, Reason: mad.RejConsumer})
	case reqReceived:
		c.emit(Event{Kind: Ended, Conn: k})
		return c.Reject(now, k, mad.RejConsumer, nil)
	case sidrReqSent, sidrReqReceived:
	default:
		return ErrState
	}
	c.end(now, k, nil)
	return nil
}

// sendDREQ sends a DREQ, repeated until the peer answers.
func (c *CM) sendDREQ(now Instant, k *Conn, private []byte) {
	m := mad.DREQ{LocalCommID: k.id, RemoteCommID: k.remoteID, RemoteQPN: k.remoteQPN}
	copy(m.PrivateData[:], private)
	k.endTID, k.tries, k.limit, k.interval = c.cfg.Rand(), 0, int(c.cfg.Retries), Instant(c.cfg.ResponseTimeout.Duration())
	c.become(k, dreqSent)
	c.sendRepeated(k, mad.AttrDREQ, k.endTID, &m)
	c.timers.start(k, now+k.interval)
}

// rejectTimeout informs the peer that this side no longer waits. The active side does not know the
// peer's identifier after a REQ without an answer. For this reason code Linux finds its
// connection by our identifier and GUID instead.
func (c *CM) rejectTimeout(k *Conn) {
	m := mad.REJ{LocalCommID: k.id, RemoteCommID: k.remoteID, Message: mad.AnsweredOther, Reason: mad.RejTimeout, InfoLen: 8}
	binary.BigEndian.PutUint64(m.Info[:], c.cfg.GUID)
	c.sendOnce(k, mad.AttrREJ, k.tid, &m)
}

// end ends a connection; why may be nil.
func (c *CM) end(now Instant, k *Conn, why error) {
	c.emit(Event{Kind: Ended, Conn: k, Err: why})
	if !k.state.known() {
		c.become(k, released)
		return
	}
	c.become(k, timeWait)
	c.timers.start(k, now+c.cfg.TimeWait)
	if c.timeWait.Len() > c.cfg.TimeWaits {
		c.become(c.timeWait.Front().Value.(*Conn), released)
	}
}

// unregister removes a connection from the tables.
func (c *CM) unregister(k *Conn) {
	delete(c.conns, k.id)
	for _, key := range []remote{{k.peer, k.remoteID, false}, {k.peer, k.remoteID, true}} {
		if c.requests[key] == k {
			delete(c.requests, key)
		}
	}
	if key := (pair{k.peer, k.remoteGUID, k.remoteQPN}); c.pairs[key] == k {
		delete(c.pairs, key)
	}
}

// timeOut ends a connection after a timeout.
func (c *CM) timeOut(now Instant, k *Conn) {
	switch k.state {
	case reqSent, reqReceived, repSent:
		c.rejectTimeout(k)
	case dreqSent:
		c.end(now, k, nil) // the peer may be gone
		return
	}
	c.counters.Expired++
	c.emit(Event{Kind: Ended, Conn: k, Err: ErrTimeout})
	c.become(k, released)
}

// handleREJ handles a REJ.
func (c *CM) handleREJ(a *arrival) Drop {
	r, err := mad.ParseREJ(a.data)
	if err != nil {
		return DropMalformed
	}
	k, d := c.findRejected(a, &r)
	switch {
	case d != Accepted:
		return d
	case a.tid != k.tid:
		return DropTransaction
	}
	switch k.state {
	case reqSent:
		if r.Reason == mad.RejStaleConn && !k.retried {
			c.retryStale(a.now, k)
			return Accepted
		}
	case repReceived, established, reqReceived, repSent:
	case dreqSent:
		c.end(a.now, k, nil)
		return Accepted
	default:
		return DropState
	}
	c.end(a.now, k, &RejectError{Reason: r.Reason, Info: append([]byte(nil), r.Info[:r.InfoLen]...), Private: append([]byte(nil), r.PrivateData[:]...)})
	return Accepted
}

// findRejected returns the connection for a REJ. An active side that timed out before an answer
// knows only its own identifier, not ours.
func (c *CM) findRejected(a *arrival, r *mad.REJ) (*Conn, Drop) {
	if r.RemoteCommID == 0 && r.Reason == mad.RejTimeout {
		if k := c.requests[remote{a.from, r.LocalCommID, false}]; k != nil {
			return k, Accepted
		}
		return nil, DropUnknown
	}
	k := c.conns[r.RemoteCommID]
	if k != nil && r.LocalCommID == 0 {
		return c.find(a, r.RemoteCommID, k.remoteID)
	}
	return c.find(a, r.RemoteCommID, r.LocalCommID)
}

// retryStale sends a REQ again as a new request, after an interval. The peer took its queue pair
// for an existing connection's, and is ending the existing connection.
func (c *CM) retryStale(now Instant, k *Conn) {
	delete(c.conns, k.id)
	c.assignID(k)
	k.retried, k.remoteID, k.tries = true, 0, 0
	k.tid, k.req.LocalCommID = c.cfg.Rand(), k.id
	datagram(&k.last, mad.AttrREQ, k.tid, k.req)
	c.timers.start(k, now+k.interval)
}

// handleDREQ handles a DREQ. It answers even for an unknown connection, because an earlier DREP may
// have been lost.
func (c *CM) handleDREQ(a *arrival) Drop {
	r := mad.ParseDREQ(a.data)
	k, d := c.find(a, r.RemoteCommID, r.LocalCommID)
	answer := mad.DREP{LocalCommID: r.RemoteCommID, RemoteCommID: r.LocalCommID}
	switch {
	case d == DropUnknown && c.conns[r.RemoteCommID] == nil:
		c.refuseStateless(a.now, a.from, mad.AttrDREP, a.tid, &answer)
		return d
	case d != Accepted:
		return d
	case r.RemoteQPN != k.localQPN:
		return DropQPN
	}
	switch k.state {
	case established, repSent: // in repSent the RTU was lost, but a DREQ proves the same
		k.credit++
		c.sendOnce(k, mad.AttrDREP, a.tid, &answer)
		c.end(a.now, k, ErrDisconnected)
	case dreqSent:
		c.sendOnce(k, mad.AttrDREP, a.tid, &answer)
		c.end(a.now, k, nil)
	case timeWait:
		c.sendOnce(k, mad.AttrDREP, a.tid, &answer)
		return DropDuplicate
	default:
		return DropState
	}
	return Accepted
}

// handleDREP handles a DREP.
func (c *CM) handleDREP(a *arrival) Drop {
	r := mad.ParseDREP(a.data)
	k, d := c.find(a, r.RemoteCommID, r.LocalCommID)
	switch {
	case d != Accepted:
		return d
	case k.state != dreqSent:
		return DropState
	case a.tid != k.endTID:
		return DropTransaction
	}
	c.end(a.now, k, nil)
	return Accepted
}
