// The passive side: services, REQs and their answers.

package cm

import (
	"net/netip"

	"github.com/nfsrdma/nfsrdma/rnic/roce/mad"
)

// Bounds for the times in a REQ.
const (
	minInterval = 100 * millisecond // between two REPs
	minPatience = second            // for an RTU
	maxRetained = 10 * second       // lifetime of a REJ or SIDR_REP, to answer repeated requests
	minHeard    = 10 * millisecond  // between two REPs sent by Heard
)

// mraTimeout is the wait requested by an MRA: 1.07 s. After the wait the peer repeats its REQ, and
// gets another MRA, or the REP. A peer with an unproven address gets no REP by timer, so a long
// wait would mean a long delay after one lost datagram.
const mraTimeout mad.Timeout = 18

// alternateUnsupported is a REP's FailoverAccepted value without alternate path support.
const alternateUnsupported = 1

// Listen makes requests for a service produce Requested or Asked events.
func (c *CM) Listen(s mad.ServiceID) error {
	if c.services[s] {
		return ErrService
	}
	c.services[s] = true
	return nil
}

// Unlisten undoes Listen. Requests already reported are unaffected.
func (c *CM) Unlisten(s mad.ServiceID) { delete(c.services, s) }

// handleREQ handles a REQ.
func (c *CM) handleREQ(a *arrival) Drop {
	r := mad.ParseREQ(a.data)
	key := remote{a.from, r.LocalCommID, false}
	if k := c.requests[key]; k != nil {
		return c.handleRepeatedREQ(a, k, &r)
	}
	if r.LocalCommID == 0 {
		return DropMalformed
	}
	source, private, why, info := c.rejectReason(a.from, &r)
	if old := c.pairs[pair{a.from, r.LocalCAGUID, r.LocalQPN}]; why == 0 && old != nil && old.state == timeWait {
		why = mad.RejStaleConn
	}
	if why != 0 {
		c.refuseREQ(a, &r, why, info)
		return DropRefused
	}
	c.makeRoom(a.from)
	k := &Conn{peer: a.from, service: r.ServiceID, remoteID: r.LocalCommID, tid: a.tid, remoteQPN: r.LocalQPN, remoteGUID: r.LocalCAGUID,
		limit: int(r.MaxCMRetries), interval: Instant(r.LocalCMTimeout.Duration()), credit: 1, alternate: r.Alternate.LocalGID != mad.GID{}}
	k.interval = min(max(k.interval, minInterval), c.cfg.Patience)
	k.patience = a.now + c.cfg.Patience
	k.retained = min(2*Instant(r.RemoteCMTimeout.Duration()), maxRetained)
	c.requests[key] = k
	c.assignID(k)
	c.become(k, reqReceived)
	c.timers.start(k, k.patience)
	c.emit(Event{Kind: Requested, Conn: k, Source: source, Private: append([]byte(nil), private...), Remote: QP{
		QPN: r.LocalQPN, PSN: r.StartingPSN, ResponderResources: r.ResponderResources, InitiatorDepth: r.InitiatorDepth,
		RNRRetryCount: r.RNRRetryCount, FlowControl: r.FlowControl, SRQ: r.SRQ, AckTimeout: r.Primary.LocalAckTimeout,
		Transport: r.Service, PathMTU: r.PathMTU, RetryCount: r.RetryCount}})
	return Accepted
}

// handleRepeatedREQ handles a REQ with a known identifier: a repetition, or a second use of the
// identifier.
func (c *CM) handleRepeatedREQ(a *arrival, k *Conn, r *mad.REQ) Drop {
	if a.tid != k.tid || r.LocalQPN != k.remoteQPN || r.ServiceID != k.service {
		c.refuseREQ(a, r, mad.RejDuplicateCommID, nil)
		return DropRefused
	}
	switch k.state {
	case reqReceived:
		k.credit++
		c.sendOnce(k, mad.AttrMRA, k.tid, &mad.MRA{LocalCommID: k.id, RemoteCommID: k.remoteID, Message: mad.AnsweredREQ, ServiceTimeout: mraTimeout})
	case repSent, refused:
		k.credit++
		c.repeat(k)
	}
	return DropDuplicate
}

// rejectReason returns the reason for rejecting a REQ, or 0. It also returns the request's
// source, and the program's part of the private data.
func (c *CM) rejectReason(from netip.Addr, r *mad.REQ) (source netip.AddrPort, private []byte, why mad.Reason, info []byte) {
	source, private = netip.AddrPortFrom(from, 0), r.PrivateData[:]
	switch {
	case !c.services[r.ServiceID]:
		return source, nil, mad.RejServiceID, nil
	case r.Service > mad.ServiceUC || r.ExtendedTransport != 0:
		return source, nil, mad.RejTransport, nil
	case r.PartitionKey&pkeyBits != defaultPKey&pkeyBits || !validQPN(r.LocalQPN):
		return source, nil, mad.RejUnsupported, nil
	case r.Primary.LocalGID != mad.GIDOf(from) || r.Primary.RemoteGID != mad.GIDOf(c.cfg.Addr):
		return source, nil, mad.RejPrimaryGID, nil
	case r.PathMTU.Bytes() == 0 || r.PathMTU > c.cfg.MTU:
		return source, nil, mad.RejMTU, []byte{byte(c.cfg.MTU)}
	}
	source, private, ok := c.fromIP(from, r.ServiceID, private)
	if !ok {
		return source, nil, mad.RejUnsupported, nil
	}
	return source, private, 0, nil
}

// fromIP removes an IP service's CM header from private data. The header must match the packet's
// IP header, because an export may be limited to one address.
func (c *CM) fromIP(from netip.Addr, s mad.ServiceID, private []byte) (netip.AddrPort, []byte, bool) {
	if _, _, ok := s.IP(); !ok {
		return netip.AddrPortFrom(from, 0), private, true
	}
	h, rest, err := mad.ParseIPCM(private)
	if err != nil || h.Source.Addr().Unmap() != from || h.Destination.Unmap() != c.cfg.Addr {
		return netip.AddrPort{}, nil, false
	}
	return netip.AddrPortFrom(from, h.Source.Port()), rest, true
}

// refuseREQ rejects a REQ without keeping state.
func (c *CM) refuseREQ(a *arrival, r *mad.REQ, why mad.Reason, info []byte) {
	m := mad.REJ{RemoteCommID: r.LocalCommID, Message: mad.AnsweredREQ, Reason: why, InfoLen: uint8(len(info))}
	copy(m.Info[:], info)
	c.refuseStateless(a.now, a.from, mad.AttrREJ, a.tid, &m)
}

// Accept sends the REP, with at most 196 bytes of private data. The queue pair must be ready to
// receive.
func (c *CM) Accept(now Instant, k *Conn, local QP, private []byte) error {
	m := mad.REP{LocalCommID: k.id, RemoteCommID: k.remoteID, LocalQPN: local.QPN, StartingPSN: local.PSN,
		ResponderResources: local.ResponderResources, InitiatorDepth: local.InitiatorDepth, TargetAckDelay: local.AckTimeout,
		FlowControl: local.FlowControl, RNRRetryCount: local.RNRRetryCount, SRQ: local.SRQ, LocalCAGUID: c.cfg.GUID}
	switch {
	case k.state != reqReceived:
		return ErrState
	case len(private) > len(m.PrivateData):
		return ErrPrivate
	}
	if k.alternate {
		m.FailoverAccepted = alternateUnsupported
	}
	copy(m.PrivateData[:], private)
	k.localQPN, k.tries = local.QPN, 0
	k.patience = now + min(max(k.interval*Instant(k.limit+1), minPatience), c.cfg.Patience)
	c.become(k, repSent)
	c.sendRepeated(k, mad.AttrREP, k.tid, &m)
	c.timers.start(k, min(now+k.interval, k.patience))
	return nil
}

// Reject rejects a request, with at most 148 bytes of private data. RejConsumer is for the program,
// with the program's data; other reasons such as RejNoQP are for the owner.
func (c *CM) Reject(now Instant, k *Conn, why mad.Reason, private []byte) error {
	m := mad.REJ{Reason: why}
	if len(private) > len(m.PrivateData) {
		return ErrPrivate
	}
	copy(m.PrivateData[:], private)
	return c.reject(now, k, &m)
}

// RejectMTU rejects a request's path MTU, and names the largest acceptable one.
func (c *CM) RejectMTU(now Instant, k *Conn, most mad.MTU) error {
	m := mad.REJ{Reason: mad.RejMTU, InfoLen: 1}
	m.Info[0] = byte(most)
	return c.reject(now, k, &m)
}

func (c *CM) reject(now Instant, k *Conn, m *mad.REJ) error {
	if k.state != reqReceived {
		return ErrState
	}
	m.RemoteCommID, m.Message = k.remoteID, mad.AnsweredREQ
	c.become(k, refused)
	c.sendRepeated(k, mad.AttrREJ, k.tid, m)
	c.timers.start(k, now+k.retained)
	return nil
}

// handleRTU handles an RTU: the peer has received the REP.
func (c *CM) handleRTU(a *arrival) Drop {
	r := mad.ParseRTU(a.data)
	k, d := c.find(a, r.RemoteCommID, r.LocalCommID)
	switch {
	case d != Accepted:
		c.countWrongRTU(a.from)
		return d
	case k.state == established && !k.active:
		return DropDuplicate
	case k.state != repSent:
		return DropState
	}
	c.timers.stop(k)
	c.establish(a.now, k)
	return Accepted
}

// Heard reports a packet on a connection's queue pair before the RTU, which is lost or late. The CM
// repeats the REP to get another RTU. The packet itself proves nothing: an attacker who forged the
// REQ's source chose the PSN, and must only guess 24 bits. So the owner MUST NOT pass the packet's
// data to the program before Established.
func (c *CM) Heard(now Instant, k *Conn) {
	if k.state != repSent || k.lastHeard != 0 && now-k.lastHeard < minHeard {
		return
	}
	k.lastHeard = now
	k.credit = max(k.credit, 1)
	c.repeat(k)
}

// establish completes a connection. An older connection with the same remote queue pair must have
// ended without a DREQ: the peer has just shown that it uses the queue pair for k.
func (c *CM) establish(now Instant, k *Conn) {
	key := pair{k.peer, k.remoteGUID, k.remoteQPN}
	old := c.pairs[key]
	c.pairs[key] = k
	c.become(k, established)
	c.emit(Event{Kind: Established, Conn: k})
	switch {
	case old == nil:
	case old.state == established:
		c.end(now, old, ErrSuperseded)
	case old.state == dreqSent:
		c.end(now, old, nil)
	}
}
