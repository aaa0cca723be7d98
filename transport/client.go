// The client: calls by name of a procedure, many at once, over a connection
// that is made anew when it is lost.

package transport

import (
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nfsrdma/nfsrdma/rpcrdma"
	"github.com/nfsrdma/nfsrdma/xdr"
)

// A Proc names a procedure to call, and what the client must know of it.
type Proc struct {
	Prog, Vers, Proc uint32
	Name             string
	MaxReply         int // the most bytes of the results, an item that goes to a sink apart
}

// ClientConfig is how a Client behaves. The zero value is right for most.
type ClientConfig struct {
	Cred    Cred
	Service string // what errors call the server: "nfs"; "": "rpc"
	// CallTimeout bounds one call with all its repetitions; 0: 60 s; Hard: it waits
	// as long as it takes, as a hard mount does. A context may end it earlier.
	CallTimeout time.Duration
	// RetryTimeout is how long a server may answer nothing at all, while calls
	// wait, before the connection is given up and they are sent again over a new
	// one; 0: a third of CallTimeout, 20 s where that is Hard. A call that takes
	// longer while the server answers others, or a NULL, is waited for.
	RetryTimeout time.Duration
	// DialTimeout bounds one attempt to connect after the first; 0: CallTimeout, or a minute where
	// that is Hard.
	DialTimeout time.Duration
	// Responding, if set, is told false when the server has answered nothing for
	// noticeTime while calls wait, and true when it answers again. It must not block.
	Responding func(bool)
	// Probe has a new TCP connection answer one call before it is used, as those of
	// DialRDMA always do: then a port that is not one of ONC RPC fails to connect.
	Probe bool
	// ReservedPort has TCP connections come from a port below 1024 where this process
	// may bind one (CAP_NET_BIND_SERVICE), which some servers ask for; else from any.
	ReservedPort bool
	// ReservedOnly has them come from such a port or fail.
	ReservedOnly bool
	// Dial makes TCP connections in place of a net.Dialer and of ReservedPort; those of
	// DialRDMA are made by the Dial of its device. It may be nil.
	Dial func(ctx context.Context, network, addr string) (net.Conn, error)
	// Moves, if set, knows where the server is when it is not at its address any more.
	Moves Moves
	// MaxRetries bounds how often one call is sent again; 0: as often as
	// CallTimeout allows; less than 0: never.
	MaxRetries int
	// MaxRecord is the most bytes of one reply over TCP; 0: 4 MiB.
	MaxRecord int
	// RDMA sizes the connections of DialRDMA.
	RDMA rpcrdma.Config
	// Observe, if set, is told of each call when it has ended. It is called on the data path,
	// by many goroutines at once, and must neither block nor call the Client.
	Observe func(p *Proc, f CallFigures)
}

// Hard is the CallTimeout of calls that wait for their server for as long as it takes.
const Hard time.Duration = -1

func (cfg *ClientConfig) setDefaults() {
	if cfg.Service == "" {
		cfg.Service = "rpc"
	}
	if cfg.CallTimeout < 0 {
		cfg.CallTimeout = Hard
		setDefault(&cfg.RetryTimeout, 20*time.Second)
	}
	if cfg.CallTimeout == 0 {
		cfg.CallTimeout = time.Minute
	}
	setDefault(&cfg.RetryTimeout, cfg.CallTimeout/3)
	setDefault(&cfg.MaxRecord, 4<<20)
}

// How long to wait between attempts to connect.
const (
	backoffMin = 10 * time.Millisecond
	backoffMax = 2 * time.Second
)

// dialTimeout bounds one attempt to connect where CallTimeout does not, and moveTimeout one after
// which the server may be found elsewhere.
const (
	dialTimeout = time.Minute
	moveTimeout = 30 * time.Second
)

// A Client calls procedures over one connection, many at once. It reconnects
// by itself when the connection is lost and then sends the unanswered calls
// again under their XIDs.
type Client struct {
	cfg  ClientConfig
	auth Auth
	addr atomic.Pointer[string] // of the server; reconnect changes it, and Leave while that does not run
	dial func(ctx context.Context) (link, error)
	xid  atomic.Uint32

	// closing ends when Close is called; it bounds connecting.
	closing context.Context
	end     context.CancelFunc

	// Guarded by mu. At most one of link and dialing is set: a connection, or the attempt to make
	// one that all calls wait for. No call is made under mu, and none waits under it.
	mu      sync.Mutex
	link    link
	dialing chan struct{} // closed when the attempt to connect that runs has ended
	dialErr error         // why the last attempt failed
	delay   time.Duration // before the next attempt
	base    uint64        // answers, when link was made
	at      string        // the address of the last connection
	wg      sync.WaitGroup

	clientWatch
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

// errNoAnswer is a server that is silent for longer than RetryTimeout, or a call
// for longer than CallTimeout.
var errNoAnswer error = noAnswer{}

type noAnswer struct{}

func (noAnswer) Error() string { return "no answer in time" }
func (noAnswer) Timeout() bool { return true }

func newClient(cfg ClientConfig, addr string) *Client {
	cfg.setDefaults()
	c := &Client{cfg: cfg, auth: *NewAuth(cfg.Cred)}
	c.addr.Store(&addr)
	c.xid.Store(rand.Uint32())
	c.closing, c.end = context.WithCancel(context.Background())
	return c
}

// connectFirst makes the first connection, in one attempt.
func (c *Client) connectFirst(ctx context.Context) (*Client, error) {
	ctx, cancel := context.WithTimeout(ctx, c.dialTimeout())
	defer cancel()
	l, err := c.dialUsable(ctx)
	if err != nil {
		c.end()
		return nil, c.connectError(err)
	}
	c.link, c.base, c.at = l, c.answers.Load(), c.Addr()
	c.wg.Go(c.watchServer)
	return c, nil
}

// Addr is where the server is ("host:port").
func (c *Client) Addr() string { return *c.addr.Load() }

func (c *Client) connectError(err error) *ConnectError {
	if errors.Is(err, io.EOF) {
		err = errHungUp
	}
	return &ConnectError{Service: c.cfg.Service, Addr: c.Addr(), Err: err}
}

// errHungUp stands for the io.EOF of a connection: to whoever reads a file, io.EOF is
// the end of the file, and what was cut must not count as whole.
var errHungUp = errors.New("the server closed the connection")

// Call does one call. sink, if not empty, is where the result item (the opaque
// that res reads by Decoder.Item) is placed; the item that res sees is then
// sink[:n]. Without a sink an item is a part of the message, as the other results are.
// extra is added to p.MaxReply, for results whose bound depends on the arguments. An
// item that is longer than sink, and results with an item that are longer than that bound,
// fail with ErrNoRoom, over RDMA and TCP alike. Slices that res keeps of the Decoder are
// valid only inside DecodeXDR: copy what must stay. args and res may be nil where there are none.
//
// When Call returns, with or without an error, the bytes that args pointed at
// are not read any more, and nothing can land in sink.
func (c *Client) Call(ctx context.Context, p *Proc, args xdr.Marshaler, res xdr.Unmarshaler, sink []byte, extra int) error {
	return c.CallAs(ctx, nil, p, args, res, sink, extra)
}

// CallAs is Call in the name of another caller than ClientConfig.Cred; nil: of that one.
func (c *Client) CallAs(ctx context.Context, as *Auth, p *Proc, args xdr.Marshaler, res xdr.Unmarshaler, sink []byte, extra int) error {
	_, err := c.CallAnswer(ctx, as, p, args, res, sink, extra)
	return err
}

// CallAnswer is CallAs that also returns whose answer it is.
func (c *Client) CallAnswer(ctx context.Context, as *Auth, p *Proc, args xdr.Marshaler, res xdr.Unmarshaler, sink []byte, extra int) (Answer, error) {
	k := c.newOutCall()
	defer k.recycle()
	c.waiting.Add(1)
	defer c.waiting.Add(-1)
	if as == nil {
		as = &c.auth
	}
	k.proc, k.cred, k.args, k.res, k.sink = p, as.opaque, args, res, sink
	k.maxReply = p.MaxReply + extra
	if c.cfg.Observe != nil || c.cfg.CallTimeout != Hard {
		k.begun = now()
	}
	answer, err := c.exchange(ctx, k)
	if c.cfg.Observe != nil {
		c.cfg.Observe(p, k.figures(err))
	}
	return answer, err
}

// exchange makes attempts until one has brought the reply, or the call has failed.
func (c *Client) exchange(ctx context.Context, k *outCall) (a Answer, err error) {
	var deadline time.Time
	if c.cfg.CallTimeout != Hard {
		deadline = k.begun.Add(c.cfg.CallTimeout)
	}
	for try := 0; ; try++ {
		l, at, err := c.connection(ctx, deadline)
		if err != nil {
			return a, err
		}
		a.enter(at, try)
		k.tries, k.sent = try, time.Time{}
		err = k.attempt(ctx, l, deadline)
		if err == nil {
			return a, nil
		}
		if err = c.lost(ctx, l, err, try, deadline); err != nil {
			return a, err
		}
	}
}

// newOutCall is a call with an XID of its own.
func (c *Client) newOutCall() *outCall {
	k := outCallPool.Get().(*outCall)
	k.xid, k.answers = c.xid.Add(1), &c.answers
	return k
}

// lost handles an attempt that failed: nil means that the call is to be sent again.
// The second time and later it takes a pause first: the call itself may be what
// ends the connections, over which others are answered.
func (c *Client) lost(ctx context.Context, l link, err error, try int, deadline time.Time) error {
	var lost *lostError // before errNoAnswer, which is the cause of one where the server was silent
	if !errors.As(err, &lost) {
		if errors.Is(err, errNoAnswer) {
			return c.connectError(err)
		}
		return err
	}
	// The first call to notice takes the connection away; the others find another link, or none,
	// and do nothing.
	c.discard(l, lost.err)
	if c.closing.Err() != nil {
		return ErrClosed
	}
	if (c.cfg.MaxRetries != 0 && try >= c.cfg.MaxRetries) || passed(deadline) {
		return c.connectError(lost.err)
	}
	// The first time at once: a server that was restarted is back, and its clients are not to wait
	// for nothing.
	if try > 0 {
		return sleep(ctx, min(backoffMin<<min(try, 16), backoffMax))
	}
	return nil
}

// passed reports whether a deadline is over; the zero Time never is.
func passed(deadline time.Time) bool { return !deadline.IsZero() && !now().Before(deadline) }

// connection returns the connection, a new one where it is lost, and the address it is to.
func (c *Client) connection(ctx context.Context, deadline time.Time) (link, string, error) {
	for {
		c.mu.Lock()
		if c.closing.Err() != nil {
			c.mu.Unlock()
			return nil, "", ErrClosed
		}
		if l, at := c.link, c.at; l != nil {
			c.mu.Unlock()
			return l, at, nil
		}
		wait := c.redial()
		c.mu.Unlock()
		if err := c.awaitDial(ctx, wait, deadline); err != nil {
			return nil, "", err
		}
	}
}

// redial has an attempt to connect run, and returns what is closed at its end. mu is held. It is on
// a goroutine of the Client's, not the call's: a call that is given up takes nobody's connection
// with it.
func (c *Client) redial() <-chan struct{} {
	if c.dialing == nil {
		c.dialing = make(chan struct{})
		delay := c.delay
		c.wg.Go(func() { c.reconnect(delay) })
	}
	return c.dialing
}

// discard closes a connection that is of no use any more; its calls go to a new one.
func (c *Client) discard(l link, why error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.link == l && c.closing.Err() == nil {
		c.link = nil
		if c.answers.Load() == c.base { // a server that takes connections and answers none is not one that is back
			c.delay = min(max(2*c.delay, backoffMin), backoffMax)
		} else {
			c.delay = 0
		}
		c.wg.Go(func() { l.close(why) })
	}
}

// awaitDial waits for the end of an attempt to connect.
func (c *Client) awaitDial(ctx context.Context, dialed <-chan struct{}, deadline time.Time) error {
	var over <-chan time.Time
	if !deadline.IsZero() {
		timer := time.NewTimer(time.Until(deadline))
		defer timer.Stop()
		over = timer.C
	}
	select {
	case <-dialed:
		return nil
	case <-ctx.Done():
	case <-c.closing.Done():
		return ErrClosed
	case <-over:
	}
	c.mu.Lock()
	cause := c.dialErr
	c.mu.Unlock()
	if cause == nil {
		if cause = ctx.Err(); cause == nil {
			cause = errNoAnswer
		}
	}
	e := c.connectError(cause)
	e.ended = ctx.Err()
	return e
}

// reconnect is one attempt to connect, after delay, for all calls that wait for it.
func (c *Client) reconnect(delay time.Duration) {
	var l link
	err := sleep(c.closing, delay)
	limit := c.dialTimeout() // which may be shorter than the delay
	if c.cfg.Moves != nil {
		limit = min(limit, moveTimeout)
	}
	if c.cfg.DialTimeout > 0 {
		limit = min(limit, c.cfg.DialTimeout)
	}
	ctx, cancel := context.WithTimeout(c.closing, limit)
	defer cancel()
	if err == nil {
		l, err = c.dialUsable(ctx)
	}
	at := c.Addr()
	if err != nil && c.cfg.Moves != nil {
		next := c.cfg.Moves.Next(c.closing, at)
		c.addr.Store(&next)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if err != nil && ctx.Err() != nil && c.dialErr != nil {
		err = c.dialErr // that our time is over says less than what was wrong before
	}
	if c.dialErr = err; err == nil {
		c.link, c.base, c.at = l, c.answers.Load(), at
		switch {
		case c.closing.Err() != nil:
			c.wg.Go(func() { l.close(ErrClosed) })
		case c.cfg.Moves != nil && !c.cfg.Moves.Here(at): // it has moved since Connected, and Leave found no connection yet
			c.link = nil
			c.wg.Go(func() { l.close(errMoved) })
		}
	} else {
		c.delay = min(max(2*c.delay, backoffMin), backoffMax)
	}
	close(c.dialing)
	c.dialing = nil
}

func (c *Client) dialTimeout() time.Duration {
	if c.cfg.CallTimeout == Hard {
		return dialTimeout
	}
	return c.cfg.CallTimeout
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
		// Ends every call that waits for a reply; wg then has the loops and attempts to connect
		// left.
		err = l.close(ErrClosed)
	}
	c.wg.Wait()
	return err
}
