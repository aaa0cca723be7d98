// Doubt: whether an unresponsive peer still knows the connection.

package cm

import "github.com/nfsrdma/nfsrdma/rnic/roce/mad"

// Doubt asks an established connection's peer whether it knows the connection. A restarted peer
// does not know the connection, and silently drops packets for the queue pair. Without Doubt the
// owner would wait as long as for a slow peer. The request is a LAP without a path, the only
// message without side effects whose answer shows whether the peer knows the connection (IBA 12.8).
// Only the active side can send a LAP. Doubt does not repeat the LAP, and Linux does not answer it.
// If the connection is gone, Ended follows with ErrForgotten.
func (c *CM) Doubt(k *Conn) error {
	if k.state != established || !k.active {
		return ErrState
	}
	k.lapTID = c.cfg.Rand()
	c.sendOnce(k, mad.AttrLAP, k.lapTID, &mad.LAP{LocalCommID: k.id, RemoteCommID: k.remoteID, RemoteQPN: k.remoteQPN, RemoteCMTimeout: c.cfg.ResponseTimeout})
	return nil
}

// handleAPR handles an APR. Only an observer of our packets can forge an APR, because an APR must
// have the last Doubt's transaction ID.
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
