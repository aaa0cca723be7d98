// Whether packets travel joined: on a network that makes something else of the identification than
// this end has signed, they do not arrive.

package roce

import (
	"net/netip"

	"github.com/nfsrdma/nfsrdma/rnic"
	"github.com/nfsrdma/nfsrdma/rnic/roce/udp"
)

// A joining counts the packets of a port that are sent again. The ICRC covers the identification of
// IPv4, which who takes apart joined packets writes: Linux counts it from 0. An adapter that does
// so in its place, on this host or on one that forwards for a container, may do otherwise, and the
// peer drops all of a message but the first. So what is sent again travels alone, and where that is
// much of it everything does from then on: a network that loses that share of its packets gains
// nothing by joining. UC and UD, of which nothing is sent again, are joined only where nothing can
// go wrong.
type joining struct {
	sure        bool // set once: loopback, or IPv6, which has no identification
	sent, again int
	over        bool
}

func newJoining(local netip.Addr) joining { return joining{sure: local.IsLoopback() || local.Is6()} }

// Of joinedCounted packets, at most one in joinedLost may be sent again.
const (
	joinedCounted = 1024
	joinedLost    = 4
)

// apart notes that a packet leaves, and reports whether it MUST travel alone.
func (j *joining) apart(w udp.Wire, s rnic.Service, again bool) bool {
	switch {
	case j.sure, j.over:
		return false
	case s != rnic.RC:
		return true
	}
	j.sent++
	if again {
		j.again++
	}
	if j.sent >= joinedCounted {
		if j.over = j.again > j.sent/joinedLost; j.over {
			w.NeverJoin()
		}
		j.sent, j.again = 0, 0
	}
	return again
}
