// Limits of the packet length to each peer: those of the kernel, and those learned from lost
// packets.

package roce

import (
	"fmt"
	"net/netip"
	"sync"
	"time"

	"github.com/nfsrdma/nfsrdma/rnic"
	"github.com/nfsrdma/nfsrdma/rnic/roce/core"
	"github.com/nfsrdma/nfsrdma/rnic/roce/udp"
)

// errTooLong ends a QP with packets longer than the interface now takes, or the path as a router
// has reported it. The path MTU of a connection is fixed; the next connection gets another.
var errTooLong = fmt.Errorf("%w: the way to the peer takes no packets as long as those of this connection", rnic.ErrConnLost)

// paths are limits of a Device besides those of the kernel. A limit comes from long packets that
// were lost, without a router's report, while short ones were not, or from the request of a peer. A
// limit is wrong if the path has changed, or if the packets were lost for another reason. Packets
// are then shorter than necessary until the limit expires after pathTime (RFC 8899 section 5.1.1),
// and a new connection tries long ones again.
type paths struct {
	mu  sync.Mutex
	all map[netip.Addr]path // guarded by mu
}

// A path is the limit of one peer.
type path struct {
	most    int  // path MTU; 0: none was learned
	refused bool // the peer's last request was refused because it had a larger one
	until   core.Instant
}

const (
	pathTime = core.Instant(10 * time.Minute)

	// maxPaths bounds the peers; each has made a connection.
	maxPaths = 1024
)

// shorter is the path MTU to try if packets with n bytes are lost. 1024 fits Ethernet and tunnels
// in it. Each step between that and jumbo frames would cost a stall.
func shorter(n int) int {
	if n > 1024 {
		return 1024
	}
	return 256
}

// mostTo is the largest path MTU of a new connection from the port to a peer. The peer's address
// comes from port.zoned, as in the other methods.
func (x *paths) mostTo(t *port, peer netip.Addr) int {
	n := udp.PathMTU(t.key.Addr(), peer)
	if n == 0 {
		n = linkMTU(t.key.Addr())
	}
	most := connMTU(n)
	x.mu.Lock()
	defer x.mu.Unlock()
	if p := x.all[peer]; p.most != 0 && p.until > now() {
		most = min(most, p.most)
	}
	return most
}

// limit bounds the path MTU of new connections with a peer by n.
func (x *paths) limit(peer netip.Addr, n int) {
	x.change(peer, func(p *path) {
		if p.most == 0 || n < p.most {
			p.most = n
		}
	})
}

// admits reports whether a request for a path MTU is accepted if the largest is most. A refused
// peer requests less. A peer that requests as much again, as Linux does, supports no other, and is
// accepted: the limit may be wrong.
func (x *paths) admits(peer netip.Addr, asked, most int) (ok bool) {
	x.mu.Lock()
	ok = asked <= most
	p := x.all[peer]
	x.mu.Unlock()
	again := p.refused && p.until > now()
	if again != !ok {
		x.change(peer, func(p *path) { p.refused = !ok })
	}
	return ok || again
}

// change changes the limit of a peer, and keeps it for pathTime.
func (x *paths) change(peer netip.Addr, f func(*path)) {
	x.mu.Lock()
	defer x.mu.Unlock()
	p := x.all[peer]
	if p.until <= now() {
		p = path{}
	}
	f(&p)
	p.until = now() + pathTime
	if x.all == nil {
		x.all = make(map[netip.Addr]path)
	}
	for other := range x.all {
		if len(x.all) < maxPaths {
			break
		}
		delete(x.all, other)
	}
	x.all[peer] = p
}
