// What the network says of packets that nobody takes: it is kept for the service loop, which tells
// the QPs.

package roce

import (
	"net/netip"

	"github.com/nfsrdma/nfsrdma/rnic/roce/packet"
)

// An unheard is a packet that came to a port that nobody has.
type unheard struct {
	to  netip.Addr
	bth [packet.BTHLen]byte
}

// maxRefusals bounds those that wait: anybody can send as many as they like, and of those for a QP
// one now and then is enough.
const maxRefusals = 16

// refusedAt is told of one, on any goroutine of the port's or of one that posts.
func (t *port) refusedAt(to netip.AddrPort, datagram []byte) {
	r := unheard{to: to.Addr().Unmap()}
	if to.Port() != t.key.Port() || copy(r.bth[:], datagram) < len(r.bth) {
		return
	}
	t.mu.Lock()
	room := len(t.refusals) < maxRefusals
	if room {
		t.refusals = append(t.refusals, r)
	}
	t.mu.Unlock()
	if room {
		t.wakeUp()
	}
}

// takeRefusals tells the QPs. It is for the service loop.
func (t *port) takeRefusals() {
	t.mu.Lock()
	list := t.refusals
	t.refusals = nil
	t.mu.Unlock()
	for i := range list {
		if qp := t.core.Refused(now(), list[i].to, list[i].bth[:]); qp != nil {
			t.look(qp.Owner().(*endpoint))
		}
	}
}
