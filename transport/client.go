// The client: many concurrent calls over one connection, which it reconnects after a loss.

package transport

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nfsrdma/nfsrdma/rpcrdma"
)

// A Proc identifies a procedure and bounds its reply.
type Proc struct {
	Prog, Vers, Proc uint32
	Name             string
	MaxReply         int // size limit of the results in bytes, without an item for a sink
}

// ClientConfig configures a Client. The zero value suits most programs.
type ClientConfig struct {
	Cred    Cred
	Auth    *Auth  // instead of Cred, if not nil
	Service string // the server's name in errors: "nfs"; "": "rpc"
	// CallTimeout bounds one call with all its retransmissions; 0: 60 s; Hard: unlimited, like a
	// hard mount. A context may end the call earlier.
	CallTimeout time.Duration
	// RetryTimeout is how long a server may be silent while calls wait. Then the client reconnects
	// and retransmits the calls. 0: a third of CallTimeout, or 20 s for Hard. A long call does not
	// count as silence while the server answers other calls, or a NULL.
	RetryTimeout time.Duration
	// DialTimeout bounds each reconnection attempt; 0: CallTimeout, or a minute if that is Hard.
	DialTimeout time.Duration
	// Responding, if set, is called with false after noticeTime of silence while calls wait, and
	// with true when the server answers again. It must not block.
	Responding func(bool)
	// Probe sends one call over each new TCP connection before use, so that connecting to a port
	// without an ONC RPC service fails. DialRDMA always does so.
	Probe bool
	// ReservedPort makes connections over TCP and UDP use a source port below 1024, as some servers
	// require, if this process may bind one (CAP_NET_BIND_SERVICE). Otherwise they use any port.
	ReservedPort bool
	// ReservedOnly makes these connections fail without a port below 1024.
	ReservedOnly bool
	// TLS, if set, makes a TLS session on each TCP connection (RPC-with-TLS, RFC 9289), and sends
	// nothing in clear; a server without TLS is not used. ServerName in it is the name in the
	// server's certificate; "": the host of the server's address. For DialRDMA the session is below
	// iWARP, a protocol between this package's client and server; RoCE has none.
	TLS *tls.Config
	// KernelTLS lets the Linux kernel encrypt and decrypt the sessions over TCP, if it can.
	KernelTLS bool
	keyBytes  uint64 // of sessions; 0: the constant
	// Dial makes connections over TCP and UDP instead of a net.Dialer and ReservedPort; DialRDMA
	// uses its device's Dial. It may be nil. Over UDP each Write and Read of the connection MUST
	// carry one datagram.
	Dial func(ctx context.Context, network, addr string) (net.Conn, error)
	// Moves, if set, finds the server's new address.
	Moves Moves
	// MaxRetries bounds a call's retransmissions; 0: no bound besides CallTimeout; negative:
	// none.
	MaxRetries int
	// Resend is how long a call over UDP waits for its reply before it is sent again. The wait
	// doubles with each retransmission, up to RetryTimeout. 0: 1 s.
	Resend time.Duration
	// MaxRecord is the largest reply over TCP, in bytes; 0: 4 MiB.
	MaxRecord int
	// RDMA configures the connections of DialRDMA.
	RDMA rpcrdma.Config
	// Observe, if set, is called after each call. It runs on the data path in many goroutines
	// concurrently, and must neither block nor call the Client.
	Observe func(p *Proc, f CallFigures)
}

// Hard is the CallTimeout that makes calls wait for their server without limit.
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
	setDefault(&cfg.Resend, time.Second)
	setDefault(&cfg.MaxRecord, 4<<20)
}

// A Client calls procedures over one connection, many concurrently. After a loss it reconnects
// and retransmits the unanswered calls under their XIDs.
type Client struct {
	cfg  ClientConfig
	auth Auth
	// addr is the server's address. Written by reconnect, and by Leave while no reconnect runs.
	addr atomic.Pointer[string]
	dial func(ctx context.Context) (clientConn, error)
	udp  bool // calls go in datagrams, which may be lost; set once
	xid  atomic.Uint32

	// closing is canceled by Close, which ends connection attempts.
	closing context.Context
	end     context.CancelFunc

	// Guarded by mu. At most one of conn and dialing is set: a connection, or the attempt to make
	// one, which all calls await. No network operation or wait happens under mu.
	mu      sync.Mutex
	conn    clientConn
	dialing chan struct{} // closed at the end of the current connection attempt
	dialErr error         // the last attempt's error
	delay   time.Duration // before the next attempt
	base    uint64        // value of answers when conn was made
	at      string        // conn's address
	wg      sync.WaitGroup

	clientWatch
}

// A clientConn is a Client's connection.
type clientConn interface {
	// roundTrip sends the call, waits for its reply and decodes it. A *lostError means that the
	// call got no answer.
	roundTrip(ctx context.Context, k *outCall) error
	// close ends the connection; the calls fail with a *lostError for why. close returns when the
	// connection's goroutines have ended.
	close(why error) error
}

// A lostError means that the connection ended before the reply.
type lostError struct{ err error }

func (e *lostError) Error() string { return "rpc: connection lost: " + e.err.Error() }
func (e *lostError) Unwrap() error { return e.err }

// errNoAnswer means that the server was silent for RetryTimeout, or a call's CallTimeout expired.
var errNoAnswer error = noAnswer{}

type noAnswer struct{}

func (noAnswer) Error() string { return "no answer in time" }
func (noAnswer) Timeout() bool { return true }

func newClient(cfg ClientConfig, addr string) *Client {
	cfg.setDefaults()
	c := &Client{cfg: cfg, auth: *NewAuth(cfg.Cred)}
	if cfg.Auth != nil {
		c.auth = *cfg.Auth
	}
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
	c.conn, c.base, c.at = l, c.answers.Load(), c.Addr()
	c.wg.Go(c.watchServer)
	return c, nil
}

// Addr returns the server's current address ("host:port").
func (c *Client) Addr() string { return *c.addr.Load() }

func (c *Client) connectError(err error) *ConnectError {
	if errors.Is(err, io.EOF) {
		err = errHungUp
	}
	return &ConnectError{Service: c.cfg.Service, Addr: c.Addr(), Err: err}
}

// errHungUp replaces a connection's io.EOF: a file's reader would take io.EOF for the end of the
// file, and accept a truncated one.
var errHungUp = errors.New("the server closed the connection")

// lost handles a failed attempt: nil means retransmission. From the second failure on lost pauses
// first: the call itself may make connections fail that other calls need.
func (c *Client) lost(ctx context.Context, l clientConn, err error, try int, deadline time.Time) error {
	if c.udp {
		if result, ok := c.lostDatagram(ctx, err, try); ok {
			return result
		}
	}
	// Check before errNoAnswer, which a lostError for a silent server wraps.
	var lost *lostError
	if !errors.As(err, &lost) {
		if errors.Is(err, errNoAnswer) {
			return c.connectError(err)
		}
		return err
	}
	// The first call to notice the loss discards the connection; for the other calls discard does
	// nothing.
	c.discard(l, lost.err)
	if c.closing.Err() != nil {
		return ErrClosed
	}
	if lost.err == errWorn { //nolint:errorlint // exchange makes it
		return nil // before anything was sent
	}
	if (c.cfg.MaxRetries != 0 && try >= c.cfg.MaxRetries) || passed(deadline) {
		return c.connectError(lost.err)
	}
	// No pause after the first failure: the server may have restarted, and be ready.
	if try > 0 {
		return sleep(ctx, min(backoffMin<<min(try, 16), backoffMax))
	}
	return nil
}

// passed reports whether a deadline has expired; the zero Time never has.
func passed(deadline time.Time) bool { return !deadline.IsZero() && !now().Before(deadline) }

// redial starts a connection attempt if none runs, and returns a channel closed at its end. The
// caller holds mu. The attempt runs on the Client's goroutine, not the call's: an abandoned call
// must not take away the other calls' connection.
func (c *Client) redial() <-chan struct{} {
	if c.dialing == nil {
		c.dialing = make(chan struct{})
		delay := c.delay
		c.wg.Go(func() { c.reconnect(delay) })
	}
	return c.dialing
}

// discard closes a useless connection; the calls go to a new connection.
func (c *Client) discard(l clientConn, why error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.conn == l && c.closing.Err() == nil {
		c.conn = nil
		// A server that accepts connections without answering is not back.
		if c.answers.Load() == c.base {
			c.delay = min(max(2*c.delay, backoffMin), backoffMax)
		} else {
			c.delay = 0
		}
		c.wg.Go(func() { c.finish(l, why) })
	}
}

// finish closes a connection. One with a worn key first gets the replies to its calls.
func (c *Client) finish(l clientConn, why error) {
	if t, ok := l.(*tcpClientConn); ok && why == errWorn { //nolint:errorlint // exchange makes it
		stop := context.AfterFunc(c.closing, func() { t.abandon(ErrClosed) })
		t.awaitReplies()
		stop()
	}
	l.close(why)
}

// awaitDial waits for the end of a connection attempt.
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

// reconnect makes one connection attempt, after delay, for all waiting calls.
func (c *Client) reconnect(delay time.Duration) {
	var l clientConn
	err := sleep(c.closing, delay)
	limit := c.dialTimeout() // limit may be shorter than delay
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
		err = c.dialErr // the earlier error says more than this timeout
	}
	if c.dialErr = err; err == nil {
		c.conn, c.base, c.at = l, c.answers.Load(), at
		switch {
		case c.closing.Err() != nil:
			c.wg.Go(func() { l.close(ErrClosed) })
		// The service has moved since Connected, when Leave found no connection yet.
		case c.cfg.Moves != nil && !c.cfg.Moves.Here(at):
			c.conn = nil
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

// Close ends the connection; running calls fail with ErrClosed.
func (c *Client) Close() error {
	c.mu.Lock()
	c.end()
	l := c.conn
	c.conn = nil
	c.mu.Unlock()
	var err error
	if l != nil {
		// close ends the calls waiting for a reply; wg then counts only loops and connection
		// attempts.
		err = l.close(ErrClosed)
	}
	c.wg.Wait()
	return err
}
