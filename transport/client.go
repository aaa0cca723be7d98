// The client: calls by name of a procedure, many at once, over a connection
// that is made anew when it is lost.

package transport

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nfsrdma/nfsrdma/rpcrdma"
	"github.com/nfsrdma/nfsrdma/xdr"
	"github.com/nfsrdma/nfsrdma/xdr/oncrpc"
)

// A Proc names a procedure to call, and what the client must know of it.
type Proc struct {
	Prog, Vers, Proc uint32
	Name             string
	MaxReply         int // the most octets of the results, an item that goes to a sink apart
}

// ClientConfig is how a Client behaves. The zero value is right for most.
type ClientConfig struct {
	Cred    Cred
	Service string // what errors call the server: "nfs"; "": "rpc"
	// CallTimeout bounds one call with all its repetitions; 0: 60 s. A context
	// may end it earlier.
	CallTimeout time.Duration
	// RetryTimeout is after how long without an answer the connection is given
	// up and the call sent again over a new one; 0: a third of CallTimeout.
	RetryTimeout time.Duration
	// MaxRetries bounds how often one call is sent again; 0: as often as
	// CallTimeout allows; less than 0: never.
	MaxRetries int
	// MaxRecord is the most octets of one reply over TCP; 0: 4 MiB.
	MaxRecord int
	// RDMA sizes the connections of DialRDMA.
	RDMA rpcrdma.Config
}

func (cfg *ClientConfig) setDefaults() {
	if cfg.Service == "" {
		cfg.Service = "rpc"
	}
	setDefault(&cfg.CallTimeout, time.Minute)
	setDefault(&cfg.RetryTimeout, cfg.CallTimeout/3)
	setDefault(&cfg.MaxRecord, 4<<20)
}

// How long to wait between attempts to connect.
const (
	backoffMin = 10 * time.Millisecond
	backoffMax = 2 * time.Second
)

// A Client calls procedures over one connection, many at once. It reconnects
// by itself when the connection is lost and then sends the unanswered calls
// again under their XIDs.
type Client struct {
	cfg  ClientConfig
	cred oncrpc.OpaqueAuth
	addr string
	dial func(ctx context.Context) (link, error)
	xid  atomic.Uint32

	// closing ends when Close is called; it bounds connecting.
	closing context.Context
	end     context.CancelFunc

	mu      sync.Mutex
	link    link
	dialing chan struct{} // closed when the attempt to connect that runs has ended
	dialErr error         // why the last attempt failed
	delay   time.Duration // before the next attempt
	wg      sync.WaitGroup
}

// A link is one connection of a Client.
type link interface {
	// roundTrip sends the call, waits for its reply and has it decoded. An
	// error that is a *lostError leaves the call unanswered.
	roundTrip(ctx context.Context, k *outCall) error
	// close ends the connection; its calls fail with a *lostError of why. It
	// returns when the connection's goroutines are gone.
	close(why error) error
}

// A lostError is a connection that ended before the reply came.
type lostError struct{ err error }

func (e *lostError) Error() string { return "rpc: connection lost: " + e.err.Error() }
func (e *lostError) Unwrap() error { return e.err }

// errNoAnswer is a server that is silent for longer than RetryTimeout.
var errNoAnswer error = noAnswer{}

type noAnswer struct{}

func (noAnswer) Error() string { return "no answer in time" }
func (noAnswer) Timeout() bool { return true }

func newClient(cfg ClientConfig, addr string) *Client {
	cfg.setDefaults()
	c := &Client{cfg: cfg, addr: addr}
	c.cred = oncrpc.OpaqueAuth{Flavor: oncrpc.Flavor(cfg.Cred.Flavor), Body: cfg.Cred.body()}
	c.xid.Store(rand.Uint32())
	c.closing, c.end = context.WithCancel(context.Background())
	return c
}

// connectFirst makes the first connection, in one attempt.
func (c *Client) connectFirst(ctx context.Context) (*Client, error) {
	ctx, cancel := context.WithTimeout(ctx, c.cfg.CallTimeout)
	defer cancel()
	l, err := c.dial(ctx)
	if err != nil {
		c.end()
		return nil, c.connectError(err)
	}
	c.link = l
	return c, nil
}

func (c *Client) connectError(err error) error {
	return &ConnectError{Service: c.cfg.Service, Addr: c.addr, Err: err}
}

// Call does one call. sink, if not empty, is where the result item (the opaque
// that res reads by Decoder.Item) is placed; the item that res sees is then
// sink[:n]. Without a sink an item is a part of the message, as the other results are.
// extra is added to p.MaxReply, for results whose bound depends on the arguments. An
// item that is longer than sink, and results with an item that are longer than that bound,
// fail with ErrNoRoom, over RDMA and TCP alike. Slices that res keeps of the Decoder are
// valid only inside DecodeXDR: copy what must stay. args and res may be nil where there are none.
//
// When Call returns, with or without an error, the octets that args pointed at
// are not read any more, and nothing can land in sink.
func (c *Client) Call(ctx context.Context, p *Proc, args xdr.Marshaler, res xdr.Unmarshaler, sink []byte, extra int) error {
	k := getOutCall()
	defer k.recycle()
	k.xid = c.xid.Add(1)
	k.proc, k.cred, k.args, k.res, k.sink = p, c.cred, args, res, sink
	k.maxReply = p.MaxReply + extra
	deadline := time.Now().Add(c.cfg.CallTimeout)
	for try := 0; ; try++ {
		l, err := c.connection(ctx, deadline)
		if err != nil {
			return err
		}
		wait := min(c.cfg.RetryTimeout, time.Until(deadline))
		err = k.attempt(ctx, l, wait)
		if err == nil {
			return nil
		}
		if err = c.lost(l, err, try, deadline); err != nil {
			return err
		}
	}
}

// lost judges an attempt that failed: nil means that the call is to be sent again.
func (c *Client) lost(l link, err error, try int, deadline time.Time) error {
	var lost *lostError
	if !errors.As(err, &lost) {
		return err
	}
	c.discard(l, lost.err)
	if c.closing.Err() != nil {
		return ErrClosed
	}
	if (c.cfg.MaxRetries != 0 && try >= c.cfg.MaxRetries) || time.Until(deadline) <= 0 {
		return c.connectError(lost.err)
	}
	return nil
}

// connection returns the connection, a new one where it is lost.
func (c *Client) connection(ctx context.Context, deadline time.Time) (link, error) {
	for {
		c.mu.Lock()
		if c.closing.Err() != nil {
			c.mu.Unlock()
			return nil, ErrClosed
		}
		if l := c.link; l != nil {
			c.mu.Unlock()
			return l, nil
		}
		if c.dialing == nil {
			c.dialing = make(chan struct{})
			c.wg.Go(func() { c.reconnect(c.delay) })
		}
		wait := c.dialing
		c.mu.Unlock()
		if err := c.awaitDial(ctx, wait, deadline); err != nil {
			return nil, err
		}
	}
}

// discard lets go of a connection that is of no use any more, whose calls go to a new one.
func (c *Client) discard(l link, why error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.link == l && c.closing.Err() == nil {
		c.link = nil
		c.wg.Go(func() { l.close(why) })
	}
}

// awaitDial waits for the end of an attempt to connect.
func (c *Client) awaitDial(ctx context.Context, dialed <-chan struct{}, deadline time.Time) error {
	timer := time.NewTimer(time.Until(deadline))
	defer timer.Stop()
	select {
	case <-dialed:
		return nil
	case <-ctx.Done():
	case <-c.closing.Done():
		return ErrClosed
	case <-timer.C:
	}
	c.mu.Lock()
	cause := c.dialErr
	c.mu.Unlock()
	if cause == nil {
		if cause = ctx.Err(); cause == nil {
			cause = errNoAnswer
		}
	}
	return &ConnectError{Service: c.cfg.Service, Addr: c.addr, Err: cause, ended: ctx.Err()}
}

// reconnect is one attempt to connect, after delay, for all calls that wait for it.
func (c *Client) reconnect(delay time.Duration) {
	var l link
	err := sleep(c.closing, delay)
	ctx, cancel := context.WithTimeout(c.closing, c.cfg.CallTimeout) // which may be shorter than the delay
	defer cancel()
	if err == nil {
		l, err = c.dial(ctx)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if err != nil && ctx.Err() != nil && c.dialErr != nil {
		err = c.dialErr // that our time is over says less than what was wrong before
	}
	if c.dialErr = err; err == nil {
		c.link, c.delay = l, 0
		if c.closing.Err() != nil {
			c.wg.Go(func() { l.close(ErrClosed) })
		}
	} else {
		c.delay = min(max(2*c.delay, backoffMin), backoffMax)
	}
	close(c.dialing)
	c.dialing = nil
}

func sleep(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return nil
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Close ends the connection; calls that run fail with ErrClosed.
func (c *Client) Close() error {
	c.mu.Lock()
	c.end()
	l := c.link
	c.link = nil
	c.mu.Unlock()
	var err error
	if l != nil {
		err = l.close(ErrClosed)
	}
	c.wg.Wait()
	return err
}
