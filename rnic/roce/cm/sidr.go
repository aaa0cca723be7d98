// SIDR: finding a UD service's queue pair on a host.

package cm

import "github.com/nfsrdma/nfsrdma/rnic/roce/mad"

// Resolve asks a peer for a UD service's queue pair and Q_Key. Resolve ignores r.Local. r.Private
// may have 180 bytes for an IP service (mad.ProtocolUDP), otherwise 216. Resolved or Ended follows,
// then Released.
func (c *CM) Resolve(now Instant, r Request) (*Conn, error) {
	peer := r.Peer.Unmap().WithZone("")
	if peer.BitLen() != c.cfg.Addr.BitLen() {
		return nil, ErrPeer
	}
	m := mad.SIDRREQ{PartitionKey: defaultPKey, ServiceID: r.Service}
	private, err := c.private(m.PrivateData[:], r.Service, r.SourcePort, peer, r.Private)
	if err != nil {
		return nil, err
	}
	copy(m.PrivateData[:], private)
	k := &Conn{peer: peer, service: r.Service, active: true, limit: int(c.cfg.Retries), interval: Instant(c.cfg.ResponseTimeout.Duration())}
	c.assignID(k)
	k.tid, m.RequestID = c.cfg.Rand(), k.id
	c.become(k, sidrReqSent)
	c.sendRepeated(k, mad.AttrSIDRREQ, k.tid, &m)
	c.timers.start(k, now+k.interval)
	return k, nil
}

// handleSIDRREP handles a SIDR_REP.
func (c *CM) handleSIDRREP(a *arrival) Drop {
	r, err := mad.ParseSIDRREP(a.data)
	if err != nil {
		return DropMalformed
	}
	k := c.conns[r.RequestID]
	switch {
	case k == nil:
		return DropUnknown
	case k.peer != a.from:
		return DropAddress
	case k.state != sidrReqSent:
		return DropState
	case a.tid != k.tid:
		return DropTransaction
	case r.Status == mad.SIDRValid && (r.ServiceID != k.service || !validQPN(r.QPN)):
		return DropMalformed
	}
	private := append([]byte(nil), r.PrivateData[:]...)
	if r.Status != mad.SIDRValid {
		c.end(a.now, k, &SIDRError{Status: r.Status, Private: private})
		return Accepted
	}
	c.emit(Event{Kind: Resolved, Conn: k, Private: private, Remote: QP{QPN: r.QPN, QKey: r.QKey}})
	c.become(k, released)
	return Accepted
}

// handleSIDRREQ handles a SIDR_REQ.
func (c *CM) handleSIDRREQ(a *arrival) Drop {
	r := mad.ParseSIDRREQ(a.data)
	key := remote{a.from, r.RequestID, true}
	if k := c.requests[key]; k != nil {
		return c.handleRepeatedSIDRREQ(a, k, &r)
	}
	source, private, ok := c.fromIP(a.from, r.ServiceID, r.PrivateData[:])
	if !c.services[r.ServiceID] || !ok || r.PartitionKey&pkeyBits != defaultPKey&pkeyBits {
		c.refuseStateless(a.now, a.from, mad.AttrSIDRREP, a.tid, &mad.SIDRREP{RequestID: r.RequestID, Status: mad.SIDRUnsupported, ServiceID: r.ServiceID})
		return DropRefused
	}
	c.makeRoom(a.from)
	k := &Conn{peer: a.from, service: r.ServiceID, remoteID: r.RequestID, tid: a.tid, credit: 1, patience: a.now + c.cfg.Patience, retained: maxRetained}
	c.requests[key] = k
	c.assignID(k)
	c.become(k, sidrReqReceived)
	c.timers.start(k, k.patience)
	c.emit(Event{Kind: Asked, Conn: k, Source: source, Private: append([]byte(nil), private...)})
	return Accepted
}

// handleRepeatedSIDRREQ handles a repeated SIDR_REQ: if k has been answered, the answer is
// repeated.
func (c *CM) handleRepeatedSIDRREQ(a *arrival, k *Conn, r *mad.SIDRREQ) Drop {
	if a.tid != k.tid || r.ServiceID != k.service {
		return DropTransaction
	}
	if k.state == sidrRepSent {
		k.credit++
		c.repeat(k)
	}
	return DropDuplicate
}

// Answer sends the SIDR_REP, with at most 136 bytes of private data. qpn and qkey count only if
// the status is mad.SIDRValid. Released follows.
func (c *CM) Answer(now Instant, k *Conn, s mad.SIDRStatus, qpn, qkey uint32, private []byte) error {
	m := mad.SIDRREP{RequestID: k.remoteID, Status: s, QPN: qpn, QKey: qkey, ServiceID: k.service}
	switch {
	case k.state != sidrReqReceived:
		return ErrState
	case len(private) > len(m.PrivateData):
		return ErrPrivate
	}
	copy(m.PrivateData[:], private)
	c.become(k, sidrRepSent)
	c.sendRepeated(k, mad.AttrSIDRREP, k.tid, &m)
	c.timers.start(k, now+k.retained)
	return nil
}
