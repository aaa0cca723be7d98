// Several connections to one server: which one a call takes.

package nfsclient

import (
	"context"
	"sync/atomic"

	"github.com/nfsrdma/nfsrdma/transport"
	"github.com/nfsrdma/nfsrdma/xdr"
	"github.com/nfsrdma/nfsrdma/xdr/nfs3"
)

// A conn is one connection of a Client.
type conn struct {
	*transport.Client // set once

	payload atomic.Int64 // bytes of data that its calls read and write at this moment
}

func newConn(c *transport.Client) *conn { return &conn{Client: c} }

// What makes a connection less wanted than one with any payload.
const (
	reserved = 1 << 40 // it is kept for small calls
	away     = 1 << 50 // it is silent or lost
)

// quietMost is the payload that the first of several connections has at most, in bytes: one
// transfer. Small calls, which take the connection with the least, so never wait for more.
const quietMost = 1 << 20

// conn picks the connection for a call that moves n bytes of data: of those that answer the
// one with the least payload, and of equals each in turn.
func (c *Client) conn(n int64) *conn {
	if len(c.conns) == 1 {
		return c.conns[0]
	}
	first := c.turn.Add(1)
	var best *conn
	var least int64
	for i := range uint32(len(c.conns)) {
		at := (first + i) % uint32(len(c.conns))
		k := c.conns[at]
		cost := k.payload.Load()
		if at == 0 && n > 0 && cost+n > quietMost {
			cost += reserved
		}
		if k.Silent() || !k.Up() {
			cost += away
		}
		if best == nil || cost < least {
			best, least = k, cost
		}
	}
	return best
}

// call does one call that moves n bytes of data.
func (k *conn) call(ctx context.Context, n int64, as *transport.Auth, proc uint32, args xdr.Marshaler, res xdr.Unmarshaler, sink []byte, extra int) (transport.Answer, error) {
	k.payload.Add(n)
	defer k.payload.Add(-n)
	return k.CallAnswer(ctx, as, &procs[proc], args, res, sink, extra)
}

// payload is how many bytes of data a call moves.
func payload(args xdr.Marshaler, sink []byte) int {
	if w, ok := args.(*nfs3.WriteArgs); ok {
		return len(w.Data)
	}
	return len(sink)
}
