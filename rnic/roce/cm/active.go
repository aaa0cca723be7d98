// The active side: it repeats a REQ until there is an answer, then sends the RTU.

package cm

import (
	"net/netip"

	"github.com/nfsrdma/nfsrdma/rnic/roce/mad"
)

// Values of fields without meaning for RoCE.
const (
	permissiveLID = 0xffff
	hopLimit      = 64
)

// A Request has the parameters of Connect and Resolve.
type Request struct {
	Peer    netip.Addr
	Service mad.ServiceID // mad.IPService(mad.ProtocolTCP, port), as rdma_cm does
	Local   QP

	// SourcePort is reported to the peer's program for an IP service; no socket need be bound to
	// this port.
	SourcePort uint16

	// Private is for the peer's program: at most 56 bytes for an IP service, otherwise 92.
	Private []byte
}

// Connect requests a connection. A Replied or Ended event follows.
func (c *CM) Connect(now Instant, r Request) (*Conn, error) {
	peer := r.Peer.Unmap().WithZone("")
	if peer.BitLen() != c.cfg.Addr.BitLen() {
		return nil, ErrPeer
	}
	m := c.buildREQ(&r, peer)
	private, err := c.private(m.PrivateData[:], r.Service, r.SourcePort, peer, r.Private)
	if err != nil {
		return nil, err
	}
	copy(m.PrivateData[:], private)
	k := &Conn{peer: peer, service: r.Service, active: true, localQPN: r.Local.QPN, req: &m,
		limit: int(c.cfg.Retries), interval: Instant(c.cfg.ResponseTimeout.Duration())}
	c.assignID(k)
	c.become(k, reqSent)
	c.sendREQ(k)
	c.timers.start(k, now+k.interval)
	return k, nil
}

func (c *CM) buildREQ(r *Request, peer netip.Addr) mad.REQ {
	q := &r.Local
	return mad.REQ{
		ServiceID: r.Service, LocalCAGUID: c.cfg.GUID, LocalQPN: q.QPN, StartingPSN: q.PSN, PartitionKey: defaultPKey,
		ResponderResources: q.ResponderResources, InitiatorDepth: q.InitiatorDepth,
		RemoteCMTimeout: c.cfg.ResponseTimeout, LocalCMTimeout: c.cfg.ResponseTimeout, MaxCMRetries: c.cfg.Retries,
		Service: q.Transport, FlowControl: q.FlowControl, RetryCount: q.RetryCount, RNRRetryCount: q.RNRRetryCount, PathMTU: q.PathMTU, SRQ: q.SRQ,
		Primary: mad.Path{LocalLID: permissiveLID, RemoteLID: permissiveLID, LocalGID: mad.GIDOf(c.cfg.Addr), RemoteGID: mad.GIDOf(peer),
			HopLimit: hopLimit, LocalAckTimeout: q.AckTimeout},
	}
}

// private returns the private data for a REQ or SIDR_REQ, which must fit in room: for an IP
// service the IP CM header, then the program's data.
func (c *CM) private(room []byte, service mad.ServiceID, port uint16, peer netip.Addr, consumer []byte) ([]byte, error) {
	b := make([]byte, 0, len(room))
	if _, _, ok := service.IP(); ok {
		var err error
		if b, err = (&mad.IPCM{Source: netip.AddrPortFrom(c.cfg.Addr, port), Destination: peer}).Append(b); err != nil {
			return nil, err
		}
	}
	if len(b)+len(consumer) > len(room) {
		return nil, ErrPrivate
	}
	return append(b, consumer...), nil
}

// assignID gives a connection an unpredictable communication ID.
func (c *CM) assignID(k *Conn) {
	for {
		k.id = uint32(c.cfg.Rand())
		if k.id != 0 && c.conns[k.id] == nil {
			break
		}
	}
	c.conns[k.id] = k
}

func (c *CM) sendREQ(k *Conn) {
	k.tid = c.cfg.Rand()
	k.req.LocalCommID = k.id
	c.sendRepeated(k, mad.AttrREQ, k.tid, k.req)
}

// handleREP handles a REP.
func (c *CM) handleREP(a *arrival) Drop {
	r := mad.ParseREP(a.data)
	k, d := c.find(a, r.RemoteCommID, r.LocalCommID)
	switch {
	case k == nil && d == DropUnknown && c.conns[r.RemoteCommID] == nil:
		// The peer waits for an RTU that will not come.
		c.refuseStateless(a.now, a.from, mad.AttrREJ, a.tid,
			&mad.REJ{LocalCommID: r.RemoteCommID, RemoteCommID: r.LocalCommID, Message: mad.AnsweredREP, Reason: mad.RejCommID})
		return d
	case d != Accepted:
		return d
	case a.tid != k.tid:
		return DropTransaction
	case k.active && k.state == established:
		c.repeat(k) // the RTU was lost
		return DropDuplicate
	case k.state == repReceived:
		return DropDuplicate
	case k.state != reqSent:
		return DropState
	case r.LocalCommID == 0 || !validQPN(r.LocalQPN):
		return DropMalformed
	}
	k.remoteID, k.remoteQPN, k.remoteGUID = r.LocalCommID, r.LocalQPN, r.LocalCAGUID
	c.timers.stop(k)
	c.become(k, repReceived)
	c.emit(Event{Kind: Replied, Conn: k, Private: append([]byte(nil), r.PrivateData[:]...), Remote: QP{
		QPN: r.LocalQPN, PSN: r.StartingPSN, ResponderResources: r.ResponderResources, InitiatorDepth: r.InitiatorDepth,
		RNRRetryCount: r.RNRRetryCount, FlowControl: r.FlowControl, SRQ: r.SRQ, AckTimeout: r.TargetAckDelay,
		Transport: k.req.Service, PathMTU: k.req.PathMTU, RetryCount: k.req.RetryCount}})
	return Accepted
}

// validQPN reports whether n can be a connection's QPN: neither 0 or 1, reserved for management,
// nor the multicast QPN.
func validQPN(n uint32) bool { return n > 1 && n < 1<<24-1 }

// rtuRepeats is how often an RTU is sent again without a request. A peer that protects itself
// against forged addresses, like this package, does not repeat its REP by a timer. After a lost RTU
// the peer would wait for our first packet; if our program lets the peer speak first, both would
// wait.
const rtuRepeats = 3

// Confirm sends the RTU, with at most 224 bytes of private data, after Replied. The queue pair
// must be ready to send.
func (c *CM) Confirm(now Instant, k *Conn, private []byte) error {
	m := mad.RTU{LocalCommID: k.id, RemoteCommID: k.remoteID}
	switch {
	case k.state != repReceived:
		return ErrState
	case len(private) > len(m.PrivateData):
		return ErrPrivate
	}
	copy(m.PrivateData[:], private)
	c.establish(now, k)
	c.sendRepeated(k, mad.AttrRTU, k.tid, &m)
	k.tries = 0
	c.timers.start(k, now+k.interval)
	return nil
}

// handleMRA handles an MRA: the peer has our message, and the peer's program needs more time.
func (c *CM) handleMRA(a *arrival) Drop {
	r := mad.ParseMRA(a.data)
	k, d := c.find(a, r.RemoteCommID, r.LocalCommID)
	switch {
	case d != Accepted:
		return d
	case a.tid != k.tid:
		return DropTransaction
	case !(k.state == reqSent && r.Message == mad.AnsweredREQ) && !(k.state == repSent && r.Message == mad.AnsweredREP):
		return DropState
	}
	wait := min(Instant(r.ServiceTimeout.Duration()), c.cfg.Waiting)
	if k.state == repSent {
		k.patience = max(k.patience, a.now+wait) // only the REP's receiver knows our ID
		k.credit++
	}
	c.timers.start(k, a.now+wait)
	return Accepted
}
