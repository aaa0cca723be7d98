// The connection: set-up, its end, and what comes out of the completion queue.

package rpcrdma

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nfsrdma/nfsrdma/chunks"
	"github.com/nfsrdma/nfsrdma/rnic"
)

// What a Conn is made of beside the Config.
const (
	recvSlack    = 8                // receives beyond the credits, for messages that are dropped
	stallTick    = 10 * time.Second // how often the end of all progress is looked for
	stallTicks   = 6                // so many in a row end the connection
	drainTimeout = time.Second      // for replies under way when Close is called
	sendGrace    = 5 * time.Second  // for a cancelled call to leave the send queue, as long as the peer takes nothing
	slowest      = 16 << 10         // bytes that a peer has to move within stallTicks, or within sendGrace, to count as alive
)

// A Conn is one RPC-over-RDMA connection, requester and responder at once
// (RFC 8167): the direction word of each message says which of the two it is for.
// Its methods may be called from any goroutine; Close not from ServeRPC.
//
// Lock order: sendLine.mu, Conn.mu, Budget.mu. No Handler is called, and nothing is
// posted, with Conn.mu held.
type Conn struct {
	// Set once, before the connection lives.
	pd      *rnic.PD
	cq      *rnic.CQ
	qp      *rnic.QP
	cfg     Config
	account *account         // what the responder holds of cfg.Budget
	buffers *rnic.BufferPool // of receives, and of the streams of replies
	private PrivateData      // ours
	client  netip.Addr       // whose calls are remembered in cfg.Fatal
	kill    chan struct{}
	done    chan struct{}

	calling    sync.Once // posts the receives for replies
	callingErr error     // why that failed; written by calling

	thrOnce sync.Once
	thr     Thresholds

	progress atomic.Int64 // signalled work requests that have completed
	posted   atomic.Int64 // signalled work requests not completed yet

	// Owned by the completion handler, which runs once at a time.
	wcs [32]rnic.WC
	in  Header

	mu        sync.Mutex // guards all that follows
	err       error      // why the connection ended; latched by fail
	recvs     []*recvCtx
	credits   credits
	pending   pendingCalls
	calls     []*Call // all of them, by index
	idle      *Call   // those to use again
	abandoned int     // calls that hold a credit though Do has given up on them
	answers   int64   // calls that were answered
	responder
	written suspects // STags of late
	grant   grants

	line sendLine // has a lock of its own
}

// A recvCtx is one receive and its place in Conn.recvs. It is posted, or it
// belongs to the Request or Call whose message it holds.
type recvCtx struct {
	id  uint64
	buf []byte // of Conn.buffers; nil while it is posted
	n   int    // octets received
}

// Work request ids: what a completion is for, and the index of it.
const (
	wrRecv uint64 = iota << 56
	wrCall
	wrReply
	wrPull
	wrQuiet    // not signalled: says something only when it fails, and then the last of its batch does too
	wrKindMask = 0xff << 56
)

// Dial connects as RPC client (active side). A Handler in cfg serves the calls
// that the peer may make in the reverse direction.
func Dial(ctx context.Context, dev *rnic.Device, addr string, cfg Config) (*Conn, error) {
	return dial(cfg, dev, func(c *Conn) error { return dev.Connect(ctx, c.qp, addr, c.params()) })
}

// DialOver is Dial on a connection that is there already, TLS for one. It belongs
// to the Conn afterwards, and is closed when there is an error.
func DialOver(ctx context.Context, dev *rnic.Device, over net.Conn, cfg Config) (*Conn, error) {
	c, err := dial(cfg, dev, func(c *Conn) error { return dev.ConnectOver(ctx, c.qp, over, c.params()) })
	if err != nil {
		over.Close()
	}
	return c, err
}

func dial(cfg Config, dev *rnic.Device, connect func(*Conn) error) (*Conn, error) {
	c, err := newConn(dev, cfg)
	if err != nil {
		return nil, err
	}
	if err := c.startCalling(); err != nil {
		return nil, c.abandon(err)
	}
	if err := connect(c); err != nil {
		return nil, c.abandon(err)
	}
	go c.watch()
	return c, nil
}

// Accept takes an inbound connection (passive side): posts receives, then accepts.
func Accept(dev *rnic.Device, req *rnic.ConnRequest, cfg Config) (*Conn, error) {
	c, err := newConn(dev, cfg)
	if err != nil {
		return nil, err
	}
	c.client = addressOf(req.RemoteAddr())
	if err := req.Accept(c.qp, c.params()); err != nil {
		return nil, c.abandon(err)
	}
	go c.watch()
	return c, nil
}

// newConn makes the verbs objects and posts the responder's receives.
func newConn(dev *rnic.Device, cfg Config) (*Conn, error) {
	cfg.setDefaults()
	c := &Conn{
		pd:      dev.AllocPD(), // of its own: so its STags are this stream's alone
		cfg:     cfg,
		buffers: receiveBuffers(max(cfg.InlineSize, DefaultInlineSize)), // Linux sends that much whatever it was told
		private: PrivateData{RemoteInvalidate: true, SendSize: cfg.InlineSize, RecvSize: cfg.InlineSize},
		kill:    make(chan struct{}, 1),
		done:    make(chan struct{}),
		credits: newCredits(cfg.Credits),
		grant:   newGrants(cfg.Credits),
	}
	c.account = cfg.Budget.open(c.budgetServed)
	c.pending.init(cfg.Credits)
	sq, rq := c.depths()
	c.cq = dev.NewCQ(sq + rq)
	qp, err := c.pd.CreateQP(rnic.QPConfig{SendCQ: c.cq, RecvCQ: c.cq, SQDepth: sq, RQDepth: rq})
	if err != nil {
		return nil, err
	}
	c.qp = qp
	c.cq.SetHandler(c.onCompletions)
	n := recvSlack
	if cfg.Handler != nil {
		n += cfg.Credits
	}
	c.grant.receives = n
	if err := c.addReceives(n); err != nil {
		return nil, c.abandon(err)
	}
	return c, nil
}

// depths sizes the queues: for each credit a call, or some Reads, some Writes
// and a reply; and room for the most segments that one reply may have, for a
// batch that can never fit would stand in the way of all.
func (c *Conn) depths() (sq, rq int) {
	return 4*c.cfg.MaxCredits + 2*chunks.MaxWriteSegments + recvSlack, c.cfg.MaxCredits + c.cfg.Credits + recvSlack
}

func (c *Conn) params() rnic.ConnParams {
	return rnic.ConnParams{PrivateData: AppendPrivateData(nil, c.private)}
}

// abandon undoes newConn when the connection does not come about.
func (c *Conn) abandon(err error) error {
	c.qp.Close()
	return err
}

// addReceives posts n more receives. Their buffers are those of the messages that arrive.
func (c *Conn) addReceives(n int) error {
	ctxs := make([]recvCtx, n)
	wrs := make([]rnic.RecvWR, n)
	c.mu.Lock()
	c.recvs = slices.Grow(c.recvs, n)
	for i := range wrs {
		r := &ctxs[i]
		r.id = wrRecv | uint64(len(c.recvs))
		c.recvs = append(c.recvs, r)
		wrs[i] = rnic.RecvWR{ID: r.id, Pool: c.buffers}
	}
	c.mu.Unlock()
	return c.qp.PostRecv(wrs...)
}

// repost gives a receive back to the receive queue, and its buffer to the pool (R8166-032). After
// the end of the connection that fails, and nobody needs it.
func (c *Conn) repost(r *recvCtx) {
	c.buffers.Put(r.buf)
	r.buf = nil
	if !c.retire(r) {
		_ = c.qp.PostRecv(rnic.RecvWR{ID: r.id, Pool: c.buffers})
	}
}

// thresholds are what both sides agreed on.
func (c *Conn) thresholds() Thresholds {
	c.thrOnce.Do(func() {
		peers, _ := ParsePrivateData(c.qp.PrivateData())
		c.thr = Agree(c.private, peers)
	})
	return c.thr
}

// onCompletions empties the completion queue. It runs on a loop of the QP.
func (c *Conn) onCompletions() {
	for {
		n := c.cq.Poll(c.wcs[:])
		if n == 0 {
			return
		}
		for i := range c.wcs[:n] {
			c.complete(&c.wcs[i])
		}
		c.postWaiting()
	}
}

func (c *Conn) complete(wc *rnic.WC) {
	ok := wc.Status == rnic.WCSuccess
	index := int(wc.ID &^ wrKindMask)
	switch wc.ID & wrKindMask {
	case wrRecv:
		if !ok {
			return // flushed: watch ends the connection
		}
		c.mu.Lock()
		r := c.recvs[index]
		c.mu.Unlock()
		r.buf, r.n = wc.Buf, int(wc.Len)
		c.receive(r)
	case wrCall:
		c.workDone()
		c.callSent(index)
	case wrReply:
		c.workDone()
		c.replySent(index, ok)
	case wrPull:
		c.workDone()
		c.pulled(index, ok)
	}
}

// workDone notes that a signalled work request has completed.
func (c *Conn) workDone() {
	c.posted.Add(-1)
	c.progress.Add(1)
}

// fail latches the first reason for the end of the connection and lets watch
// end it. It never blocks.
func (c *Conn) fail(err error) {
	c.mu.Lock()
	if c.err == nil {
		c.err = &ClosedError{Cause: err}
	}
	c.mu.Unlock()
	select {
	case c.kill <- struct{}{}:
	default:
	}
}

// watch waits for the end of the QP and then ends everything that hangs on it.
// It also ends a connection whose peer has let all work stand still, so that
// nobody can hold memory for ever. It is the Conn's one goroutine.
func (c *Conn) watch() {
	tick := time.NewTicker(c.cfg.stall)
	defer tick.Stop()
	var work, window stall
	for {
		select {
		case <-c.qp.Done():
			c.teardown()
			return
		case <-c.kill:
			c.qp.Close()
		case <-tick.C:
			if work.tick(c.posted.Load() > 0, c.progress.Load(), c.qp.Moved()) {
				c.fail(errStalled)
			}
			if wedged, replies := c.windowAbandoned(); window.tick(wedged, replies, 0) {
				c.fail(errAbandoned)
			}
		}
	}
}

// teardown runs when no work is left with the RNIC.
func (c *Conn) teardown() {
	c.fail(c.qp.Err())
	c.qp.Close()
	c.blameWritten()
	c.dropRequests()
	c.failCalls()
	close(c.done)
}

// Close ends the connection: what has been posted is sent, then all calls and
// requests fail. It returns when the connection's goroutines are gone.
func (c *Conn) Close() error {
	c.mu.Lock()
	first := c.err == nil
	if first {
		c.err = &ClosedError{}
	}
	c.mu.Unlock()
	if first {
		ctx, cancel := context.WithTimeout(context.Background(), drainTimeout)
		_ = c.qp.Disconnect(ctx) // in good order if the peer plays along; else cut off below
		cancel()
		select {
		case c.kill <- struct{}{}:
		default:
		}
	}
	<-c.done
	return nil
}

// Abort begins to end the connection at once, without what Close waits for, and
// does not wait itself; err is the cause that Err gives unless it ended before.
func (c *Conn) Abort(err error) { c.fail(err) }

// Done is closed when the connection has ended and holds nothing any more.
func (c *Conn) Done() <-chan struct{} { return c.done }

// Err is nil while the connection lives, then a *ClosedError with the cause.
func (c *Conn) Err() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.err
}

// RemoteAddr is the peer's address.
func (c *Conn) RemoteAddr() net.Addr { return c.qp.RemoteAddr() }

// LocalAddr is our address.
func (c *Conn) LocalAddr() net.Addr { return c.qp.LocalAddr() }

// postError maps what PostSend says of a connection that has ended.
func (c *Conn) postError(err error) error {
	if cause := c.Err(); cause != nil {
		return cause
	}
	return &ClosedError{Cause: c.cause(err)}
}

// cause is why PostSend failed: where the QP has ended, that it cannot be posted
// to is not the reason but a sequel of it.
func (c *Conn) cause(err error) error {
	if first := c.qp.Err(); first != nil && errors.Is(err, rnic.ErrState) {
		return first
	}
	return err
}
