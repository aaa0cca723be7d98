// A scripted peer as responder, for our clients.

package peer

import (
	"net"
	"testing"
	"time"

	"github.com/nfsrdma/nfsrdma/rnic/iwarp/mpa"
	"github.com/nfsrdma/nfsrdma/rpcrdma"
)

// A Listener accepts our clients' connections.
type Listener struct {
	t testing.TB
	l net.Listener
}

// Listen listens on loopback.
func Listen(t testing.TB) *Listener {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	return &Listener{t, l}
}

// Addr returns the listening address.
func (l *Listener) Addr() string { return l.l.Addr().String() }

// Accept accepts the next connection and performs the MPA start-up.
func (l *Listener) Accept() *Peer {
	l.t.Helper()
	c, err := l.l.Accept()
	if err != nil {
		l.t.Fatal(err)
	}
	c.SetDeadline(time.Now().Add(patience))
	l.t.Cleanup(func() { c.Close() })
	p := &Peer{T: l.t, C: c, SendMSN: 1, ReadMSN: 1, Strict: true, Memory: map[uint32]*Region{}}
	b := p.hear(mpa.HeaderLen)
	b = append(b, p.hear(int(b[18])<<8|int(b[19]))...)
	req, _, err := mpa.ParseFrame(b, false)
	if err != nil {
		l.t.Fatal(err)
	}
	p.CRC = true
	p.Say(mpa.AppendFrame(nil, &mpa.Frame{Reply: true, CRC: true, Rev: mpa.Rev2, HasEnhanced: true,
		Enhanced:    mpa.Enhanced{IRD: req.Enhanced.ORD, ORD: min(req.Enhanced.IRD, 16)},
		PrivateData: rpcrdma.AppendPrivateData(nil, rpcrdma.PrivateData{SendSize: 4096, RecvSize: 4096})}))
	return p
}

// Success returns a complete reply message without results.
func Success(xid, credits uint32) []byte {
	return Words(xid, 1, credits, 0, 0, 0, 0, xid, 1, 0, 0, 0, 0)
}

// NextCall returns the XID of the client's next message.
func (p *Peer) NextCall() uint32 {
	p.T.Helper()
	msg, err := p.Next()
	if err != nil || len(msg) < 28 {
		p.T.Fatalf("wanted a call, got %x, %v", msg, err)
	}
	return uint32(msg[0])<<24 | uint32(msg[1])<<16 | uint32(msg[2])<<8 | uint32(msg[3])
}
