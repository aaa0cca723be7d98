// What both sides of a connection agreed on, for those who want to show it.

package rpcrdma

// An Info is what was agreed on at set-up, and the credits of both directions at this moment.
type Info struct {
	Thresholds  Thresholds // the inline thresholds, in bytes with the header
	IRD, ORD    int        // RDMA Reads at once: the peer's of our memory, ours of the peer's
	Credits     int        // calls at once that the peer granted with its last reply; 1 before the first
	Granted     int        // calls at once that we grant the peer
	InUse       int        // of those: calls taken in whose service has not ended
	PrivateData bool       // the peer has told its sizes (RFC 8797)
	CRC         bool       // what is sent has CRCs, which are checked
}

// Info describes a connection as it is now.
func (c *Conn) Info() Info {
	i := Info{Thresholds: c.thresholds(), IRD: c.qp.IRD(), ORD: c.qp.ORD(), CRC: c.qp.CRC()}
	i.Credits = c.requester.granted()
	_, i.PrivateData = ParsePrivateData(c.qp.PrivateData())
	rs := &c.responder
	rs.mu.Lock()
	defer rs.mu.Unlock()
	i.Granted, i.InUse = rs.grant.announced, rs.serving
	return i
}
