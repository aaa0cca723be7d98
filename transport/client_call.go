// An outbound call: its attempts, its state, and decoding its reply.

package transport

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nfsrdma/nfsrdma/xdr"
	"github.com/nfsrdma/nfsrdma/xdr/oncrpc"
)

// An outCall is a Client's call, through all its attempts.
type outCall struct {
	xid      uint32
	proc     *Proc
	cred     oncrpc.OpaqueAuth
	args     xdr.Marshaler
	res      xdr.Unmarshaler
	sink     []byte
	maxReply int
	answers  *atomic.Uint64 // the Client's count of replies
	xids     *atomic.Uint32 // the Client's last XID
	secure   clientSecurity
	callWatch

	callHeader  oncrpc.CallHeader
	replyHeader oncrpc.ReplyHeader
	enc         xdr.Encoder
	dec         xdr.Decoder

	expired      *time.Timer // ends an attempt, unless it fires too early
	until        time.Time   // end of the attempt; zero: never
	armed        time.Time   // when expired fires or has fired; zero: stopped
	tooEarlyFunc func() bool // tooEarly, allocated once
	tcp          tcpCall     // state of an attempt over TCP or UDP
	// resend is how long the attempt waits for a reply over UDP, before another attempt; 0: as
	// long as until permits.
	resend time.Duration
}

// Call does one call. sink, if not empty, receives the result item (the opaque that res reads by
// Decoder.Item); res then sees it as sink[:n]. Without a sink the item is part of the message,
// like the other results. extra is added to p.MaxReply, for results with a bound that depends on
// the arguments. The call fails with ErrNoRoom if the item exceeds sink, or results with an item
// exceed that bound, over RDMA and TCP alike. Slices from the Decoder are valid only inside
// DecodeXDR: copy them to keep them. args and res may be nil if there are none.
//
// After Call returns, with or without an error, nothing reads args' memory or writes to sink.
func (c *Client) Call(ctx context.Context, p *Proc, args xdr.Marshaler, res xdr.Unmarshaler, sink []byte, extra int) error {
	return c.CallAs(ctx, nil, p, args, res, sink, extra)
}

// CallAs is Call with as instead of the ClientConfig's Cred or Auth; nil: that.
func (c *Client) CallAs(ctx context.Context, as *Auth, p *Proc, args xdr.Marshaler, res xdr.Unmarshaler, sink []byte, extra int) error {
	_, err := c.CallAnswer(ctx, as, p, args, res, sink, extra)
	return err
}

// CallAnswer is CallAs, and also returns the answering server.
func (c *Client) CallAnswer(ctx context.Context, as *Auth, p *Proc, args xdr.Marshaler, res xdr.Unmarshaler, sink []byte, extra int) (Answer, error) {
	k := c.newOutCall()
	defer k.recycle()
	c.waiting.Add(1)
	defer c.waiting.Add(-1)
	if as == nil {
		as = &c.auth
	}
	k.proc, k.args, k.res, k.sink = p, args, res, sink
	k.cred, k.secure.session = as.opaque, as.session
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

// exchange attempts the call until a reply arrives or the call fails.
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
		k.tries, k.sent, k.resend = try, time.Time{}, c.resendAfter(try)
		err = k.attempt(ctx, l, deadline)
		if err == nil {
			return a, nil
		}
		if err = c.lost(ctx, l, err, try, deadline); err != nil {
			return a, err
		}
	}
}

// connection returns the current connection, or a new one after a loss, and its address.
func (c *Client) connection(ctx context.Context, deadline time.Time) (clientConn, string, error) {
	for {
		c.mu.Lock()
		if c.closing.Err() != nil {
			c.mu.Unlock()
			return nil, "", ErrClosed
		}
		if l, at := c.conn, c.at; l != nil {
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

// newOutCall returns a call with a new XID.
func (c *Client) newOutCall() *outCall {
	k := outCallPool.Get().(*outCall)
	k.xid, k.xids, k.answers = c.xid.Add(1), &c.xid, &c.answers
	return k
}

var outCallPool = newOutCallPool()

func newOutCallPool() *sync.Pool {
	return &sync.Pool{New: func() any {
		k := new(outCall)
		k.expired = time.NewTimer(time.Hour)
		k.expired.Stop()
		k.tooEarlyFunc = k.tooEarly
		k.tcp.ready = make(chan struct{}, 1)
		k.tcp.turn = make(chan struct{}, 1)
		return k
	}}
}

// recycle drops all references to the caller's data.
func (k *outCall) recycle() {
	k.proc, k.args, k.res, k.sink, k.answers, k.xids = nil, nil, nil, nil, nil, nil
	k.secure.clear()
	k.resend = 0
	k.cred, k.callHeader, k.replyHeader = oncrpc.OpaqueAuth{}, oncrpc.CallHeader{}, oncrpc.ReplyHeader{}
	k.callWatch = callWatch{}
	k.enc.Reset(nil)
	k.dec.Reset(nil, nil)
	outCallPool.Put(k)
}

// arm sets the attempt's end; zero: never. arm leaves a timer that fires earlier unchanged, so a
// caller's quickly answered calls need no timer operation each; tooEarly rearms the timer after it
// has fired.
func (k *outCall) arm(until time.Time) {
	k.until = until
	switch {
	case until.IsZero() && k.armed.IsZero():
	case until.IsZero():
		k.expired.Stop() // after Stop the timer's channel is empty
		k.armed = time.Time{}
	case k.armed.IsZero() || k.armed.After(until):
		k.expired.Reset(until.Sub(now()))
		k.armed = until
	}
}

// tooEarly reports whether the timer fired for an earlier call, and rearms it for this one. The
// caller has received from the timer's channel, so the timer fires again only if rearmed. The reply
// can still come now, and the call succeed.
func (k *outCall) tooEarly() bool {
	k.armed = time.Time{}
	left := k.until.Sub(now())
	if left > 0 {
		k.expired.Reset(left)
		k.armed = k.until
	}
	return left > 0
}

// attempt makes one round trip, which ends with errNoAnswer at until, if that is not zero. A live
// connection loses nothing, so a call never ends its connection; watchServer does that. Unlike a
// child context, the timer costs no allocation.
func (k *outCall) attempt(ctx context.Context, l clientConn, until time.Time) error {
	if k.secure.session != nil {
		return k.attemptSecured(ctx, l, until)
	}
	return k.attemptOnce(ctx, l, until)
}

func (k *outCall) attemptOnce(ctx context.Context, l clientConn, until time.Time) error {
	k.arm(until)
	err := l.roundTrip(ctx, k)
	if err != nil && ctx.Err() != nil && isLost(err) {
		return ctx.Err() // ctx takes precedence, and no reconnection is needed
	}
	return err
}

func isLost(err error) bool {
	var lost *lostError
	return errors.As(err, &lost)
}

// encode encodes the call into buf[:0].
func (k *outCall) encode(buf []byte) (err error) {
	k.enc.Reset(buf)
	k.callHeader = oncrpc.CallHeader{XID: k.xid, Prog: k.proc.Prog, Vers: k.proc.Vers, Proc: k.proc.Proc, Cred: k.cred}
	if k.secure.state.By == nil {
		k.callHeader.EncodeXDR(&k.enc)
	} else {
		k.signHeader()
	}
	switch {
	case k.secure.state.covers():
		err = k.encodeSealed()
	case k.args != nil:
		k.args.EncodeXDR(&k.enc)
	}
	k.size = k.enc.Len() + itemBytes(k.enc.Items())
	return err
}

// decode decodes the reply: the header and, for a successful call, the results. reduced means that
// the server had a chunk for the item, and must have used the chunk.
func (k *outCall) decode(stream []byte, items []xdr.Item, reduced bool) error {
	k.answers.Add(1)
	k.received = len(stream) + itemBytes(items)
	d := &k.dec
	d.Reset(stream, items)
	d.SetSink(k.sink)
	k.replyHeader.DecodeXDR(d)
	if d.Err() != nil {
		return fmt.Errorf("%w: %w", ErrBadReply, d.Err())
	}
	if err := k.checkVerifier(); err != nil {
		return err
	}
	if err := k.status(); err != nil {
		return err
	}
	if err := k.openResults(); err != nil {
		return err
	}
	if k.res == nil {
		return nil
	}
	results := d.Remaining()
	k.res.DecodeXDR(d)
	switch {
	case errors.Is(d.Err(), xdr.ErrSink), d.Err() == nil && d.ItemKept() && results > k.maxReply:
		return &roomError{proc: k.proc.Name}
	case d.Err() != nil:
		return fmt.Errorf("%w: results of %s: %w", ErrBadReply, k.proc.Name, d.Err())
	}
	if d.ItemsLeft() > 0 || (reduced && d.SinkUsed()) {
		// The item came by a missing chunk, or outside its chunk (RFC 8166 §6.1 [R8166-190
		// R8166-191]).
		return fmt.Errorf("%w: results of %s: item and chunk do not match", ErrBadReply, k.proc.Name)
	}
	return nil
}

// status returns the error in the reply's header, if any (RFC 5531 §9).
func (k *outCall) status() error {
	h := &k.replyHeader
	switch {
	case h.OK():
		return nil
	case h.Denied && h.Reject == oncrpc.RPCMismatch:
		return &MismatchError{Low: h.Low, High: h.High}
	case h.Denied:
		return &AuthError{Stat: h.Auth}
	}
	switch h.Accept {
	case oncrpc.ProgUnavail:
		return ErrProgUnavail
	case oncrpc.ProgMismatch:
		return &MismatchError{Prog: k.proc.Prog, Low: h.Low, High: h.High}
	case oncrpc.ProcUnavail:
		return ErrProcUnavail
	case oncrpc.GarbageArgs:
		return ErrGarbageArgs
	}
	return ErrSystem
}
