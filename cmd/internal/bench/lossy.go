// A network that loses packets: between a RoCE device and its socket.

package bench

import (
	"math/rand/v2"
	"net/netip"

	"github.com/nfsrdma/nfsrdma/rnic"
	"github.com/nfsrdma/nfsrdma/rnic/roce"
	"github.com/nfsrdma/nfsrdma/rnic/roce/packet"
	"github.com/nfsrdma/nfsrdma/rnic/roce/udp"
)

// LossyRoCE is a RoCE device that percent of the packets do not pass, in each direction.
func LossyRoCE(percent int) *rnic.Device {
	return roce.OpenWith(rnic.DeviceConfig{}, roce.Options{Wrap: func(w udp.Wire) udp.Wire {
		return &lossyWire{Wire: w, percent: uint32(percent)}
	}})
}

// A lossyWire loses packets of a wire without a copy: one on its way out is sent to a QP that does not exist, one on its
// way in loses its content. Both ends drop these at once, and never answer.
type lossyWire struct {
	udp.Wire
	percent uint32
}

// destQP is where a BTH has the destination QP.
const destQP = 5

func (w *lossyWire) lost() bool { return rand.Uint32N(100) < w.percent }

// Add appends a packet, or what is dropped in its place.
func (w *lossyWire) Add(n int, t packet.Tail, to netip.AddrPort) error {
	if w.lost() {
		clear(w.Wire.Room()[destQP : destQP+3])
	}
	return w.Wire.Add(n, t, to)
}

// Packet is packet i, or nothing in its place.
func (w *lossyWire) Packet(i int) (network, datagram []byte, good bool) {
	network, datagram, good = w.Wire.Packet(i)
	if w.lost() {
		return network, nil, false
	}
	return network, datagram, good
}
