// The client side of RPC-over-RDMA connections.

package transport

import (
	"context"
	"errors"
	"time"

	"github.com/nfsrdma/nfsrdma/chunks"
	"github.com/nfsrdma/nfsrdma/rnic"
	"github.com/nfsrdma/nfsrdma/rpcrdma"
	"github.com/nfsrdma/nfsrdma/xdr/oncrpc"
)

var probeWait = time.Second // tests shorten it

// replyHeaderMax is the largest reply header, in bytes, if the server sends no verifier: the header
// of PROG_MISMATCH with two versions.
const replyHeaderMax = oncrpc.ReplySize + 8

// DialRDMA connects to addr ("host:port") through dev. DialRDMA tries once; the error is a
// *ConnectError.
func DialRDMA(ctx context.Context, dev *rnic.Device, addr string, cfg ClientConfig) (*Client, error) {
	c := newClient(cfg, addr)
	c.dial = func(ctx context.Context) (clientConn, error) { return c.dialProbed(ctx, dev) }
	return c.connectFirst(ctx)
}

// dialProbed returns a connection that has answered a call.
func (c *Client) dialProbed(ctx context.Context, dev *rnic.Device) (clientConn, error) {
	for try := 1; ; try++ {
		l, err := c.dialRDMA(ctx, dev)
		if err != nil {
			return nil, err
		}
		wait := probeWait
		if try == probeTries {
			wait = c.cfg.RetryTimeout
		}
		if err = c.probe(ctx, l, wait); err == nil {
			return l, nil
		}
		l.close(err)
		if try == probeTries || ctx.Err() != nil {
			return nil, err
		}
	}
}

// dialRDMA returns a new connection.
func (c *Client) dialRDMA(ctx context.Context, dev *rnic.Device) (*rdmaClientConn, error) {
	if c.cfg.TLS != nil {
		return c.dialRDMAOverTLS(ctx, dev)
	}
	conn, err := rpcrdma.Dial(ctx, dev, c.Addr(), c.cfg.RDMA)
	if err != nil {
		return nil, err
	}
	return &rdmaClientConn{conn: conn}, nil
}

// probe calls procedure 0 of program 0, which no server has: any reply suffices.
func (c *Client) probe(ctx context.Context, l clientConn, wait time.Duration) error {
	k := c.newOutCall()
	defer k.recycle()
	k.proc = &Proc{Name: "probe", MaxReply: replyHeaderMax}
	err := k.attempt(ctx, l, time.Now().Add(wait))
	var lost *lostError
	if errors.As(err, &lost) {
		return lost.err
	}
	if errors.Is(err, errNoAnswer) || errors.Is(err, rpcrdma.ErrVersion) {
		return err
	}
	return ctx.Err()
}

// A rdmaClientConn is a Client's RPC-over-RDMA connection.
type rdmaClientConn struct {
	conn    *rpcrdma.Conn
	channel Channel // over TLS; in clear otherwise
}

func (l *rdmaClientConn) close(error) error { return l.conn.Close() }

func (l *rdmaClientConn) roundTrip(ctx context.Context, k *outCall) error {
	r := l.conn.NewCall()
	defer r.Release()
	if err := k.encode(r.Scratch()); err != nil {
		return err
	}
	r.Msg = chunks.Message{Stream: k.enc.Bytes(), Items: k.enc.Items()}
	maxReply, sink := k.room()
	r.Sink, r.Whole = sink, k.secure.state.covers()
	r.Expired, r.TooEarly = k.expired.C, k.tooEarlyFunc
	r.MaxReply = max(maxReply, replyHeaderMax)
	since := k.since()
	err := l.conn.Do(ctx, r)
	k.sentAt(since.Add(r.Waited))
	switch {
	case errors.Is(err, rpcrdma.ErrChunk): // our own chunks are well-formed
		return &roomError{proc: k.proc.Name, cause: err, args: r.ArgsOffered()}
	case err != nil:
		return l.failure(ctx, err)
	}
	return k.decode(r.Reply.Stream, r.Reply.Items, r.SinkOffered())
}

// failure classifies errors from Do: a timeout, a lost connection, which reconnecting fixes, and
// all others.
func (l *rdmaClientConn) failure(ctx context.Context, err error) error {
	if errors.Is(err, rpcrdma.ErrTimeout) {
		return errNoAnswer
	}
	select {
	case <-l.conn.Done():
	default:
		if ctx.Err() != nil || !errors.Is(err, rpcrdma.ErrClosed) {
			return err
		}
	}
	return &lostError{err}
}
