// The connection: what it is made of, and how it is set up.

package rpcrdma

import (
	"context"
	"fmt"
	"net"
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
	stallTicks   = 6                // this many in a row end the connection
	drainTimeout = time.Second      // for replies under way when Close is called
	sendGrace    = 5 * time.Second  // for a cancelled call to leave the send queue, as long as the peer takes nothing
	slowest      = 16 << 10         // bytes that a peer has to move within stallTicks, or within sendGrace, to count as alive
)

// A Conn is one RPC-over-RDMA connection, requester and responder at once
// (RFC 8167): the direction word of each message says which of the two it is for.
// Its methods may be called from any goroutine; Close not from ServeRPC.
//
// The two roles share a QP, its receives and its send queue, and nothing else: each
// has its own credits, tables and lock (requester.mu, responder.mu). The Conn itself
// holds what set-up and end need.
//
// Lock order: sendLine.mu, then requester.mu; responder.mu, then receives.mu or
// Budget.mu. No role takes the other's lock. No Handler is called, and nothing is
// posted, with a role's lock held.
type Conn struct {
	// Set once, before the connection lives.
	pd      *rnic.PD // of its own: so its STags are this stream's alone
	cq      *rnic.CQ
	qp      *rnic.QP
	cfg     Config
	private PrivateData   // ours
	kill    chan struct{} // one token: watch ends the QP
	done    chan struct{} // closed by teardown

	// Each has a lock of its own.
	requester requester
	responder responder
	receives  receives
	line      sendLine

	// Asked for when set-up is over.
	thrOnce sync.Once
	thr     Thresholds

	end      atomic.Pointer[ClosedError] // why the connection ended; the first one stays
	progress atomic.Int64                // signalled work requests that have completed
	posted   atomic.Int64                // signalled work requests not completed yet, those in line among them

	// Owned by the completion handler, which runs once at a time.
	in Header
}

// Work request ids: what a completion is for, and the index of it.
const (
	wrRecv     uint64 = iota << 56 // any of the receives
	wrCall                         // index into requester.calls
	wrReply                        // index into responder.requests
	wrPull                         // the same
	wrQuiet                        // not signalled: says something only when it fails, and then the last of its batch does too
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
	if cfg.Handler == nil { // else a call of the peer's could find nobody to take it in
		qpc.Waiting = c.requester.anyPending
	}
	qp, err := c.pd.CreateQP(qpc)
	if err != nil {
		return nil, err
	}
	c.qp = qp
	c.cq.SetHandler(c.onCompletions)
	if err := c.receives.add(qp, c.responder.grant.receives); err != nil {
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

// thresholds are what both sides agreed on.
func (c *Conn) thresholds() Thresholds {
	c.thrOnce.Do(func() {
		peers, _ := ParsePrivateData(c.qp.PrivateData())
		c.thr = agree(c.private, peers)
	})
	return c.thr
}

// An Info is what was agreed on at set-up, and the credits of both directions at this moment.
type Info struct {
	Thresholds  Thresholds // the inline thresholds, in bytes with the header
	IRD, ORD    int        // RDMA Reads at once: the peer's of our memory, ours of the peer's
	Credits     int        // calls at once that the peer granted with its last reply; 1 before the first
	Granted     int        // calls at once that we grant the peer
	InUse       int        // of those: calls taken in whose service has not ended
	PrivateData bool       // the peer has told its sizes (RFC 8797)
	CRC         bool       // what is sent has CRCs, which are checked
}

// Info describes a connection as it is now.
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
