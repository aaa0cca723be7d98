//go:build linux

// The Wire interface between a port and its socket, where a test can drop packets.

package udp

import (
	"net/netip"

	"github.com/nfsrdma/nfsrdma/internal/tally"
	"github.com/nfsrdma/nfsrdma/rnic/roce/packet"
)

// A Wire moves one address's packets, in batches. One goroutine at a time may call the sending
// methods, and one, possibly another, Receive and Packet.
type Wire interface {
	// Local is the local address, with the UDP port of both ends.
	Local() netip.AddrPort

	// Room is the buffer for the next packet. Add appends that packet's n bytes and their ICRC to
	// the batch; t is the known CRC over the packet's end, or zero. A Full batch has no Room. Len
	// is the number of waiting packets.
	Room() []byte
	Add(n int, t packet.Tail, to netip.AddrPort) error

	// Alone makes the next added packet travel alone, not joined with others (Batch); NeverJoin
	// makes all later ones.
	Alone()
	NeverJoin()

	Full() bool
	Len() int

	// Send hands the batch to the network, and returns how many packets left. full means that
	// there is no room for more: call WaitWritable. Send never blocks. An error concerns the
	// first packet left, which Drop removes.
	Send() (sent int, full bool, err error)
	Drop()
	WaitWritable() error

	// AddTo adds the decisions of Receive's spins.
	AddTo(t tally.Table)

	// OnRefused sets the callback for packets to closed ports: see Socket.OnRefused.
	OnRefused(f func(to netip.AddrPort, datagram []byte))

	Receiver
}

// A Receiver receives packets in batches.
type Receiver interface {
	// Receive waits for packets and returns their number. spin permits it to spin before it sleeps,
	// if processors are idle. Packet returns packet i, valid until the next Receive or Packet.
	// good: the ICRC is valid.
	Receive(spin bool) (n int, err error)
	Packet(i int) (network, datagram []byte, good bool)

	// Close makes waiting calls return an error that wraps net.ErrClosed.
	Close() error
}

// BatchLen is the capacity of a Wire's batch, in packets.
const BatchLen = 60

// socketBytes is the socket buffer size: several windows of the largest packets, plus the
// kernel's overhead for each.
const socketBytes = 8 << 20

// A wire is an ordinary socket's Wire.
type wire struct {
	*Batch
	*Socket
	in *Inbound
}

// Open opens an address's socket and allocates its batches.
func Open(at netip.AddrPort) (Wire, error) {
	s, err := Listen(at)
	if err != nil {
		return nil, err
	}
	s.Buffers(socketBytes)
	return &wire{Batch: NewBatch(s, BatchLen), Socket: s, in: NewInbound(s, BatchLen)}, nil
}

func (w *wire) AddTo(t tally.Table)                         { w.in.spinner.AddTo(t) }
func (w *wire) Send() (int, bool, error)                    { return w.Socket.Send(w.Batch) }
func (w *wire) Packet(i int) (head, data []byte, good bool) { return w.in.Packet(i) }
func (w *wire) Receive(spin bool) (n int, err error) {
	w.in.spins = spin
	err = w.Socket.Receive(w.in)
	return w.in.Len(), err
}
