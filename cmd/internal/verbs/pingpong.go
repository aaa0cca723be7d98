// libibverbs' pingpongs: messages with replies, one after the other, over RC, UC or UD.

package verbs

import (
	"context"
	"fmt"
	"net"
	"strconv"
	"time"

	"github.com/nfsrdma/nfsrdma/cmd/internal/verbs/exchange"
	"github.com/nfsrdma/nfsrdma/rnic"
	"github.com/nfsrdma/nfsrdma/rnic/roce"
)

// Port is the pingpongs' and perftest's TCP port.
const Port = 18515

// The pingpongs' defaults.
const (
	pingpongSize       = 4096
	pingpongDatagram   = 1024
	pingpongIterations = 1000
	pingpongMTU        = 1024
)

// pingpongReceives is the number of posted receives. One message is in flight at a time.
const pingpongReceives = 16

// Pingpong runs one test against ibv_rc_pingpong, ibv_uc_pingpong, ibv_ud_pingpong or itself.
func Pingpong(ctx context.Context, o Options) (*PingpongReport, error) {
	switch {
	case o.Size == 0 && o.Service == rnic.UD:
		o.Size = pingpongDatagram
	case o.Size == 0:
		o.Size = pingpongSize
	}
	if o.Iterations == 0 {
		o.Iterations = pingpongIterations
	}
	if o.MTU == 0 && o.Service != rnic.UD {
		o.MTU = pingpongMTU
	}
	if err := o.check(); err != nil {
		return nil, err
	}
	t, err := connectControl(ctx, &o)
	if err != nil {
		return nil, err
	}
	defer t.close()
	e, err := newEnd(ctx, &o, pingpongReceives, pingpongReceives)
	if err != nil {
		return nil, err
	}
	defer e.close()
	peer, err := pingpongConnect(t, e)
	if err != nil {
		return nil, err
	}
	start := time.Now()
	if err := pingpong(e); err != nil {
		return nil, err
	}
	r := &PingpongReport{Common: common("pingpong", &o, e.id, peer, time.Since(start))}
	r.rates()
	e.finish()
	return r, nil
}

// pingpongConnect exchanges the ends' parameters. Receives are posted before the peer learns where
// to send.
func pingpongConnect(t *control, e *end) (peer roce.Identity, err error) {
	if err = e.bind(t.peer()); err != nil {
		return peer, err
	}
	if err = fitDatagram(e.o, e.id.MTU); err != nil {
		return peer, err
	}
	e.allocateBuffers()
	if err = e.receives(pingpongReceives); err != nil {
		return peer, err
	}
	ours := exchange.AppendPingpong(nil, exchange.Pingpong{QPN: e.id.QPN, PSN: e.id.PSN, GID: e.id.Addr})
	hear := func() error {
		b, err := t.receive(exchange.PingpongLen)
		if err != nil {
			return err
		}
		p, err := exchange.ParsePingpong(b)
		if err != nil {
			return fmt.Errorf("%v: %w: is it a pingpong, and has it a GID (-g)?", t.RemoteAddr(), err)
		}
		peer = roce.Identity{Addr: p.GID, QPN: p.QPN, PSN: p.PSN}
		return e.connect(peer, e.o.MTU, 1)
	}
	if e.o.server() {
		if err = hear(); err == nil {
			err = t.send(ours)
		}
		if err == nil {
			_, err = t.receive(len(exchange.Done))
		}
		return peer, err
	}
	if err = t.send(ours); err == nil {
		err = hear()
	}
	if err == nil {
		err = t.send([]byte(exchange.Done))
	}
	return peer, err
}

// pingpong makes the client send a message and each end reply to the peer's. Both stop after the
// same iteration count.
func pingpong(e *end) error {
	n := e.o.Iterations
	received, sent, posted, lead := 0, 0, 0, 1
	if e.o.server() {
		lead = 0
	}
	for received < n || sent < n {
		// The client has sent one message more than it has received. The next Send waits until the
		// last Send has completed.
		if posted < n && posted < received+lead && sent == posted {
			if err := e.send(e.o.Size); err != nil {
				return err
			}
			posted++
		}
		wc, err := e.next()
		if err != nil {
			return fmt.Errorf("after %d of %d messages: %w", received, n, err)
		}
		if wc.Op != rnic.OpRecv {
			sent++
			continue
		}
		if err := e.message(&wc); err != nil {
			return err
		}
		received++
		if err := e.receives(1); err != nil {
			return err
		}
	}
	return nil
}

// formatIdentity formats a queue pair.
func formatIdentity(id roce.Identity) string {
	return net.JoinHostPort(id.Addr.String(), strconv.FormatUint(uint64(id.QPN), 10))
}
