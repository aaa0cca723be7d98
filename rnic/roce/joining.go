// Joined packets: detects networks that change the IP identification covered by the ICRC, and
// lose them.

package roce

import (
	"net/netip"

	"github.com/nfsrdma/nfsrdma/internal/tally"
	"github.com/nfsrdma/nfsrdma/rnic"
	"github.com/nfsrdma/nfsrdma/rnic/roce/udp"
)

// A joinMonitor counts a port's retransmitted packets. Joined packets are split by the network, and
// the splitter writes the IPv4 identification, which the ICRC covers. Linux counts from 0. An
// adapter that splits instead of Linux, on this host or on a container's host, may number
// otherwise, and the peer then drops all but a message's first packet. So retransmitted packets
// travel alone. If their share is large, all later packets travel alone, too: joining gains nothing
// in such a lossy network. UC and UD never retransmit, so their packets are joined only if the
// splitting is known to be safe.
type joinMonitor struct {
	safe        bool // set once: loopback, or IPv6, which has no identification
	sent, again int
	stopped     bool
	tally       tally.Counter // won: joining goes on after joinedCounted packets; lost: it ends
}

func newJoinMonitor(local netip.Addr) joinMonitor {
	return joinMonitor{safe: local.IsLoopback() || local.Is6()}
}

// mustTravelAlone counts a packet about to leave, and reports whether it MUST travel alone.
func (j *joinMonitor) mustTravelAlone(w udp.Wire, s rnic.Service, again bool) bool {
	switch {
	case j.safe, j.stopped:
		return false
	case s != rnic.RC:
		return true
	}
	j.sent++
	if again {
		j.again++
	}
	if j.sent >= joinedCounted {
		if j.stopped = j.again > j.sent/joinedLost; j.stopped {
			w.NeverJoin()
		}
		j.tally.Note(!j.stopped)
		j.sent, j.again = 0, 0
	}
	return again
}
