// The Listener: the passive side, in connection set-up.

package rconn

import (
	"context"
	"net"
	"sync"

	"github.com/nfsrdma/nfsrdma/rnic"
)

// A Listener is a net.Listener for connections over RDMA. Any goroutine may call its methods.
type Listener struct {
	// set once
	network string
	cfg     Config
	l       rnic.Listener
	conns   chan *Conn    // connections for Accept
	setups  chan struct{} // a token for each set-up, and each connection in conns
	ctx     context.Context
	cancel  context.CancelFunc

	tasks sync.WaitGroup // the accept loop and the set-ups

	mu       sync.Mutex
	err      error                             // guarded by mu; why the listener has ended
	requests map[rnic.DatagramRequest]struct{} // guarded by mu; requests whose Accept waits
}

// Listen listens at addr, "host:port". network is the provider, iwarp or roce, whose package the
// program imports.
func Listen(network, addr string, cfg *Config) (*Listener, error) {
	config, err := cfg.with(network)
	var rl rnic.Listener
	if err == nil {
		rl, err = config.Device.Listen("tcp", addr)
	}
	if err != nil {
		return nil, &net.OpError{Op: "listen", Net: network, Addr: address{network, addr}, Err: err}
	}
	l := &Listener{network: network, cfg: config, l: rl, conns: make(chan *Conn, maxSetups), setups: make(chan struct{}, maxSetups),
		requests: map[rnic.DatagramRequest]struct{}{}}
	l.ctx, l.cancel = context.WithCancel(context.Background())
	l.tasks.Go(l.loop)
	return l, nil
}

// Addr returns the listener's address.
func (l *Listener) Addr() net.Addr { return l.l.Addr() }

// Accept returns the next connection, a *Conn. After Close it fails with net.ErrClosed.
func (l *Listener) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		<-l.setups
		return c, nil
	case <-l.ctx.Done():
		l.mu.Lock()
		defer l.mu.Unlock()
		return nil, &net.OpError{Op: "accept", Net: l.network, Source: nil, Addr: l.Addr(), Err: l.err}
	}
}

// Close stops listening, and ends connections that Accept has not returned.
func (l *Listener) Close() error {
	if !l.end(net.ErrClosed) {
		l.tasks.Wait()
		return &net.OpError{Op: "close", Net: l.network, Addr: l.Addr(), Err: net.ErrClosed}
	}
	err := l.l.Close()
	l.tasks.Wait()
	for {
		select {
		case c := <-l.conns:
			c.discard()
		default:
			return err
		}
	}
}

// end records why the listener ends, and reports whether it has not ended before.
func (l *Listener) end(err error) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.err != nil {
		return false
	}
	l.err = err
	l.cancel()
	for r := range l.requests {
		r.Abandon()
	}
	return true
}

// loop takes requests until the listener ends.
func (l *Listener) loop() {
	for {
		select {
		case l.setups <- struct{}{}:
		case <-l.ctx.Done():
			return
		}
		r, err := l.l.Accept(l.ctx)
		if err != nil {
			l.end(err)
			return
		}
		l.tasks.Go(func() {
			if c := l.setUp(r); c != nil {
				l.conns <- c
			} else {
				<-l.setups
			}
		})
	}
}

// setUp accepts one request, and returns its connection; nil if there is none.
func (l *Listener) setUp(r rnic.ConnRequest) *Conn {
	peer, err := parseHello(r.PrivateData())
	if err != nil {
		// The peer learns our version. An error here is the peer's loss alone.
		_ = r.Reject(appendHello(nil, hello{}))
		return nil
	}
	c, err := newConn(l.network, &l.cfg)
	if err != nil {
		_ = r.Reject(nil)
		return nil
	}
	c.expect(peer)
	if d, ok := r.(rnic.DatagramRequest); ok {
		if !l.waits(d) {
			d.Abandon()
		}
		defer l.done(d)
	}
	if err := r.Accept(c.qp, rnic.ConnParams{PrivateData: c.hello(), Provider: l.cfg.Options}); err != nil {
		c.discard()
		return nil
	}
	c.start()
	return c
}

// waits records a request whose Accept waits, and reports false if the listener has ended.
func (l *Listener) waits(r rnic.DatagramRequest) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.requests[r] = struct{}{}
	return l.err == nil
}

func (l *Listener) done(r rnic.DatagramRequest) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.requests, r)
}
