// What comes: the checks that hold for every datagram, and which message goes where.

package cm

import (
	"net/netip"

	"github.com/nfsrdma/nfsrdma/rnic/roce/mad"
)

// An arrival is a datagram of communication management.
type arrival struct {
	now  Instant
	from netip.Addr
	tid  uint64
	data *mad.Data
}

// Receive takes the payload of a packet that Admit has let in, and the source of its IP header. The
// bytes are the caller's again when it returns.
func (c *CM) Receive(now Instant, from netip.Addr, datagram []byte) Drop {
	d := c.receive(now, from.Unmap().WithZone(""), datagram)
	c.counters.Datagrams[d]++
	return d
}

// Refused counts a packet to queue pair 1 that Admit did not let in.
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

// handlers is who takes each message.
var handlers = [...]func(*CM, *arrival) Drop{
	mad.AttrREQ: (*CM).request, mad.AttrMRA: (*CM).delayed, mad.AttrREJ: (*CM).rejected, mad.AttrREP: (*CM).reply, mad.AttrRTU: (*CM).ready,
	mad.AttrDREQ: (*CM).disconnected, mad.AttrDREP: (*CM).disconnectedToo, mad.AttrSIDRREQ: (*CM).ask, mad.AttrSIDRREP: (*CM).resolved,
	mad.AttrLAP: (*CM).alternatePath, mad.AttrAPR: (*CM).noPath,
}

// find is the connection that a message is for: by our identifier, which only its peer knows, and
// if it has told its own, by that too. What comes from elsewhere is a guess, or is for a connection
// of another.
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

// alternatePath refuses a LAP: the IP network finds another way by itself. It is answered also when
// the connection is gone: see Doubt.
func (c *CM) alternatePath(a *arrival) Drop {
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
	c.sayOnce(k, mad.AttrAPR, a.tid, &mad.APR{LocalCommID: k.id, RemoteCommID: k.remoteID, Status: mad.APUnsupported})
	return DropRefused
}
