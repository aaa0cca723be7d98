// A lossy network: packets are dropped between a RoCE device and its socket.

package bench

import (
	"math/rand/v2"
	"net/netip"

	"github.com/nfsrdma/nfsrdma/rnic"
	"github.com/nfsrdma/nfsrdma/rnic/roce"
	"github.com/nfsrdma/nfsrdma/rnic/roce/packet"
	"github.com/nfsrdma/nfsrdma/rnic/roce/udp"
)

// LossyRoCE returns a RoCE device that loses percent of the packets in each direction.
func LossyRoCE(percent int) *rnic.Device {
	return roce.OpenWith(rnic.DeviceConfig{}, roce.Options{Wrap: func(w udp.Wire) udp.Wire {
		return &lossyWire{Wire: w, percent: uint32(percent)}
	}})
}

// A lossyWire loses packets without copying them. An outgoing packet is sent to a nonexistent QP;
// an incoming one loses its content. Both ends drop these at once and never answer.
type lossyWire struct {
	udp.Wire
	percent uint32
}

// destQP is the destination QP's offset in a BTH.
const destQP = 5

func (w *lossyWire) lost() bool { return rand.Uint32N(100) < w.percent }

// Add appends a packet, or one that the peer will drop.
func (w *lossyWire) Add(n int, t packet.Tail, to netip.AddrPort) error {
	if w.lost() {
		clear(w.Wire.Room()[destQP : destQP+3])
	}
	return w.Wire.Add(n, t, to)
}

// Packet returns packet i, or an empty datagram in its place.
func (w *lossyWire) Packet(i int) (network, datagram []byte, good bool) {
	network, datagram, good = w.Wire.Packet(i)
	if w.lost() {
		return network, nil, false
	}
	return network, datagram, good
}
