// Doubt: whether a peer that does not answer knows the connection at all.

package cm

import "github.com/nfsrdma/nfsrdma/rnic/roce/mad"

// Doubt asks the peer of an established connection whether it knows it. One that has been started
// anew does not, and drops what comes for its queue pairs without a word, so that the owner would
// wait for as long as for a peer that is merely slow. What asks is a LAP without a path: the only
// message whose answer tells that and that changes nothing (IBA 12.8). Only the active side can
// send it. It is not repeated, and Linux does not answer it; if the connection is gone Ended
// follows, with ErrForgotten.
func (c *CM) Doubt(k *Conn) error {
	if k.state != established || !k.active {
		return ErrState
	}
	k.doubtTID = c.cfg.Rand()
	c.sayOnce(k, mad.AttrLAP, k.doubtTID, &mad.LAP{LocalCommID: k.id, RemoteCommID: k.remoteID, RemoteQPN: k.remoteQPN, RemoteCMTimeout: c.cfg.ResponseTimeout})
	return nil
}

// noPath takes an APR. Nobody who does not see our packets can make one up: it has the number of
// the last Doubt.
func (c *CM) noPath(a *arrival) Drop {
	r, err := mad.ParseAPR(a.data)
	if err != nil {
		return DropMalformed
	}
	k, d := c.find(a, r.RemoteCommID, r.LocalCommID)
	switch {
	case d != Accepted:
		return d
	case k.state != established || k.doubtTID == 0:
		return DropState
	case a.tid != k.doubtTID:
		return DropTransaction
	}
	k.doubtTID = 0
	if r.Status == mad.APInvalidCommID {
		c.end(a.now, k, ErrForgotten)
	}
	return Accepted
}
