// Incoming datagrams: common checks, and dispatch by message.

package cm

import (
	"net/netip"

	"github.com/nfsrdma/nfsrdma/rnic/roce/mad"
)

// An arrival is a received communication management datagram.
type arrival struct {
	now  Instant
	from netip.Addr
	tid  uint64
	data *mad.Data
}

// Receive handles the payload of a packet that Admit accepted; from is its IP source address. The
// caller may reuse the bytes afterwards.
func (c *CM) Receive(now Instant, from netip.Addr, datagram []byte) Drop {
	d := c.receive(now, from.Unmap().WithZone(""), datagram)
	c.counters.Datagrams[d]++
	return d
}

// Refused counts a packet to queue pair 1 that Admit refused.
func (c *CM) Refused() { c.counters.Datagrams[DropKeys]++ }

func (c *CM) receive(now Instant, from netip.Addr, datagram []byte) Drop {
	h, data, err := mad.Parse(datagram)
	if err != nil {
		return DropHeader
	}
	a := arrival{now, from, h.TransactionID, data}
	switch err := h.CheckCM(); {
	case err == mad.ErrClassVersion && h.Attribute == mad.AttrREQ:
		r := mad.ParseREQ(data)
		c.refuseREQ(&a, &r, mad.RejClassVersion, nil)
		return DropClass
	case err != nil:
		return DropClass
	case from.BitLen() != c.cfg.Addr.BitLen():
		return DropAddress
	case int(h.Attribute) < len(handlers) && handlers[h.Attribute] != nil:
		return handlers[h.Attribute](c, &a)
	}
	return DropAttribute
}

// handlers maps messages to their handlers.
var handlers = [...]func(*CM, *arrival) Drop{
	mad.AttrREQ: (*CM).handleREQ, mad.AttrMRA: (*CM).handleMRA, mad.AttrREJ: (*CM).handleREJ, mad.AttrREP: (*CM).handleREP, mad.AttrRTU: (*CM).handleRTU,
	mad.AttrDREQ: (*CM).handleDREQ, mad.AttrDREP: (*CM).handleDREP, mad.AttrSIDRREQ: (*CM).handleSIDRREQ, mad.AttrSIDRREP: (*CM).handleSIDRREP,
	mad.AttrLAP: (*CM).handleLAP, mad.AttrAPR: (*CM).handleAPR,
}

// find returns a message's connection: by our identifier, which only the peer knows, and the
// peer's identifier once known. The source address must match, or the message is a guess or
// belongs to another host.
func (c *CM) find(a *arrival, local, remote uint32) (*Conn, Drop) {
	k := c.conns[local]
	switch {
	case k == nil:
		return nil, DropUnknown
	case k.peer != a.from:
		return nil, DropAddress
	case k.remoteID != 0 && remote != k.remoteID:
		return nil, DropUnknown
	}
	return k, Accepted
}

// handleLAP refuses a LAP: IP networks reroute by themselves. handleLAP answers even for an unknown
// connection: see Doubt.
func (c *CM) handleLAP(a *arrival) Drop {
	r := mad.ParseLAP(a.data)
	k, d := c.find(a, r.RemoteCommID, r.LocalCommID)
	switch {
	case d == DropUnknown && c.conns[r.RemoteCommID] == nil:
		c.refuseStateless(a.now, a.from, mad.AttrAPR, a.tid,
			&mad.APR{LocalCommID: r.RemoteCommID, RemoteCommID: r.LocalCommID, Status: mad.APInvalidCommID})
		return d
	case d != Accepted:
		return d
	case k.state != established:
		return DropState
	case r.RemoteQPN != k.localQPN:
		return DropQPN
	}
	c.sendOnce(k, mad.AttrAPR, a.tid, &mad.APR{LocalCommID: k.id, RemoteCommID: k.remoteID, Status: mad.APUnsupported})
	return DropRefused
}
