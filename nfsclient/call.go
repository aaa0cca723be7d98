// One call: the choice of its connection, and its repetition after NFS3ERR_JUKEBOX.

package nfsclient

import (
	"context"
	"sync/atomic"
	"time"

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

// Waits after NFS3ERR_JUKEBOX: the server needs time to fetch the data, and asks the client to
// repeat the call later (RFC 1813 §2.6).
const (
	jukeboxFirst = 50 * time.Millisecond
	jukeboxMost  = 5 * time.Second
)

// procs has the transport's parameters for each procedure, first NFS, then NFSACL.
var procs = func() (p [numProcs]transport.Proc) {
	copy(p[nfs3.NumProcs:], aclProcs[:])
	for i := range nfs3.Bindings {
		b := &nfs3.Bindings[i]
		p[i] = transport.Proc{Prog: nfs3.Program, Vers: nfs3.Version, Proc: uint32(i), Name: b.Name, MaxReply: b.MaxReply}
	}
	return p
}()

// call runs one procedure of procs and repeats it while the server answers JUKEBOX. status points
// into res. sink and extra are as in transport.Client.Call.
func (c *Client) call(ctx context.Context, proc uint32, args xdr.Marshaler, res xdr.Unmarshaler,
	status *nfs3.Status, sink []byte, extra int) error {
	n := int64(payload(args, sink))
	if c.group() != nil {
		args = marked(args)
	}
	var waited time.Duration
	elsewhere := false // another server may have run one of the repeated calls
	for wait := jukeboxFirst; ; wait = min(2*wait, jukeboxMost) {
		from, err := c.conn(n).call(ctx, n, c.auth, proc, args, res, sink, extra)
		elsewhere = elsewhere || from.Elsewhere
		if from.Elsewhere = elsewhere; err == nil && c.cfg.Moves != nil {
			err = c.fromServer(ctx, from, proc, args, res, status)
		}
		if err != nil {
			return err
		}
		if *status != nfs3.OK && *status != nfs3.ErrJukebox {
			c.calls.refused(proc)
		}
		switch *status {
		case nfs3.OK:
			return nil
		case nfs3.ErrJukebox:
			if waited += wait; c.opt.CallTimeout != transport.Hard && waited > c.jukeboxTimeout() {
				return &StatusError{Proc: proc, Status: *status}
			}
			if err := sleep(ctx, wait); err != nil {
				return err
			}
		default:
			return &StatusError{Proc: proc, Status: *status}
		}
	}
}

// Do runs one procedure with wire arguments and results. Use Do for the full reply, because a
// refusal also has the object's attributes (wcc_data, RFC 1813 §2.6). status points at the status
// in res; any except nfs3.OK returns a *StatusError. Do waits out JUKEBOX like the other methods.
// sink and extra are as in transport.Client.Call. Results that point into the message (names, data)
// are valid only in DecodeXDR.
func (c *Client) Do(ctx context.Context, proc uint32, args xdr.Marshaler, res xdr.Unmarshaler,
	status *nfs3.Status, sink []byte, extra int) error {
	return c.call(ctx, proc, args, res, status, sink, extra)
}

// jukeboxTimeout bounds the repetitions of a delayed call. It is ten times the timeout of a call
// without a reply, because tapes are slow.
func (c *Client) jukeboxTimeout() time.Duration {
	if c.opt.CallTimeout == 0 {
		return 10 * time.Minute
	}
	return 10 * c.opt.CallTimeout
}

// sleep waits for d or for the end of ctx.
func sleep(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// void has no arguments and no results.
type void struct{}

func (void) EncodeXDR(*xdr.Encoder) {}
func (void) DecodeXDR(*xdr.Decoder) {}

// Null calls the null procedure. Successive calls use each connection in turn.
func (c *Client) Null(ctx context.Context) error {
	_, err := c.conn(0).call(ctx, 0, c.auth, nfs3.ProcNull, void{}, void{}, nil, 0)
	return err
}
