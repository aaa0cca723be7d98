//go:build linux

// The wire: what a port needs of the socket below it, so that a test can lose packets between the
// two.

package udp

import (
	"net/netip"

	"github.com/nfsrdma/nfsrdma/rnic/roce/packet"
)

// A Wire moves the packets of one address, in batches. The methods that send are called by one
// goroutine at a time, and so are Receive and Packet; the two may run side by side.
type Wire interface {
	// Local is the address, and the UDP port of both ends.
	Local() netip.AddrPort

	// Room is where the next packet is built, and Add appends it to the batch: n bytes, to which
	// the ICRC is added; t is what is known of the CRC of the last of them, nothing in doubt. There
	// is none when the batch is Full. Len is how many packets wait.
	Room() []byte
	Add(n int, t packet.Tail, to netip.AddrPort) error

	// Alone has the packet that is added next travel by itself, joined with none before or after it
	// (Batch); NeverJoin all from then on.
	Alone()
	NeverJoin()

	Full() bool
	Len() int

	// Send hands over the batch, and returns how many packets left; full: there is room for no
	// more, and WaitWritable is next. It never waits. An error is of the first packet that is left,
	// which Drop takes out.
	Send() (sent int, full bool, err error)
	Drop()
	WaitWritable() error

	// OnRefused has f told of packets that came to a port that nobody has: see Socket.OnRefused.
	OnRefused(f func(to netip.AddrPort, datagram []byte))

	Receiver
}

// A Receiver takes packets that come, in batches.
type Receiver interface {
	// Receive waits for packets and returns how many came. look: before it sleeps it may look for
	// some more time, if there are processors with nothing else to do. Packet is one of them, valid
	// until the next call of either; good: its ICRC is right.
	Receive(look bool) (n int, err error)
	Packet(i int) (network, datagram []byte, good bool)

	// Close ends what waits, with an error that wraps net.ErrClosed.
	Close() error
}

// BatchLen is how many packets a batch of a Wire has room for.
const BatchLen = 60

// socketBytes is the bytes of packets that a socket is to hold: several windows of the largest
// packets, with what the kernel adds to each.
const socketBytes = 8 << 20

// A wire is the Wire of an ordinary socket.
type wire struct {
	*Batch
	*Socket
	in *Inbound
}

// Open opens the socket of an address and makes the room for its batches.
func Open(at netip.AddrPort) (Wire, error) {
	s, err := Listen(at)
	if err != nil {
		return nil, err
	}
	s.Buffers(socketBytes)
	return &wire{Batch: NewBatch(s, BatchLen), Socket: s, in: NewInbound(s, BatchLen)}, nil
}

func (w *wire) Send() (int, bool, error)                    { return w.Socket.Send(w.Batch) }
func (w *wire) Packet(i int) (head, data []byte, good bool) { return w.in.Packet(i) }
func (w *wire) Receive(look bool) (n int, err error) {
	w.in.looks = look
	err = w.Socket.Receive(w.in)
	return w.in.Len(), err
}
