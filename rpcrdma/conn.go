// The connection: its parts and its set-up.

package rpcrdma

import (
	"context"
	"fmt"
	"net"
	"sync"
	"sync/atomic"

	"github.com/nfsrdma/nfsrdma/chunks"
	"github.com/nfsrdma/nfsrdma/rnic"
)

// A Conn is one RPC-over-RDMA connection, requester and responder at once (RFC 8167): each
// message's direction word says which of the two receives it. Any goroutine may call its methods;
// ServeRPC must not call Close.
//
// The two roles share a QP, its receives and its send queue, and nothing else. Each has its own
// credits, tables and lock (requester.mu, responder.mu). The Conn itself holds the state for set-up
// and end.
//
// Lock order: sendWaitlist.mu, then requester.mu; responder.mu, then receives.mu or Budget.mu. No
// role takes the other's lock. No Handler is called, and nothing is posted, under a role's lock.
type Conn struct {
	// Set once, before the connection is in use.
	pd      *rnic.PD // not shared: its STags are valid on this stream only
	cq      *rnic.CQ
	qp      *rnic.QP
	cfg     Config
	private PrivateData   // ours
	kill    chan struct{} // one token: makes watch close the QP
	done    chan struct{} // closed by teardown

	// Each of these parts has its own lock.
	requester requester
	responder responder
	receives  receives
	waitlist  sendWaitlist

	// Set on first use, after set-up.
	thrOnce sync.Once
	thr     Thresholds

	end      atomic.Pointer[ClosedError] // why the connection ended: the first cause
	progress atomic.Int64                // completed signalled work requests
	// posted counts the signalled work requests without a completion, those on the waitlist
	// included.
	posted atomic.Int64

	// Owned by the completion handler's turn.
	in    Header
	batch *batch // the batch being handled; nil: none
}

// Work request ids: the kind in the top byte, an index below it.
const (
	wrRecv  uint64 = iota << 56 // any receive
	wrCall                      // index into requester.calls
	wrReply                     // index into responder.requests
	wrPull                      // index into responder.requests
	// wrUnsignaled marks an unsignalled work request. Only its failure is reported, and then the
	// last one of its batch fails too.
	wrUnsignaled
	wrKindMask = 0xff << 56
)

// Dial connects as an RPC client (active side). A Handler in cfg serves the peer's calls in the
// reverse direction.
func Dial(ctx context.Context, dev *rnic.Device, addr string, cfg Config) (*Conn, error) {
	return dial(cfg, dev, func(c *Conn) error { return dev.Connect(ctx, c.qp, addr, c.params()) })
}

// DialOver is Dial over an existing connection, for example TLS. The Conn owns over afterwards; on
// an error DialOver closes over.
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
	if err := c.requester.start(); err != nil {
		return nil, c.abandon(err)
	}
	if err := connect(c); err != nil {
		return nil, c.abandon(err)
	}
	go c.watch()
	return c, nil
}

// Accept takes an inbound connection (passive side): posts receives, then accepts.
func Accept(dev *rnic.Device, req rnic.ConnRequest, cfg Config) (*Conn, error) {
	c, err := newConn(dev, cfg)
	if err != nil {
		return nil, err
	}
	c.responder.client = addressOf(req.RemoteAddr())
	if err := req.Accept(c.qp, c.params()); err != nil {
		return nil, c.abandon(err)
	}
	go c.watch()
	return c, nil
}

// newConn makes the verbs objects and posts the responder's receives.
func newConn(dev *rnic.Device, cfg Config) (*Conn, error) {
	if caps := dev.Caps(); !caps.Reliable || !caps.RDMARead || caps.Services&(1<<rnic.RC) == 0 {
		return nil, fmt.Errorf("%w: %s", ErrUnreliable, caps.Provider)
	}
	cfg.setDefaults()
	c := &Conn{
		pd:      dev.AllocPD(),
		cfg:     cfg,
		private: PrivateData{RemoteInvalidate: true, SendSize: cfg.InlineSize, RecvSize: cfg.InlineSize},
		kill:    make(chan struct{}, 1),
		done:    make(chan struct{}),
	}
	c.receives.buffers = receiveBuffers(max(cfg.InlineSize, linuxInlineSize))
	c.requester.init(c)
	c.responder.init(c)
	sq, rq := c.depths()
	c.cq = dev.NewCQ(sq + rq)
	qpc := rnic.QPConfig{SendCQ: c.cq, RecvCQ: c.cq, SQDepth: sq, RQDepth: rq}
	if cfg.Handler == nil { // with a Handler, a call from the peer needs a receiver at any time
		qpc.Waiting = c.requester.anyPending
	}
	qp, err := c.pd.CreateQP(qpc)
	if err != nil {
		return nil, err
	}
	c.qp = qp
	c.cq.SetLeader(c.onCompletions)
	if err := c.receives.add(qp, c.responder.grant.receives); err != nil {
		return nil, c.abandon(err)
	}
	return c, nil
}

// depths returns the queue sizes: for each credit a call, or some Reads, some Writes and a reply.
// The send queue also has room for the largest reply, MaxWriteSegments long: a batch that can never
// fit would block all work after it.
func (c *Conn) depths() (sq, rq int) {
	return 4*c.cfg.MaxCredits + 2*chunks.MaxWriteSegments + recvSlack, c.cfg.MaxCredits + c.cfg.Credits + recvSlack
}

func (c *Conn) params() rnic.ConnParams {
	return rnic.ConnParams{PrivateData: AppendPrivateData(nil, c.private)}
}

// abandon undoes newConn when set-up fails.
func (c *Conn) abandon(err error) error {
	c.qp.Close()
	return err
}

// thresholds returns the inline thresholds agreed at set-up.
func (c *Conn) thresholds() Thresholds {
	c.thrOnce.Do(func() {
		peers, _ := ParsePrivateData(c.qp.PrivateData())
		c.thr = agree(c.private, peers)
	})
	return c.thr
}

// An Info holds the values agreed at set-up and the current credits of both directions.
type Info struct {
	Thresholds  Thresholds // the inline thresholds, in bytes with the header
	IRD, ORD    int        // RDMA Reads at once: the peer's from our memory, ours from the peer's
	Credits     int        // concurrent calls granted by the peer's last reply; 1 before the first
	Granted     int        // concurrent calls that we grant the peer
	InUse       int        // the peer's accepted calls that are still being served
	PrivateData bool       // the peer sent its sizes (RFC 8797)
	CRC         bool       // sent data has CRCs, received CRCs are checked
}

// Info describes the connection's current state.
func (c *Conn) Info() Info {
	i := Info{Thresholds: c.thresholds(), IRD: c.qp.IRD(), ORD: c.qp.ORD(), CRC: c.qp.CRC()}
	i.Credits = c.requester.granted()
	_, i.PrivateData = ParsePrivateData(c.qp.PrivateData())
	rs := &c.responder
	rs.mu.Lock()
	defer rs.mu.Unlock()
	i.Granted, i.InUse = rs.grant.announced, rs.serving
	return i
}
