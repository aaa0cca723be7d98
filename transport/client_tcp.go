// The client side of TCP connections: concurrent calls and their replies.

package transport

import (
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"sync"
	"time"

	"github.com/nfsrdma/nfsrdma/rpcrdma/mem"
)

// DialTCP connects to addr ("host:port"). DialTCP tries once; the error is a *ConnectError.
func DialTCP(ctx context.Context, addr string, cfg ClientConfig) (*Client, error) {
	c := newClient(cfg, addr)
	c.dial = func(ctx context.Context) (clientConn, error) {
		nc, err := cfg.dialer()(ctx, "tcp", c.Addr())
		if err != nil {
			return nil, err
		}
		if c.cfg.TLS != nil {
			return c.dialTLS(ctx, nc)
		}
		l := newTCPClientConn(nc, &c.cfg)
		if c.cfg.Probe {
			if err := c.probe(ctx, l, c.cfg.RetryTimeout); err != nil {
				l.close(err)
				return nil, err
			}
		}
		return l, nil
	}
	return c.connectFirst(ctx)
}

// dialer returns the function that makes TCP connections.
func (cfg *ClientConfig) dialer() func(ctx context.Context, network, addr string) (net.Conn, error) {
	switch {
	case cfg.Dial != nil:
		return cfg.Dial
	case cfg.ReservedOnly:
		return dialReservedOnly
	case cfg.ReservedPort:
		return dialReserved
	}
	return new(net.Dialer).DialContext
}

// A tcpCall is a call's state over TCP. The connection's mu guards the fields until ready has been
// received.
type tcpCall struct {
	ready chan struct{}   // rec or err is set
	turn  chan struct{}   // makes this call the writer
	ctx   context.Context // the attempt's
	rec   *mem.Buffer
	err   error
	state writeState
	buf   *mem.Buffer // holds the encoded call
	size  int         // of the record, in bytes
	mark  [markLen]byte
}

// A tcpClientConn is a Client's TCP connection. Callers write, one at a time
// (client_tcpwrite.go), and one goroutine reads. No other goroutine is involved in a call.
type tcpClientConn struct {
	nc    net.Conn
	rw    io.ReadWriter // nc, or the *tlsStream on nc
	limit time.Duration // how long the server may accept no bytes
	rd    *recordReader
	wg    sync.WaitGroup

	// mu guards the fields below. It is never held during reads or writes on the socket.
	mu      sync.Mutex
	wrote   sync.Cond           // a batch has been written, or the writer has changed
	pending map[uint32]*outCall // calls without a reply, by XID
	out     []*outCall          // calls not being written yet
	writer  *outCall            // the call whose goroutine writes; nil: none
	err     error               // why the connection has ended
	retired bool                // no further call begins; wrote signals the last reply

	// Owned by the writer; the fields pass to the next writer under mu.
	gather gatherList
	batch  []*outCall // calls being written
	moved  time.Time  // when the server last accepted bytes
	yield  bool       // the writer's own call is done: stop in the middle of the batch
}

func newTCPClientConn(nc net.Conn, cfg *ClientConfig) *tcpClientConn {
	return newStreamClientConn(nc, nc, cfg)
}

// newStreamClientConn returns a connection over rw, which is nc or a session on nc.
func newStreamClientConn(nc net.Conn, rw io.ReadWriter, cfg *ClientConfig) *tcpClientConn {
	l := &tcpClientConn{nc: nc, rw: rw, limit: cfg.RetryTimeout, pending: map[uint32]*outCall{}}
	l.wrote.L = &l.mu
	l.rd = newRecordReader(rw, tcpWindow, cfg.MaxRecord)
	l.wg.Go(l.receiveLoop)
	return l
}

func (l *tcpClientConn) close(why error) error {
	l.closeNotify()
	l.abandon(why)
	l.wg.Wait()
	return nil
}

func (l *tcpClientConn) abandon(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.end(err)
}

// end ends the connection; no other function does. The caller holds mu.
func (l *tcpClientConn) end(err error) {
	if l.err != nil {
		return
	}
	l.err = &lostError{err}
	if c, ok := l.nc.(interface{ SetLinger(sec int) error }); ok && len(l.pending) > 0 {
		// The calls may be retransmitted over another connection. So bytes still in the kernel MUST
		// NOT arrive: late calls could undo later operations.
		_ = c.SetLinger(0)
	}
	l.nc.Close()
	for _, k := range l.out {
		k.tcp.state = callIdle
	}
	l.out = forget(l.out)
	for _, k := range l.pending {
		k.tcp.err = l.err
		k.tcp.ready <- struct{}{}
	}
	clear(l.pending)
	l.wrote.Broadcast()
}

// settle removes a call that awaits no reply any more. The caller holds mu.
func (l *tcpClientConn) settle(xid uint32) {
	delete(l.pending, xid)
	if l.retired && len(l.pending) == 0 {
		l.wrote.Broadcast()
	}
}

// awaitReplies waits until no call awaits a reply.
func (l *tcpClientConn) awaitReplies() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for len(l.pending) > 0 {
		l.wrote.Wait()
	}
}

// receiveLoop passes each reply to its call.
func (l *tcpClientConn) receiveLoop() {
	for {
		rec, err := l.rd.next()
		if errors.Is(err, errRecordSize) {
			l.refuseReply()
		}
		if err != nil {
			l.abandon(err)
			return
		}
		if len(rec.B) < 4 {
			rec.Put()
			continue
		}
		xid := binary.BigEndian.Uint32(rec.B)
		l.mu.Lock()
		k := l.pending[xid]
		if k == nil { // the call's caller has given up
			l.mu.Unlock()
			rec.Put()
			continue
		}
		l.settle(xid)
		k.tcp.rec = rec
		l.mu.Unlock()
		k.tcp.ready <- struct{}{}
	}
}

// refuseReply fails the call of a reply over MaxRecord. Sent again, the call would end the next
// connection too, with all other calls there.
func (l *tcpClientConn) refuseReply() {
	xid, err := l.rd.overlongXID()
	if err != nil {
		return
	}
	l.mu.Lock()
	k := l.pending[xid]
	if k == nil {
		l.mu.Unlock()
		return
	}
	l.settle(xid)
	k.tcp.err = &roomError{proc: k.proc.Name, record: true}
	l.mu.Unlock()
	k.tcp.ready <- struct{}{}
}

func (l *tcpClientConn) roundTrip(ctx context.Context, k *outCall) error {
	t := &k.tcp
	t.buf = mem.Get(callSpace)
	err := k.encode(t.buf.B)
	t.size = recordSize(&k.enc)
	if err == nil {
		err = l.exchange(ctx, k)
	}
	if err == nil {
		err = k.decode(t.rec.B, nil, false)
	}
	k.enc.Reset(nil)
	k.dec.Reset(nil, nil)
	t.buf.Put()
	t.rec.Put()
	t.buf, t.rec, t.err = nil, nil, nil
	return err
}

// exchange sends the call and waits for the reply record. After it returns, no other goroutine
// uses k.
func (l *tcpClientConn) exchange(ctx context.Context, k *outCall) error {
	t := &k.tcp
	l.mu.Lock()
	if l.err != nil {
		l.mu.Unlock()
		return l.err
	}
	if s, ok := l.rw.(*tlsStream); ok && s.worn() {
		l.retired = true
		l.mu.Unlock()
		return &lostError{errWorn}
	}
	l.pending[k.xid] = k
	l.out = append(l.out, k)
	t.state, t.ctx = callQueued, ctx
	writes := l.writer == nil
	if writes {
		l.writer = k
	}
	l.mu.Unlock()
	if writes {
		l.write(k)
	}
	err := l.await(ctx, k)
	l.leave(k)
	t.ctx = nil
	return err
}

// await waits for the reply, which is in k.tcp.rec if there is no error. A reply wins over a
// simultaneously ended context or timer.
func (l *tcpClientConn) await(ctx context.Context, k *outCall) (err error) {
	for waits := true; waits; {
		select {
		case <-k.tcp.turn:
			l.write(k)
			continue
		case <-k.tcp.ready:
			return k.tcp.err
		case <-ctx.Done():
			err = ctx.Err()
		case <-k.expired.C:
			if k.tooEarly() {
				continue
			}
			err = errNoAnswer
		}
		waits = false
	}
	if l.withdraw(k) {
		return k.tcp.err
	}
	return err
}

// withdraw ensures that k gets no reply from now on, and reports whether it already has one, or an
// error.
func (l *tcpClientConn) withdraw(k *outCall) bool {
	l.mu.Lock()
	_, waits := l.pending[k.xid]
	l.settle(k.xid)
	l.mu.Unlock()
	if !waits { // another goroutine is about to send to ready
		<-k.tcp.ready
	}
	return !waits
}
