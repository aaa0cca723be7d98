// MPA start-up as responder (RFC 5044 §7.1.2, RFC 6581).

package iwarp

import (
	"container/list"
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/nfsrdma/nfsrdma/rnic"
	"github.com/nfsrdma/nfsrdma/rnic/iwarp/core"
	"github.com/nfsrdma/nfsrdma/rnic/iwarp/mpa"
)

// A listener takes connection requests.
type listener struct {
	// set once
	p          *provider
	nl         net.Listener
	had        string // the listening socket's former congestion control; see pace
	ready      chan *connRequest
	slots      chan struct{} // one slot for each request waiting for Accept
	done       chan struct{}
	loop       sync.WaitGroup // acceptLoop, which alone adds to handshakes
	handshakes sync.WaitGroup
	inbound    atomic.Pointer[func(net.Conn) (net.Conn, error)] // nil: none

	mu      sync.Mutex
	closed  error     // cause of the end, set before done is closed; guarded by mu like startup
	startup list.List // of net.Conn: connections in start-up, oldest first
}

// Listen listens on TCP. MPA start-up of each inbound connection runs on a goroutine, with the
// handshake deadline; Accept returns only complete, valid requests. At most
// DeviceConfig.MaxHandshakes connections are in start-up at once. When one more comes, the oldest
// connection in start-up is closed: an honest peer sends its Request at once, and must not wait for
// silent ones. As many complete requests may wait for Accept; further ones are closed.
func (p *provider) Listen(_ rnic.Service, network, addr string) (rnic.Listener, error) {
	// No multipath TCP: MPA sizes its FPDUs by the MSS of one TCP connection, and the owner of the
	// peer's socket can be looked up for one pair of ports.
	var c net.ListenConfig
	c.SetMultipathTCP(false)
	nl, err := c.Listen(context.Background(), network, addr)
	if err != nil {
		return nil, err
	}
	return p.ListenOn(nl), nil
}

// ListenOn is Listen on a net.Listener, closed with the returned Listener.
func (p *provider) ListenOn(nl net.Listener) rnic.Listener {
	l := &listener{p: p, nl: nl, had: unpaceListener(nl), ready: make(chan *connRequest),
		slots: make(chan struct{}, p.cfg.MaxHandshakes), done: make(chan struct{})}
	l.loop.Go(l.acceptLoop)
	return l
}

// acceptLoop starts one handshake for each connection.
func (l *listener) acceptLoop() {
	pause := time.Millisecond
	for {
		c, err := l.nl.Accept()
		if err != nil && !passing(err) {
			l.handshakes.Wait() // Accept may still return requests from these handshakes
			_ = l.end(fmt.Errorf("rnic: listener: %w", err))
			return
		}
		if err != nil {
			select {
			case <-l.done:
				return
			case <-time.After(pause):
				pause = min(2*pause, time.Second)
			}
			continue
		}
		pause = time.Millisecond
		pace(c, l.had)
		c.SetDeadline(time.Now().Add(l.p.handshakeTimeout(acceptTimeout)))
		// A peer that connects and sends nothing costs a descriptor and a goroutine. The number of
		// connections in start-up is bounded, and the oldest is closed, so that silent peers cannot
		// keep others out.
		e := l.begin(c)
		if e == nil {
			c.Close()
			continue
		}
		l.handshakes.Go(func() { l.handshake(c, e) })
	}
}

// passing reports whether accepting failed for lack of a resource. It may become free, so a retry
// makes sense.
func passing(err error) bool {
	var temporary interface{ Temporary() bool }
	return errors.As(err, &temporary) && temporary.Temporary() ||
		errors.Is(err, syscall.ENOBUFS) || errors.Is(err, syscall.ENOMEM)
}

// handshake reads the Request of one connection. After a malformed Request the connection is closed
// with nothing sent (RFC 5044 §7.1.2 [R5044-123]).
func (l *listener) handshake(c net.Conn, e *list.Element) {
	raw := c
	c, err := l.replaced(c)
	var f mpa.Frame
	var rest []byte
	if err == nil {
		f, rest, err = readFrame(c, false)
	}
	// An initiator waits for the Reply before it sends FPDUs (RFC 5044 §7.1.2): an earlier FPDU
	// would precede the agreement on its modes.
	if err == nil && len(rest) > 0 {
		err = mpa.ErrEarly
	}
	if !l.begun(e) || err != nil { // from here on this goroutine alone has c
		raw.Close()
		return
	}
	c.SetDeadline(time.Time{})
	select {
	// Slots bound the requests waiting for Accept, and so their descriptors. A connection beyond
	// the bound is closed, so that its peer can retry rather than wait unseen.
	case l.slots <- struct{}{}:
		defer func() { <-l.slots }()
	default: // Accept does not keep up
		c.Close()
		return
	}
	select {
	case l.ready <- &connRequest{p: l.p, conn: c, frame: f}:
	case <-l.done:
		c.Close()
	}
}

// replaced returns the connection for MPA: c, or the one that the function from Inbound makes of
// it.
func (l *listener) replaced(c net.Conn) (net.Conn, error) {
	if in := l.inbound.Load(); in != nil {
		return (*in)(c)
	}
	return c, nil
}

// Inbound implements rnic.StreamListener.
func (l *listener) Inbound(f func(net.Conn) (net.Conn, error)) { l.inbound.Store(&f) }

var _ rnic.StreamListener = (*listener)(nil)

// begin adds a connection to those in start-up, and closes the oldest if there are too many. It
// returns nil once the listener is closed.
func (l *listener) begin(c net.Conn) *list.Element {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed != nil {
		return nil
	}
	if l.startup.Len() >= l.p.cfg.MaxHandshakes {
		oldest := l.startup.Front()
		oldest.Value.(net.Conn).SetDeadline(past)
		l.startup.Remove(oldest)
		oldest.Value = nil
	}
	return l.startup.PushBack(c)
}

// begun removes a connection from those in start-up. It returns false if begin or end has done so.
func (l *listener) begun(e *list.Element) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if e.Value == nil {
		return false
	}
	l.startup.Remove(e)
	return true
}

// Accept returns the next connection request. It fails with ctx's error when ctx ends, with
// rnic.ErrClosed after Close, and with the cause when the listener below has ended by itself.
func (l *listener) Accept(ctx context.Context) (rnic.ConnRequest, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	select {
	case r := <-l.ready:
		return r, nil
	case <-l.done:
		l.mu.Lock()
		defer l.mu.Unlock()
		return nil, l.closed
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// Addr returns the listener's TCP address.
func (l *listener) Addr() net.Addr { return l.nl.Addr() }

// Close stops listening and ends connections in start-up; requests that Accept
// has returned are not touched.
func (l *listener) Close() error {
	err := l.end(rnic.ErrClosed)
	l.loop.Wait()
	l.handshakes.Wait()
	return err
}

// end ends the Listener, once; Accept returns the first cause. It does not wait for the loops.
func (l *listener) end(why error) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed != nil {
		return nil
	}
	l.closed = why
	close(l.done)
	for e := l.startup.Front(); e != nil; e = e.Next() {
		e.Value.(net.Conn).SetDeadline(past)
		e.Value = nil
	}
	l.startup.Init()
	return l.nl.Close()
}

// A connRequest is a peer that has sent a valid MPA Request.
type connRequest struct {
	p     *provider
	conn  net.Conn
	frame mpa.Frame
}

// PrivateData returns the private data of the peer's ULP.
func (r *connRequest) PrivateData() []byte { return r.frame.PrivateData }

// RemoteAddr returns the peer's TCP address.
func (r *connRequest) RemoteAddr() net.Addr { return r.conn.RemoteAddr() }

// NetConn returns the request's TCP connection, for queries to the system. The connection MUST NOT
// be read, written or closed.
func (r *connRequest) NetConn() net.Conn { return r.conn }

// IRD returns the number of our concurrent RDMA Reads accepted by the peer; 0 also if not stated.
func (r *connRequest) IRD() int { return statedDepth(r.frame.Enhanced.IRD) }

// ORD returns the number of concurrent RDMA Reads wanted by the peer; 0 also if not stated.
func (r *connRequest) ORD() int { return statedDepth(r.frame.Enhanced.ORD) }

// statedDepth returns an IRD or ORD in a peer's frame; 0 if the frame leaves it to the ULP.
func statedDepth(n uint16) int {
	if n == mpa.NotNegotiated {
		return 0
	}
	return int(n)
}

// Accept sends the accepting Reply and brings qp to RTS. Nothing is sent until the peer's
// first FPDU has come (RFC 5044 §7.1.2 rule 4); work posted before waits.
func (r *connRequest) Accept(qp *rnic.QP, cp rnic.ConnParams) error {
	err := r.accept(qp, &cp)
	if err != nil {
		r.conn.Close()
	}
	return err
}

func (r *connRequest) accept(qp *rnic.QP, cp *rnic.ConnParams) error {
	stream, ok := rnic.EndpointOf(qp).(*stream)
	switch {
	case !ok:
		return errForeignQP
	case qp.State() != rnic.StateIdle:
		return rnic.ErrState
	}
	s, rep, err := r.answer(cp)
	if err != nil {
		return err
	}
	if hasInput(r.conn) { // nothing may follow the Request before its Reply
		return mpa.ErrEarly
	}
	r.conn.SetDeadline(time.Now().Add(r.p.handshakeTimeout(acceptTimeout)))
	// The Reply is written before the loops start, so no lock is needed to make it the first bytes
	// sent.
	if _, err := r.conn.Write(mpa.AppendFrame(nil, rep)); err != nil {
		return err
	}
	return stream.start(s)
}

// answer chooses the modes of the connection, and makes the Reply that states them.
func (r *connRequest) answer(cp *rnic.ConnParams) (*session, *mpa.Frame, error) {
	opt, err := optionsOf(cp)
	if err != nil {
		return nil, nil, err
	}
	ird, ord, err := r.p.depths(cp)
	if err != nil {
		return nil, nil, err
	}
	req := &r.frame
	rep := &mpa.Frame{Reply: true, Markers: r.p.cfg.Markers, CRC: r.p.wantsCRC(req.CRC),
		Rev: req.Rev, HasEnhanced: req.HasEnhanced, PrivateData: cp.PrivateData}
	s := &session{conn: r.conn, ird: ird, ord: ord, private: req.PrivateData, gated: true,
		modes: core.Modes{CRC: req.CRC || rep.CRC, WholeTrailer: rep.CRC && !req.CRC, SendMarkers: req.Markers, RecvMarkers: rep.Markers}}
	if !req.HasEnhanced {
		return s, rep, nil
	}
	e := &rep.Enhanced
	e.IRD, e.ORD = mpa.NotNegotiated, mpa.NotNegotiated
	if i := req.Enhanced.IRD; i != mpa.NotNegotiated { // RFC 6581 §9.1 [R5040-274]
		s.ord = min(ord, int(i))
		e.ORD = uint16(s.ord)
	}
	if req.Enhanced.ORD != mpa.NotNegotiated {
		e.IRD = uint16(ird)
	}
	if req.Enhanced.PeerToPeer {
		opt.RTR.answer(&req.Enhanced).offer(e)
	}
	return s, rep, nil
}

// Reject refuses the request, with bytes for the peer's ULP, and closes the connection.
func (r *connRequest) Reject(privateData []byte) error {
	defer r.conn.Close()
	if len(privateData) > privateDataMax {
		return errPrivateData
	}
	rep := mpa.Frame{Reply: true, Reject: true, CRC: r.p.wantsCRC(r.frame.CRC), Rev: r.frame.Rev,
		HasEnhanced: r.frame.HasEnhanced, PrivateData: privateData,
		Enhanced: mpa.Enhanced{IRD: uint16(r.p.cfg.MaxIRD), ORD: min(r.frame.Enhanced.IRD, uint16(r.p.cfg.MaxORD))}}
	r.conn.SetDeadline(time.Now().Add(r.p.handshakeTimeout(acceptTimeout)))
	_, err := r.conn.Write(mpa.AppendFrame(nil, &rep))
	return err
}
