// ucmatose: a connection-manager connection, all messages from the server, then as many from the
// client.

package verbs

import (
	"context"
	"fmt"
	"time"

	"github.com/nfsrdma/nfsrdma/rnic"
)

// UcmatosePort is ucmatose's service port. udaddy, with datagrams, uses rping's port.
const UcmatosePort = 7471

// Ucmatose runs ucmatose's test against ucmatose or itself. The client leaves after the server has
// disconnected.
func Ucmatose(ctx context.Context, o Options) (*PingpongReport, error) {
	if o.Size == 0 {
		o.Size = udaddySize
	}
	if o.Iterations == 0 {
		o.Iterations = udaddyIterations
	}
	o.Service = rnic.RC
	if err := o.check(); err != nil {
		return nil, err
	}
	if o.Iterations > udaddyMost {
		return nil, fmt.Errorf("--count %d: 1 to %d", o.Iterations, udaddyMost)
	}
	e, err := newEnd(ctx, &o, o.Iterations, o.Iterations)
	if err != nil {
		return nil, err
	}
	defer e.close()
	e.allocateBuffers()
	// The peer may send at once, so the receives must be posted first.
	if err = e.receives(o.Iterations); err != nil {
		return nil, err
	}
	if err = e.reach(ctx, rnic.ConnParams{IRD: 1, ORD: 1}); err != nil {
		return nil, err
	}
	start := time.Now()
	if err = e.exchangeAll(); err != nil {
		return nil, err
	}
	took := time.Since(start)
	if !o.server() {
		e.awaitDisconnect()
	}
	e.finish()
	r := &PingpongReport{Common: Common{Test: "ucmatose", Role: o.role(), Service: serviceNames[o.Service], Local: e.qp.LocalAddr().String(),
		Remote: e.qp.RemoteAddr().String(), Size: o.Size, Iterations: o.Iterations, Bytes: 2 * uint64(o.Size) * uint64(o.Iterations), Seconds: took.Seconds()}}
	r.rates()
	return r, nil
}

// exchangeAll sends all messages and receives as many. The server sends first; the client sends
// after it has received all messages.
func (e *end) exchangeAll() error {
	n := e.o.Iterations
	if e.o.server() {
		return e.transfer(n, n)
	}
	if err := e.transfer(0, n); err != nil {
		return err
	}
	return e.transfer(n, 0)
}

// transfer posts Sends and waits until the Sends and the receives have completed.
func (e *end) transfer(sends, receives int) error {
	for range sends {
		if err := e.send(e.o.Size); err != nil {
			return err
		}
	}
	for sends+receives > 0 {
		wc, err := e.next()
		if err != nil {
			return fmt.Errorf("%d Sends and %d receives before the end: %w", sends, receives, err)
		}
		if wc.Op != rnic.OpRecv {
			sends--
			continue
		}
		receives--
		if err := e.message(&wc); err != nil {
			return err
		}
	}
	return nil
}

// awaitDisconnect waits for the peer to disconnect, at most for silence.
func (e *end) awaitDisconnect() {
	late := time.NewTimer(e.o.silence())
	defer late.Stop()
	select {
	case <-e.qp.Done():
	case <-e.ctx.Done():
	case <-late.C:
	}
}
