// The passive side: services, REQs, and the answers to them.

package cm

import (
	"net/netip"

	"github.com/nfsrdma/nfsrdma/rnic/roce/mad"
)

// Bounds on what a REQ says about times.
const (
	minInterval = 100 * millisecond // between two REPs
	minPatience = second            // for an RTU
	maxRetained = 10 * second       // how long a REJ or SIDR_REP is kept for repetitions of what it answers
	minHeard    = 10 * millisecond  // between two REPs that Heard sends
)

// mraTimeout is how long an MRA asks the peer to wait: 1.07 s. After that it sends the REQ again,
// and hears the same, or the REP: that is not repeated by itself for a peer that has not proven its
// address, so a long wait would be the price of one lost datagram.
const mraTimeout mad.Timeout = 18

// alternateUnsupported is FailoverAccepted of a REP that takes no alternate path.
const alternateUnsupported = 1

// Listen has requests for a service told as Requested, or Asked.
func (c *CM) Listen(s mad.ServiceID) error {
	if c.services[s] {
		return ErrService
	}
	c.services[s] = true
	return nil
}

// Unlisten ends what Listen began. Requests that were told are not touched.
func (c *CM) Unlisten(s mad.ServiceID) { delete(c.services, s) }

// request takes a REQ.
func (c *CM) request(a *arrival) Drop {
	r := mad.ParseREQ(a.data)
	key := remote{a.from, r.LocalCommID, false}
	if k := c.requests[key]; k != nil {
		return c.requestAgain(a, k, &r)
	}
	if r.LocalCommID == 0 {
		return DropMalformed
	}
	source, private, why, info := c.unfit(a.from, &r)
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
	c.name(k)
	c.become(k, reqReceived)
	c.timers.start(k, k.patience)
	c.tell(Event{Kind: Requested, Conn: k, Source: source, Private: append([]byte(nil), private...), Remote: QP{
		QPN: r.LocalQPN, PSN: r.StartingPSN, ResponderResources: r.ResponderResources, InitiatorDepth: r.InitiatorDepth,
		RNRRetryCount: r.RNRRetryCount, FlowControl: r.FlowControl, SRQ: r.SRQ, AckTimeout: r.Primary.LocalAckTimeout,
		Transport: r.Service, PathMTU: r.PathMTU, RetryCount: r.RetryCount}})
	return Accepted
}

// requestAgain takes a REQ that has the identifier of one that came before: it is that one again,
// or its peer uses the identifier for two things.
func (c *CM) requestAgain(a *arrival, k *Conn, r *mad.REQ) Drop {
	if a.tid != k.tid || r.LocalQPN != k.remoteQPN || r.ServiceID != k.service {
		c.refuseREQ(a, r, mad.RejDuplicateCommID, nil)
		return DropRefused
	}
	switch k.state {
	case reqReceived:
		k.credit++
		c.sayOnce(k, mad.AttrMRA, k.tid, &mad.MRA{LocalCommID: k.id, RemoteCommID: k.remoteID, Message: mad.AnsweredREQ, ServiceTimeout: mraTimeout})
	case repSent, refused:
		k.credit++
		c.repeat(k)
	}
	return DropDuplicate
}

// unfit is why a REQ cannot be told to the owner, 0 if it can; and who asks, with the part of the
// private data that is the program's.
func (c *CM) unfit(from netip.Addr, r *mad.REQ) (source netip.AddrPort, private []byte, why mad.Reason, info []byte) {
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

// fromIP takes the IP CM header off private data, if the service is one of IP. It has to say what
// the packet's IP header said: an export may be meant for one address only.
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

// refuseREQ answers a REQ that nothing is remembered of.
func (c *CM) refuseREQ(a *arrival, r *mad.REQ, why mad.Reason, info []byte) {
	m := mad.REJ{RemoteCommID: r.LocalCommID, Message: mad.AnsweredREQ, Reason: why, InfoLen: uint8(len(info))}
	copy(m.Info[:], info)
	c.refuseStateless(a.now, a.from, mad.AttrREJ, a.tid, &m)
}

// Accept sends the REP, with private data of at most 196 bytes. The queue pair is ready to receive.
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
	c.say(k, mad.AttrREP, k.tid, &m)
	c.timers.start(k, min(now+k.interval, k.patience))
	return nil
}

// Reject refuses a request, with private data of at most 148 bytes. RejConsumer is the program's
// reason, with words of its own; others are the owner's, such as RejNoQP.
func (c *CM) Reject(now Instant, k *Conn, why mad.Reason, private []byte) error {
	m := mad.REJ{Reason: why}
	if len(private) > len(m.PrivateData) {
		return ErrPrivate
	}
	copy(m.PrivateData[:], private)
	return c.reject(now, k, &m)
}

// RejectMTU rejects a request because of its path MTU, and names the largest that is accepted.
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
	c.say(k, mad.AttrREJ, k.tid, m)
	c.timers.start(k, now+k.retained)
	return nil
}

// ready takes an RTU: the peer has received the REP.
func (c *CM) ready(a *arrival) Drop {
	r := mad.ParseRTU(a.data)
	k, d := c.find(a, r.RemoteCommID, r.LocalCommID)
	switch {
	case d != Accepted:
		c.guessed(a.from)
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

// Heard tells that a packet has come on the queue pair of a connection whose RTU has not: it is
// lost, or late. The REP is sent again, so that the RTU is. The packet itself proves nothing, since
// who forges a REQ's source has chosen the PSN and has but 24 bits to guess; so the owner MUST NOT
// give what it carries to the program before Established.
func (c *CM) Heard(now Instant, k *Conn) {
	if k.state != repSent || k.heard != 0 && now-k.heard < minHeard {
		return
	}
	k.heard = now
	k.credit = max(k.credit, 1)
	c.repeat(k)
}

// establish has a connection be made. Another one with the same queue pair of the peer's has ended
// without our being told: the peer has just shown that it uses the queue pair for this one.
func (c *CM) establish(now Instant, k *Conn) {
	key := pair{k.peer, k.remoteGUID, k.remoteQPN}
	old := c.pairs[key]
	c.pairs[key] = k
	c.become(k, established)
	c.tell(Event{Kind: Established, Conn: k})
	switch {
	case old == nil:
	case old.state == established:
		c.end(now, old, ErrSuperseded)
	case old.state == dreqSent:
		c.end(now, old, nil)
	}
}
