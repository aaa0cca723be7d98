// ICMP reports about closed ports, queued for the service loop, which informs the QPs.

package roce

import (
	"net/netip"

	"github.com/nfsrdma/nfsrdma/rnic/roce/packet"
)

// An unheard is a packet sent to a closed port.
type unheard struct {
	to  netip.Addr
	bth [packet.BTHLen]byte
}

// maxRefusals bounds the queue: anyone can forge any number, and one now and then suffices for a
// QP.
const maxRefusals = 16

// refusedAt queues a report. Any goroutine that sends or receives may call it.
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

// takeRefusals informs the QPs. Only the service loop calls it.
func (t *port) takeRefusals() {
	t.mu.Lock()
	list := t.refusals
	t.refusals = nil
	t.mu.Unlock()
	for i := range list {
		if qp := t.core.PortClosed(now(), list[i].to, list[i].bth[:]); qp != nil {
			t.look(qp.Owner().(*endpoint))
		}
	}
}
