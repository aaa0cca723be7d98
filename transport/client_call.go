// An outbound call: its state, and decoding its reply.

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
	tcp          tcpCall     // state of an attempt over TCP
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
