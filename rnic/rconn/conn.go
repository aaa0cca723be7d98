// The connection: its parts, its start, and its methods' errors.

package rconn

import (
	"errors"
	"io"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/nfsrdma/nfsrdma/rnic"
)

// A Conn is a net.Conn over RDMA. Any goroutine may call its methods.
type Conn struct {
	// set once
	network       string
	linger        time.Duration
	qp            *rnic.QP
	recvs, sends  *rnic.CQ // recvs has a handler; sends is polled under out.mu
	region        *rnic.MR
	memory        []byte // our ring
	peer          hello  // set before the first message
	immediate     bool   // data is announced by Immediate Data
	local, remote net.Addr
	answered      func() bool // no Read waits, or it must not; for PollUntil

	readDeadline, writeDeadline deadline

	readers sync.Mutex // held by Read
	writers sync.Mutex // held by Write; taken before out.mu

	// readWake and writeWake hold one token: the waiting Read or Write looks again.
	readWake, writeWake chan struct{}
	readWaits           atomic.Bool // a Read waits for a message; written under mu
	writeWaits          atomic.Bool // a Write waits for the peer's ring; written under mu

	mu      sync.Mutex
	flow    flow  // guarded by mu
	err     error // guarded by mu; not nil: the connection has ended
	closed  bool  // guarded by mu; Close was called
	noWrite bool  // guarded by mu; Close or CloseWrite was called

	out outbound // has its own lock, taken before mu

	// owned by the handler of recvs
	wcs     [16]rnic.WC
	reposts [16]rnic.RecvWR

	closing sync.Once
	ended   chan struct{} // closed when Close has finished
}

// messages has the buffers for all receives: a waiting connection has none.
var messages = rnic.NewBufferPool(messageLen)

// newConn returns an unconnected Conn: the provider connects it, and start follows.
func newConn(network string, cfg *Config) (*Conn, error) {
	dev := cfg.Device
	c := &Conn{network: network, linger: cfg.Linger, immediate: dev.Caps().ImmediateData, memory: make([]byte, cfg.Ring),
		readWake: make(chan struct{}, 1), writeWake: make(chan struct{}, 1), ended: make(chan struct{})}
	c.answered = func() bool { return !c.readWaits.Load() || c.readDeadline.passed() }
	c.readDeadline.wake = func() { wake(c.readWake); c.qp.RecallReceiver() }
	c.writeDeadline.wake = func() { wake(c.writeWake); c.out.nudge.now() }
	c.out.nudge.init()
	pd := dev.AllocPD() // one for each connection: a peer cannot reach another's ring
	depth := 2*dataRecords + controlRecords + 1
	c.recvs, c.sends = dev.NewCQ(ownReceives), dev.NewCQ(depth)
	qp, err := pd.CreateQP(rnic.QPConfig{SendCQ: c.sends, RecvCQ: c.recvs, SQDepth: depth, RQDepth: ownReceives,
		Waiting: func() bool { return c.readWaits.Load() || c.writeWaits.Load() }})
	if err != nil {
		return nil, err
	}
	c.qp = qp
	if c.region, err = pd.RegMR(c.memory, rnic.RemoteWrite); err != nil {
		qp.Close()
		return nil, err
	}
	c.region.Bind(qp)
	for range ownReceives {
		if err := qp.PostRecv(rnic.RecvWR{Pool: messages}); err != nil {
			c.discard()
			return nil, err
		}
	}
	return c, nil
}

// hello returns our hello, as private data.
func (c *Conn) hello() []byte {
	return appendHello(nil, hello{uint32(len(c.memory)), uint32(c.region.STag()), c.region.Base(), ownReceives})
}

// expect sets the peer's hello. It comes before start.
func (c *Conn) expect(peer hello) {
	c.peer = peer
	c.flow = newFlow(uint32(len(c.memory)), ownReceives, peer)
}

// start begins to receive on a connected QP.
func (c *Conn) start() {
	c.local, c.remote = c.qp.LocalAddr(), c.qp.RemoteAddr()
	c.recvs.SetHandler(c.handle)
}

// discard ends the QP at once, and frees the ring.
func (c *Conn) discard() {
	c.qp.Close()
	c.region.Dereg()
}

// wake puts the token into ch, unless it is there.
func wake(ch chan struct{}) {
	select {
	case ch <- struct{}{}:
	default:
	}
}

// LocalAddr returns our address.
func (c *Conn) LocalAddr() net.Addr { return c.local }

// RemoteAddr returns the peer's address.
func (c *Conn) RemoteAddr() net.Addr { return c.remote }

// SetDeadline sets both deadlines, as net.Conn describes them.
func (c *Conn) SetDeadline(t time.Time) error {
	if err := c.SetReadDeadline(t); err != nil {
		return err
	}
	return c.SetWriteDeadline(t)
}

// SetReadDeadline sets the time after which Read fails with os.ErrDeadlineExceeded; the zero time
// means never.
func (c *Conn) SetReadDeadline(t time.Time) error { return c.setDeadline(&c.readDeadline, t) }

// SetWriteDeadline sets the time after which Write fails with os.ErrDeadlineExceeded; the zero time
// means never. A Write can have written a part of its bytes.
func (c *Conn) SetWriteDeadline(t time.Time) error { return c.setDeadline(&c.writeDeadline, t) }

func (c *Conn) setDeadline(d *deadline, t time.Time) error {
	c.mu.Lock()
	closed := c.closed
	c.mu.Unlock()
	if closed {
		return c.opError("set", net.ErrClosed)
	}
	d.set(t)
	return nil
}

// opError describes a failed method of the connection.
func (c *Conn) opError(op string, err error) error {
	return &net.OpError{Op: op, Net: c.network, Source: c.local, Addr: c.remote, Err: err}
}

// fail ends the connection for all waiting methods; the first cause counts.
func (c *Conn) fail(err error) {
	c.mu.Lock()
	if c.err == nil {
		c.err = err
	}
	c.mu.Unlock()
	c.wakeAll()
}

// abort is fail, and ends the QP.
func (c *Conn) abort(err error) {
	c.fail(err)
	c.qp.Abort(err)
}

// wakeAll makes all waiting methods look at the state again.
func (c *Conn) wakeAll() {
	c.readWaits.Store(false)
	c.writeWaits.Store(false)
	wake(c.readWake)
	wake(c.writeWake)
	c.out.nudge.now()
	c.qp.RecallReceiver()
}

// causeOf returns the connection's error after its QP has ended with err. An end without a message
// before it is a reset.
func causeOf(err error) error {
	if err == nil || err == io.EOF || errors.Is(err, rnic.ErrConnLost) || errors.Is(err, rnic.ErrClosed) {
		return os.NewSyscallError("rdma", syscall.ECONNRESET)
	}
	return err
}
