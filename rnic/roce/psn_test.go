// Which side names a connection's first PSN: Linux follows IBA, and so must we at both ends.

package roce

import (
	"net/netip"
	"sync"
	"testing"

	"github.com/nfsrdma/nfsrdma/rnic"
	"github.com/nfsrdma/nfsrdma/rnic/roce/mad"
	"github.com/nfsrdma/nfsrdma/rnic/roce/packet"
	"github.com/nfsrdma/nfsrdma/rnic/roce/udp"
)

// A recordingWire remembers each QP's PSN from CM messages, and the first RC request's PSN to
// each.
type recordingWire struct {
	udp.Wire
	r    *recorded
	room []byte
}

type recorded struct {
	mu          sync.Mutex
	told, first map[uint32]uint32 // by QPN; guarded by mu
}

func (w *recordingWire) Packet(i int) (network, datagram []byte, good bool) {
	network, datagram, good = w.Wire.Packet(i)
	w.r.see(datagram)
	return network, datagram, good
}

func (w *recordingWire) Room() []byte {
	w.room = w.Wire.Room()
	return w.room
}

// Add records outgoing packets, too: the other side's wire may belong to another test.
func (w *recordingWire) Add(n int, t packet.Tail, to netip.AddrPort) error {
	w.r.see(w.room[:n+packet.ICRCLen])
	return w.Wire.Add(n, t, to)
}

func (r *recorded) see(datagram []byte) {
	h, payload, err := packet.Parse(datagram)
	if err != nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if h.DestQP != mad.GSIQPN {
		if _, ok := r.first[h.DestQP]; !ok && !h.Opcode.Operation().Response() {
			r.first[h.DestQP] = h.PSN
		}
		return
	}
	m, data, err := mad.Parse(payload)
	switch {
	case err != nil:
	case m.Attribute == mad.AttrREQ:
		q := mad.ParseREQ(data)
		r.told[q.LocalQPN] = q.StartingPSN
	case m.Attribute == mad.AttrREP:
		q := mad.ParseREP(data)
		r.told[q.LocalQPN] = q.StartingPSN
	}
}

// TestStartingPSN: the PSN in a REQ or REP is that of the first packet to its QP, not from it
// (IBA 12.7.31).
func TestStartingPSN(t *testing.T) {
	r := &recorded{told: map[uint32]uint32{}, first: map[uint32]uint32{}}
	m := meet(t, Options{Wrap: func(w udp.Wire) udp.Wire { return &recordingWire{Wire: w, r: r} }})
	a, b := m.connected(t, rnic.ConnParams{}, rnic.ConnParams{})
	operations(t, a, b, []int{100})
	operations(t, b, a, []int{100})
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.told) != 2 {
		t.Fatalf("%d QPs were named", len(r.told))
	}
	for qpn, psn := range r.told {
		if first, ok := r.first[qpn]; !ok || first != psn {
			t.Errorf("the first packet to QP %x has PSN %x (%t), told was %x", qpn, first, ok, psn)
		}
	}
}
