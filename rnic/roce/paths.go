// Limits of the packet length to each peer: those of the kernel, and those learned from lost
// packets.

package roce

import (
	"fmt"
	"net/netip"
	"sync"

	"github.com/nfsrdma/nfsrdma/rnic"
	"github.com/nfsrdma/nfsrdma/rnic/roce/core"
	"github.com/nfsrdma/nfsrdma/rnic/roce/udp"
)

// errTooLong ends a QP with packets longer than the interface now takes, or than a router reports
// for the path. A connection's path MTU is fixed, so only the next connection can use a smaller
// MTU.
var errTooLong = fmt.Errorf("%w: the way to the peer takes no packets as long as those of this connection", rnic.ErrConnLost)

// paths are a Device's packet-length limits, in addition to the kernel's. A limit comes from long
// packets that were lost, without a router's report, while short ones were not, or from the request
// of a peer. A limit is wrong if the path has changed, or if the packets were lost for another
// reason. Packets are then shorter than necessary until the limit expires after pathTime (RFC 8899
// section 5.1.1), and a new connection tries long ones again.
type paths struct {
	mu  sync.Mutex
	all map[netip.Addr]path // guarded by mu
}

// A path is the limit of one peer.
type path struct {
	most int // path MTU; 0: none was learned
	// until is most's expiry; a request does not extend it, because anybody can forge one.
	until core.Instant
	// refused is the expiry of a refusal for the path MTU; 0: none. Until then equal requests are
	// accepted. A request for a permitted path MTU clears refused.
	refused core.Instant
}

func (p path) limits() bool { return p.most != 0 && p.until > now() }

// acceptsRepeat reports whether an equal request is accepted.
func (p path) acceptsRepeat() bool { return p.refused != 0 && p.refused > now() }

// shorter returns the path MTU to try if packets with n bytes are lost. 1024 fits Ethernet and
// tunnels in Ethernet. Each step between 1024 and jumbo frames would cost a stall.
func shorter(n int) int {
	if n > 1024 {
		return 1024
	}
	return 256
}

// mostTo returns the largest path MTU for a new connection from the port to a peer. The peer's
// address comes from port.zoned, as in the other methods.
func (x *paths) mostTo(t *port, peer netip.Addr) int {
	n := udp.PathMTU(t.key.Addr(), peer)
	if n == 0 {
		n = linkMTU(t.key.Addr())
	}
	most := connMTU(n)
	x.mu.Lock()
	defer x.mu.Unlock()
	if p := x.all[peer]; p.limits() {
		most = min(most, p.most)
	}
	return most
}

// limit bounds the path MTU of new connections with a peer by n.
func (x *paths) limit(peer netip.Addr, n int) {
	x.mu.Lock()
	defer x.mu.Unlock()
	p := x.all[peer]
	if !p.limits() || n < p.most {
		p.most = n
	}
	p.until = now() + pathTime
	x.put(peer, p)
}

// admits reports whether a request for a path MTU is accepted if the largest is most. A refused
// peer requests less. A peer that requests the same path MTU again, as Linux does, supports no
// other. It is accepted, because the limit may be wrong.
func (x *paths) admits(peer netip.Addr, asked, most int) (ok bool) {
	x.mu.Lock()
	defer x.mu.Unlock()
	p := x.all[peer]
	again := p.acceptsRepeat()
	switch {
	case asked <= most && again:
		p.refused = 0
		x.put(peer, p)
	case asked > most && !again:
		p.refused = now() + pathTime
		x.put(peer, p)
	}
	return asked <= most || again
}

// put stores a peer's state unless all of it has expired. The caller holds mu.
func (x *paths) put(peer netip.Addr, p path) {
	delete(x.all, peer)
	if !p.limits() && !p.acceptsRepeat() {
		return
	}
	if x.all == nil {
		x.all = make(map[netip.Addr]path)
	}
	if len(x.all) >= maxPaths {
		x.drop()
	}
	x.all[peer] = p
}

// drop removes a peer, preferably one without a limit. The caller holds mu.
func (x *paths) drop() {
	var peer netip.Addr
	for other, p := range x.all {
		if peer = other; !p.limits() {
			break
		}
	}
	delete(x.all, peer)
}
