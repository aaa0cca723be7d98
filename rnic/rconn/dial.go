// Dial: the active side of connection set-up.

package rconn

import (
	"context"
	"errors"
	"fmt"
	"net"

	"github.com/nfsrdma/nfsrdma/rnic"
)

// Dial connects to a Listener at addr, "host:port". network is the provider, iwarp or roce, whose
// package the program imports. ctx bounds the set-up alone.
func Dial(ctx context.Context, network, addr string, cfg *Config) (*Conn, error) {
	c, err := dial(ctx, network, addr, cfg)
	if err != nil {
		return nil, &net.OpError{Op: "dial", Net: network, Addr: address{network, addr}, Err: err}
	}
	return c, nil
}

func dial(ctx context.Context, network, addr string, cfg *Config) (*Conn, error) {
	config, err := cfg.with(network)
	if err == nil {
		err = ctx.Err()
	}
	if err != nil {
		return nil, err
	}
	c, err := newConn(network, &config)
	if err != nil {
		return nil, err
	}
	err = config.Device.Connect(ctx, c.qp, addr, rnic.ConnParams{PrivateData: c.hello(), Provider: config.Options})
	if err == nil {
		var peer hello
		if peer, err = parseHello(c.qp.PrivateData()); err == nil {
			c.expect(peer)
			err = c.greet()
		}
	}
	if err != nil {
		c.discard()
		return nil, refusal(err)
	}
	c.start()
	return c, nil
}

// greet sends the first message: over iWARP the passive side cannot send before it (RFC 5044
// §7.1.2).
func (c *Conn) greet() error {
	c.out.mu.Lock()
	defer c.out.mu.Unlock()
	c.mu.Lock()
	m := c.flow.sendUpdate()
	c.mu.Unlock()
	n := &c.out.counts[classControl]
	n.posted++
	return c.posted(c.qp.PostSend(c.send(&c.out.control[0], &m, classControl)))
}

// refusal explains the refusal by a listener of ours.
func refusal(err error) error {
	r, refused := errors.AsType[*rnic.RejectError](err)
	if !refused {
		return err
	}
	if _, why := parseHello(append(r.PrivateData, make([]byte, helloLen)...)); errors.Is(why, errVersion) {
		return fmt.Errorf("%w: %w", errVersion, err)
	}
	return err
}

// An address is the text that Dial was called with.
type address struct{ network, text string }

func (a address) Network() string { return a.network }
func (a address) String() string  { return a.text }
