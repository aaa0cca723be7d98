// What both sides of a connection agreed on, for those who want to show it.

package rpcrdma

// An Info is what was agreed on at set-up, and the peer's newest grant of credits.
type Info struct {
	Thresholds Thresholds // the inline thresholds, in bytes with the header
	IRD, ORD   int        // RDMA Reads at once: the peer's of our memory, ours of the peer's
	Credits    int        // calls at once that the peer granted with its last reply; 1 before the first
}

// Info describes a connection as it is now.
func (c *Conn) Info() Info {
	i := Info{Thresholds: c.thresholds(), IRD: c.qp.IRD(), ORD: c.qp.ORD()}
	i.Credits = c.requester.granted()
	return i
}
