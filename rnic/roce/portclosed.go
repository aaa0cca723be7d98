// ICMP reports about closed ports, queued for the service loop, which informs the QPs.

package roce

import (
	"net/netip"

	"github.com/nfsrdma/nfsrdma/rnic/roce/packet"
)

// A closedPortReport is a packet sent to a closed port.
type closedPortReport struct {
	to  netip.Addr
	bth [packet.BTHLen]byte
}

// reportClosedPort queues a report. Any goroutine that sends or receives may call it.
func (t *port) reportClosedPort(to netip.AddrPort, datagram []byte) {
	r := closedPortReport{to: to.Addr().Unmap()}
	if to.Port() != t.key.Port() || copy(r.bth[:], datagram) < len(r.bth) {
		return
	}
	t.mu.Lock()
	room := len(t.closedPortReports) < maxClosedPortReports
	if room {
		t.closedPortReports = append(t.closedPortReports, r)
	}
	t.mu.Unlock()
	if room {
		t.wakeUp()
	}
}

// handleClosedPorts informs the QPs. Only the service loop calls it.
func (t *port) handleClosedPorts() {
	t.mu.Lock()
	list := t.closedPortReports
	t.closedPortReports = nil
	t.mu.Unlock()
	for i := range list {
		if qp := t.core.PortClosed(now(), list[i].to, list[i].bth[:]); qp != nil {
			t.afterChange(qp.Owner().(*endpoint))
		}
	}
}
