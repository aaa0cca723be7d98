// Doubt: whether an unresponsive peer still knows the connection.

package cm

import "github.com/nfsrdma/nfsrdma/rnic/roce/mad"

// Doubt asks an established connection's peer whether it knows the connection. A restarted peer
// does not: it silently drops packets for the queue pair, and the owner would wait as long as for
// a slow peer. The request is a LAP without a path, the only message that has no side effect and
// an answer that shows this (IBA 12.8). Only the active side can send it. It is not repeated, and
// Linux does not answer it. If the connection is gone, Ended follows with ErrForgotten.
func (c *CM) Doubt(k *Conn) error {
	if k.state != established || !k.active {
		return ErrState
	}
	k.lapTID = c.cfg.Rand()
	c.sendOnce(k, mad.AttrLAP, k.lapTID, &mad.LAP{LocalCommID: k.id, RemoteCommID: k.remoteID, RemoteQPN: k.remoteQPN, RemoteCMTimeout: c.cfg.ResponseTimeout})
	return nil
}

// handleAPR handles an APR. Only an observer of our packets can forge one: it must have the last
// Doubt's transaction ID.
func (c *CM) handleAPR(a *arrival) Drop {
	r, err := mad.ParseAPR(a.data)
	if err != nil {
		return DropMalformed
	}
	k, d := c.find(a, r.RemoteCommID, r.LocalCommID)
	switch {
	case d != Accepted:
		return d
	case k.state != established || k.lapTID == 0:
		return DropState
	case a.tid != k.lapTID:
		return DropTransaction
	}
	k.lapTID = 0
	if r.Status == mad.APInvalidCommID {
		c.end(a.now, k, ErrForgotten)
	}
	return Accepted
}
