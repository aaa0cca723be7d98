// The client over UDP: a datagram for each call, sent again until a reply comes.

package transport

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/nfsrdma/nfsrdma/rpcrdma/mem"
	"github.com/nfsrdma/nfsrdma/xdr"
)

const (
	maxDatagram   = 65507    // bytes after the headers of IPv4 and UDP in the largest packet
	datagramSpace = 64 << 10 // receives any datagram
)

// Words at the start of an RPC message (RFC 5531 §9).
const (
	msgCall  = 0
	msgReply = 1
)

var errNoUDPTLS = errors.New("RPC over UDP has no TLS: use TCP")

// errResend means that a call over UDP got no reply in time, and may be sent again.
var errResend = errors.New("rpc: no reply to this datagram yet")

// An unreachableError is an ICMP message, or the kernel's refusal to send. The socket stays usable.
type unreachableError struct{ err error }

func (e *unreachableError) Error() string { return "rpc: datagram not delivered: " + e.err.Error() }
func (e *unreachableError) Unwrap() error { return e.err }

// DialUDP opens a socket for calls to addr ("host:port"). It sends nothing, so the first call shows
// whether a server is there.
//
// A call without a reply is sent again with the same XID from the same port, so that the server's
// duplicate request cache recognizes it: after Resend, then after twice that, and so on. Only a
// reply from addr counts. A message from the network that the port or host is unreachable ends all
// waiting calls with a *ConnectError (syscall.ECONNREFUSED, for example), unless CallTimeout is
// Hard. Procedures without a duplicate request cache at the server may run more than once.
func DialUDP(ctx context.Context, addr string, cfg ClientConfig) (*Client, error) {
	c := newClient(cfg, addr)
	c.udp = true
	c.dial = func(ctx context.Context) (clientConn, error) {
		if c.cfg.TLS != nil {
			return nil, errNoUDPTLS
		}
		nc, err := c.cfg.dialer()(ctx, "udp", c.Addr())
		if err != nil {
			return nil, err
		}
		return newUDPClientConn(nc), nil
	}
	return c.connectFirst(ctx)
}

// resendAfter returns how long an attempt over UDP waits for its reply. 0: until the call ends.
func (c *Client) resendAfter(try int) time.Duration {
	last := c.cfg.MaxRetries != 0 && try >= c.cfg.MaxRetries
	if !c.udp || last && c.cfg.CallTimeout != Hard {
		return 0
	}
	return min(c.cfg.Resend<<min(try, 16), max(c.cfg.RetryTimeout, c.cfg.Resend))
}

// lostDatagram is lost for the errors of UDP that leave the socket usable. It returns the result of
// lost; ok is false for other errors.
func (c *Client) lostDatagram(ctx context.Context, err error, try int) (result error, ok bool) {
	var unreachable *unreachableError
	switch {
	case errors.As(err, &unreachable) && c.cfg.CallTimeout != Hard:
		return c.connectError(unreachable.err), true
	case errors.As(err, &unreachable):
		return sleep(ctx, min(c.resendAfter(try), backoffMax)), true
	case !errors.Is(err, errResend):
		return nil, false
	case c.closing.Err() != nil:
		return ErrClosed, true
	case c.cfg.MaxRetries != 0 && try >= c.cfg.MaxRetries:
		return c.connectError(errNoAnswer), true
	}
	return nil, true
}

// A udpClientConn is a Client's socket, connected to the server's address. Callers send; one
// goroutine receives.
type udpClientConn struct {
	nc net.Conn
	wg sync.WaitGroup

	mu      sync.Mutex          // guards all below; never held during a read or write
	pending map[uint32]*outCall // calls without a reply, by XID
	err     error               // why the socket was closed
}

func newUDPClientConn(nc net.Conn) *udpClientConn {
	l := &udpClientConn{nc: nc, pending: map[uint32]*outCall{}}
	l.wg.Go(l.receiveLoop)
	return l
}

func (l *udpClientConn) close(why error) error {
	l.end(why)
	l.wg.Wait()
	return nil
}

// end closes the socket. The first error stays.
func (l *udpClientConn) end(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.err != nil {
		return
	}
	l.err = &lostError{err}
	l.nc.Close()
	l.fail(l.err)
}

// fail ends all waiting calls' attempts. The caller holds mu.
func (l *udpClientConn) fail(err error) {
	for _, k := range l.pending {
		k.tcp.err = err
		k.tcp.ready <- struct{}{}
	}
	clear(l.pending)
}

// receiveLoop passes each reply to its call. A reply without a waiting call is late or a duplicate,
// or forged, and is ignored.
func (l *udpClientConn) receiveLoop() {
	rec := mem.Get(datagramSpace)
	defer func() { rec.Put() }()
	for {
		n, err := l.nc.Read(rec.B)
		switch {
		case err != nil && undelivered(err):
			l.mu.Lock()
			l.fail(&unreachableError{err})
			l.mu.Unlock()
		case err != nil:
			l.end(err)
			return
		case n >= 8 && binary.BigEndian.Uint32(rec.B[4:]) == msgReply && l.deliver(rec, n):
			rec = mem.Get(datagramSpace)
		}
	}
}

// deliver passes a reply of n bytes to its call, which takes rec over.
func (l *udpClientConn) deliver(rec *mem.Buffer, n int) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	xid := binary.BigEndian.Uint32(rec.B)
	k := l.pending[xid]
	// The call waits, so its decoder is free.
	if k == nil || !k.answeredBy(rec.B[:n]) {
		return false
	}
	delete(l.pending, xid)
	rec.B = rec.B[:n]
	k.tcp.rec = rec
	k.tcp.ready <- struct{}{}
	return true
}

// icmpErrors are the errors for an earlier datagram that a router or the other host has refused, or
// for one that the kernel refuses to send.
var icmpErrors = []error{syscall.ECONNREFUSED, syscall.EHOSTUNREACH, syscall.ENETUNREACH, syscall.EHOSTDOWN,
	syscall.EACCES, syscall.EPERM, syscall.ENOPROTOOPT, syscall.ENONET}

// undelivered reports whether err is about a datagram, and not about the socket.
func undelivered(err error) bool {
	return slices.ContainsFunc(icmpErrors, func(e error) bool { return errors.Is(err, e) })
}

func (l *udpClientConn) roundTrip(ctx context.Context, k *outCall) error {
	t := &k.tcp
	t.buf = mem.Get(callSpace)
	err := k.encode(t.buf.B)
	if err == nil {
		err = l.exchange(ctx, k, k.datagram())
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

// datagram returns the encoded call with its items inserted at their offsets.
func (k *outCall) datagram() []byte {
	if len(k.enc.Items()) == 0 {
		return k.enc.Bytes()
	}
	return appendMessage(make([]byte, 0, recordSize(&k.enc)), &k.enc)
}

// appendMessage appends e's stream to b, with items and pads in place.
func appendMessage(b []byte, e *xdr.Encoder) []byte {
	stream, at := e.Bytes(), 0
	for _, it := range e.Items() {
		b = append(b, stream[at:it.Off]...)
		b = append(b, it.Data...)
		b = append(b, zeroPad[:xdr.Pad(len(it.Data))]...)
		at = it.Off
	}
	return append(b, stream[at:]...)
}

// exchange sends the call once and waits for its reply. After it returns, no other goroutine uses
// k.
func (l *udpClientConn) exchange(ctx context.Context, k *outCall, call []byte) error {
	if err := l.enter(k); err != nil {
		return err
	}
	k.sentAt(now())
	err := l.send(k, call)
	if err == nil {
		err = l.await(ctx, k)
	}
	if err != nil && l.withdraw(k) && k.tcp.err == nil {
		return nil // the reply came at the last moment
	}
	return err
}

// enter adds k to the waiting calls.
func (l *udpClientConn) enter(k *outCall) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.err == nil {
		l.pending[k.xid] = k
	}
	return l.err
}

// withdraw ensures that k gets no reply from now on, and reports whether it already has one, or an
// error.
func (l *udpClientConn) withdraw(k *outCall) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.pending[k.xid] == k {
		delete(l.pending, k.xid)
		return false
	}
	select { // sent under mu
	case <-k.tcp.ready:
		return true
	default:
		return false
	}
}

// send sends the call. An ICMP message for an earlier datagram makes the first attempt fail.
func (l *udpClientConn) send(k *outCall, call []byte) error {
	if len(call) > maxDatagram {
		return fmt.Errorf("%w: %s has %d bytes", ErrDatagramSize, k.proc.Name, len(call))
	}
	_, err := l.nc.Write(call)
	if err != nil && undelivered(err) {
		_, err = l.nc.Write(call)
	}
	switch {
	case err == nil, errors.Is(err, syscall.ENOBUFS): // dropped here, as it might be elsewhere
		return nil
	case errors.Is(err, syscall.EMSGSIZE):
		return fmt.Errorf("%w: %s has %d bytes", ErrDatagramSize, k.proc.Name, len(call))
	case undelivered(err):
		return &unreachableError{err}
	}
	return &lostError{err}
}

// await waits for the reply, which is in k.tcp.rec if there is no error.
func (l *udpClientConn) await(ctx context.Context, k *outCall) error {
	end := k.until
	if next := now().Add(k.resend); k.resend > 0 && (end.IsZero() || next.Before(end)) {
		k.arm(next)
	}
	for {
		select {
		case <-k.tcp.ready:
			return k.tcp.err
		case <-ctx.Done():
			return ctx.Err()
		case <-k.expired.C:
			switch {
			case k.tooEarly():
			case passed(end):
				return errNoAnswer
			default:
				return errResend
			}
		}
	}
}

// answeredBy reports whether b is this call's reply. A datagram with an invalid header is ignored.
// So is one with another verifier: it may be forged, or answer an earlier transmission, whose
// RPCSEC_GSS sequence number differs.
func (k *outCall) answeredBy(b []byte) bool {
	k.dec.Reset(b, nil)
	k.replyHeader.DecodeXDR(&k.dec)
	return k.dec.Err() == nil && k.checkVerifier() == nil
}
