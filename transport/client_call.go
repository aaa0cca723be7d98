// One outbound call: its state while it is under way, and its reply.

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

// An outCall is one call of a Client, through all its attempts.
type outCall struct {
	xid      uint32
	proc     *Proc
	cred     oncrpc.OpaqueAuth
	args     xdr.Marshaler
	res      xdr.Unmarshaler
	sink     []byte
	maxReply int
	answers  *atomic.Uint64 // of its Client: each reply that comes is counted
	callWatch

	head oncrpc.CallHeader
	back oncrpc.ReplyHeader
	enc  xdr.Encoder
	dec  xdr.Decoder

	expired *time.Timer // ends an attempt, unless it fires too early
	until   time.Time   // when an attempt is to end; zero: never
	armed   time.Time   // when the timer fires, or has; zero: it is stopped
	early   func() bool // tooEarly: made once
	tcp     tcpCall     // state of an attempt over TCP
}

var outCallPool = newOutCallPool()

func newOutCallPool() *sync.Pool {
	return &sync.Pool{New: func() any {
		k := new(outCall)
		k.expired = time.NewTimer(time.Hour)
		k.expired.Stop()
		k.early = k.tooEarly
		k.tcp.ready = make(chan struct{}, 1)
		k.tcp.turn = make(chan struct{}, 1)
		return k
	}}
}

// recycle forgets all that the caller gave.
func (k *outCall) recycle() {
	k.proc, k.args, k.res, k.sink, k.answers = nil, nil, nil, nil, nil
	k.cred, k.head, k.back = oncrpc.OpaqueAuth{}, oncrpc.CallHeader{}, oncrpc.ReplyHeader{}
	k.callWatch = callWatch{}
	k.enc.Reset(nil)
	k.dec.Reset(nil, nil)
	outCallPool.Put(k)
}

// arm sets when the attempt ends; zero: never. A timer that is set to an earlier time is left so: a
// caller of many calls, each of which is answered long before, does not set it for each, and
// tooEarly sets it right when it fires.
func (k *outCall) arm(until time.Time) {
	k.until = until
	switch {
	case until.IsZero() && k.armed.IsZero():
	case until.IsZero():
		k.expired.Stop() // nothing is received from its channel after that
		k.armed = time.Time{}
	case k.armed.IsZero() || k.armed.After(until):
		k.expired.Reset(until.Sub(now()))
		k.armed = until
	}
}

// tooEarly reports whether the timer was that of an earlier call: then it is set to the time of
// this one. The caller has received from its channel, so that it fires no more unless it is set:
// the reply can come at this moment all the same, and the call succeed.
func (k *outCall) tooEarly() bool {
	k.armed = time.Time{}
	left := k.until.Sub(now())
	if left > 0 {
		k.expired.Reset(left)
		k.armed = k.until
	}
	return left > 0
}

// attempt is one round trip that ends with errNoAnswer at until, if that is not
// zero. Nothing that was sent on a connection is lost while it lives, so it is not
// for the call to end one; see watchServer. The timer, unlike a child of ctx, costs no allocation.
func (k *outCall) attempt(ctx context.Context, l link, until time.Time) error {
	k.arm(until)
	err := l.roundTrip(ctx, k)
	if err != nil && ctx.Err() != nil && isLost(err) {
		return ctx.Err() // it comes first, and nobody waits for a new connection
	}
	return err
}

func isLost(err error) bool {
	var lost *lostError
	return errors.As(err, &lost)
}

// encode appends the call to buf[:0].
func (k *outCall) encode(buf []byte) {
	k.enc.Reset(buf)
	k.head = oncrpc.CallHeader{XID: k.xid, Prog: k.proc.Prog, Vers: k.proc.Vers, Proc: k.proc.Proc, Cred: k.cred}
	k.head.EncodeXDR(&k.enc)
	if k.args != nil {
		k.args.EncodeXDR(&k.enc)
	}
	k.size = k.enc.Len() + itemBytes(k.enc.Items())
}

// decode reads the reply: the header, and what follows it where the call
// succeeded. reduced tells that the server had to put the item into the sink itself.
func (k *outCall) decode(stream []byte, items []xdr.Item, reduced bool) error {
	k.answers.Add(1)
	k.received = len(stream) + itemBytes(items)
	d := &k.dec
	d.Reset(stream, items)
	d.SetSink(k.sink)
	k.back.DecodeXDR(d)
	if d.Err() != nil {
		return fmt.Errorf("%w: %w", ErrBadReply, d.Err())
	}
	if err := k.status(); err != nil {
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
		// An item came by a chunk that does not exist, or not by the one it had (RFC 8166 §6.1
		// [R8166-190 R8166-191]).
		return fmt.Errorf("%w: results of %s: item and chunk do not match", ErrBadReply, k.proc.Name)
	}
	return nil
}

// status is the error that the reply's header tells of, if any (RFC 5531 §9).
func (k *outCall) status() error {
	h := &k.back
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
