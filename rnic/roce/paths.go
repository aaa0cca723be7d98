// How long packets to each peer may be: what the kernel knows, and what was learned from those that were lost.

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

// errTooLong ends a QP whose packets the interface, or the way to the peer as a router has described it, does not take any more. The path MTU
// of a connection is for its life: the next one has another.
var errTooLong = fmt.Errorf("%w: the way to the peer takes no packets as long as those of this connection", rnic.ErrConnLost)

// paths are limits of a Device beside those of the kernel. A limit was learned from packets that were lost where shorter ones were not, with no word from a
// router, or is what a peer has asked for. It is wrong where the way has become another one, or the packets were lost for another reason: then
// packets are shorter than they could be, until it is forgotten after pathTime (RFC 8899 section 5.1.1) and a new connection tries the long ones again.
type paths struct {
	mu  sync.Mutex
	all map[netip.Addr]path // guarded by mu
}

// A path is the limit of one peer.
type path struct {
	most    int  // path MTU; 0: none was learned
	refused bool // the peer's last request asked for more, and was refused
	until   core.Instant
}

const (
	pathTime = core.Instant(10 * time.Minute)

	// maxPaths bounds the peers; each has made a connection.
	maxPaths = 1024
)

// shorter is the path MTU that is tried where packets with n bytes are lost. 1024 fits what Ethernet and tunnels in it take, and steps between that
// and jumbo frames would cost a stall each.
func shorter(n int) int {
	if n > 1024 {
		return 1024
	}
	return 256
}

// mostTo is the largest path MTU of a new connection of the port with a peer, which is one of port.zoned, as in the other methods.
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

// limit has new connections with a peer have a path MTU of at most n.
func (x *paths) limit(peer netip.Addr, n int) {
	x.change(peer, func(p *path) {
		if p.most == 0 || n < p.most {
			p.most = n
		}
	})
}

// admits reports whether a peer that asks for a path MTU gets it, where the largest is most. One that is refused more asks for less; that which asks for as
// much again knows no other, as Linux, and gets it: the limit may be wrong.
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

// change changes what is known of a peer, and keeps it for pathTime.
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
