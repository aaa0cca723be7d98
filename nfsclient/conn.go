// Several connections to one server: choosing one for a call.

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

	payload atomic.Int64 // bytes that its calls read and write at this moment
}

// newConn wraps a connected transport client.
func newConn(c *transport.Client) *conn { return &conn{Client: c} }

// Penalties for a connection, above any possible payload.
const (
	penaltySmallCalls = 1 << 40 // bulk data prefers another connection
	penaltyLost       = 1 << 50 // the connection is silent or lost
)

// maxSmallConnPayload bounds the payload in flight on the first of several connections, in bytes:
// one transfer. A small call chooses the connection with the least payload, so it queues behind at
// most one transfer.
const maxSmallConnPayload = 1 << 20

// conn chooses the connection for a call with n bytes of data: the responding connection with the
// least payload, and equal connections in turn.
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
		if at == 0 && n > 0 && cost+n > maxSmallConnPayload {
			cost += penaltySmallCalls
		}
		if k.Silent() || !k.Up() {
			cost += penaltyLost
		}
		if best == nil || cost < least {
			best, least = k, cost
		}
	}
	return best
}

// call sends one call with n bytes of data.
func (k *conn) call(ctx context.Context, n int64, as *transport.Auth, proc uint32, args xdr.Marshaler, res xdr.Unmarshaler, sink []byte, extra int) (transport.Answer, error) {
	k.payload.Add(n)
	defer k.payload.Add(-n)
	return k.CallAnswer(ctx, as, &procs[proc], args, res, sink, extra)
}

// payload returns the bytes that a call reads or writes.
func payload(args xdr.Marshaler, sink []byte) int {
	if w, ok := args.(*nfs3.WriteArgs); ok {
		return len(w.Data)
	}
	return len(sink)
}
