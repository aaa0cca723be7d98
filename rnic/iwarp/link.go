// The link: the operations of a stream on the connection below it.

package iwarp

import (
	"net"
	"time"

	"github.com/nfsrdma/nfsrdma/rnic/internal/rxwait"
	"github.com/nfsrdma/nfsrdma/rnic/iwarp/core"
)

// A link carries the bytes of one stream. At any time at most one goroutine calls read, and at most
// one calls a method that sends.
type link interface {
	// read blocks until there are bytes, or s wants no bytes.
	read(s sink) (int, error)
	// writev hands over as much of pieces, at most core.MaxPieces, as the connection takes now;
	// full: the connection takes no more, and waitWritable must follow. writev never blocks.
	writev(pieces [][]byte, how core.WriteMode) (n int, full bool, err error)
	// waitWritable blocks until writev can hand over more bytes.
	waitWritable() error
	// write blocks until p is handed over, after all bytes taken by writev.
	write(p []byte) error
	// inline reports whether the bytes taken by writev leave without waitWritable. If so, any
	// goroutine may call writev, and read does not hold the sink while it waits.
	inline() bool
	// mss returns the effective maximum segment size, in bytes.
	mss() int
	// conn returns the connection, for deadlines, addresses and closing.
	conn() net.Conn
	// closeWrite ends the stream after the bytes handed over. Only the transmit loop calls it,
	// because it may have to wait for the peer.
	closeWrite() error
}

// A sink is where read puts bytes; see receiver.aim and receiver.release.
type sink interface {
	aim() (head, rest []byte, ok bool)
	release(n int, idle bool)
	blocksThread() bool
}

// newLink returns a tcpLink for TCP, a readyLink for a ReadyConn, and a plainLink for any other
// connection. in counts the Device's inputs.
func newLink(c net.Conn, in *rxwait.Inputs) (link, error) {
	switch c := c.(type) {
	case *net.TCPConn:
		return newTCPLink(c, in)
	case ReadyConn:
		return &readyLink{c: c}, nil
	}
	return &plainLink{c: c}, nil
}

// past is an expired deadline: setting it ends a wait.
var past = time.Unix(1, 0)
