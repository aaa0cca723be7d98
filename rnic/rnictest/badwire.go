// A RoCE wire that loses, repeats and reorders packets.

package rnictest

import (
	"bytes"
	"math/rand/v2"
	"net/netip"
	"sync/atomic"

	"github.com/nfsrdma/nfsrdma/rnic/roce/packet"
	"github.com/nfsrdma/nfsrdma/rnic/roce/udp"
)

// A wire is the harmless wire underneath.
type wire = udp.Wire

// A BadWire loses, repeats and delays packets on their way out.
type BadWire struct {
	wire
	Harmed atomic.Int64 // counts harmed packets

	chance int // of 1000, for each kind of harm
	r      *rand.Rand
	room   [1 << 13]byte
	batch  []outgoing
	late   *outgoing // a packet that leaves after the next one
}

type outgoing struct {
	p  []byte
	to netip.AddrPort
}

// NewBadWire returns a wire that harms each packet for w with a probability of 3 × chance in 1000.
// The harm depends on seed and the order of packets.
func NewBadWire(w udp.Wire, chance int, seed uint64) *BadWire {
	return &BadWire{wire: w, chance: chance, r: rand.New(rand.NewPCG(seed, 1))}
}

// Room returns the memory for building the next packet.
func (w *BadWire) Room() []byte { return w.room[:] }

// Full reports whether there is no room.
func (w *BadWire) Full() bool { return len(w.batch) == udp.BatchLen }

// Len returns how many packets wait.
func (w *BadWire) Len() int { return len(w.batch) }

// Add appends a packet.
func (w *BadWire) Add(n int, _ packet.Tail, to netip.AddrPort) error {
	w.batch = append(w.batch, outgoing{bytes.Clone(w.room[:n]), to})
	return nil
}

// Send applies the harm, and reports all packets as sent.
func (w *BadWire) Send() (int, bool, error) {
	n := len(w.batch)
	for _, o := range w.batch {
		switch k := w.r.IntN(1000); {
		case k < w.chance:
			w.Harmed.Add(1)
			continue
		case k < 2*w.chance && w.late == nil:
			w.Harmed.Add(1)
			w.late = &o
			continue
		case k < 3*w.chance:
			w.Harmed.Add(1)
			w.pass(o)
		}
		w.pass(o)
		if w.late != nil {
			w.pass(*w.late)
			w.late = nil
		}
	}
	w.batch = w.batch[:0]
	return n, false, nil
}

// pass sends a packet unchanged.
func (w *BadWire) pass(o outgoing) {
	if w.wire.Add(copy(w.wire.Room(), o.p), packet.Tail{}, o.to) != nil {
		return
	}
	for w.wire.Len() > 0 {
		if _, full, err := w.wire.Send(); full {
			_ = w.WaitWritable()
		} else if err != nil {
			w.wire.Drop()
		}
	}
}
