// The link: the operations of a stream on the connection below it.

package iwarp

import (
	"net"
	"time"

	"github.com/nfsrdma/nfsrdma/rnic/iwarp/core"
)

// A link carries the bytes of one stream. read and the three that send are called
// from one goroutine at a time each.
type link interface {
	// read blocks until there are bytes, or s has nothing to read for.
	read(s sink) (int, error)
	// writev hands over as much of pieces, at most core.MaxPieces, as the connection takes now;
	// full: it takes no more, and waitWritable is next. It never blocks. Only a *tcpLink gets
	// pieces of a Source.
	writev(pieces [][]byte, how core.WriteMode) (n int, full bool, err error)
	// waitWritable blocks until writev can make headway.
	waitWritable() error
	// write blocks until p is handed over, after all that writev took.
	write(p []byte) error
	// inline reports that bytes which writev took leave without waitWritable, so that any
	// goroutine may call it, and that read does not hold the sink while it waits.
	inline() bool
	// mss is the effective maximum segment size, in bytes.
	mss() int
	// conn is for deadlines, addresses and closing.
	conn() net.Conn
	// closeWrite ends the stream after all that was handed over. It is for the transmit loop,
	// for it may have to wait for the peer.
	closeWrite() error
}

// A sink is where read puts bytes; see receiver.aim and receiver.release.
type sink interface {
	aim() (head, rest []byte, ok bool)
	release(n int, idle bool)
	blocksThread() bool
}

// newLink returns a quick link for TCP and a ReadyConn, and a plain one for any other connection.
func newLink(c net.Conn) (link, error) {
	switch c := c.(type) {
	case *net.TCPConn:
		return newTCPLink(c)
	case ReadyConn:
		return &readyLink{c: c}, nil
	}
	return &plainLink{c: c}, nil
}

// past is a deadline that has gone by: it ends a wait.
var past = time.Unix(1, 0)
