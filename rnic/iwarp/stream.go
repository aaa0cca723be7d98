// The stream: one QP's connection, and how it begins.

package iwarp

import (
	"errors"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nfsrdma/nfsrdma/internal/tally"
	"github.com/nfsrdma/nfsrdma/rnic"
	"github.com/nfsrdma/nfsrdma/rnic/iwarp/core"
)

// A stream is the Endpoint of one QP: the protocol core, which does no I/O, joined to a connection
// by two goroutines. The receive loop reads all available input, passes it to the core, runs the CQ
// handlers once, and sends the work posted by the handlers in one go. The transmit loop sleeps; it
// continues when TCP had no room, and ends the stream. Other goroutines transmit their own posts.
type stream struct {
	// set once, in NewEndpoint
	q       *rnic.ProviderQP
	p       *provider
	waiting func() bool // QPConfig.Waiting; nil: callers cannot drive
	goOn    func()      // s.follow as a func value, made once

	// set once, before the loops start
	modes core.Modes

	// Parts with their own locks. A stream's locks are rx.mu, tx.mu and work's lock, in this order,
	// and mu. With mu only QP.mu is taken, and work's lock before the loops start. tx.mu is taken
	// under rx.mu where the peer invalidates a region that a batch points into, also a batch of
	// another stream; rx.mu is never taken under tx.mu. Neither is held in a wait for TCP, so a
	// peer that stops reading cannot hold up its own input.
	work core.Work
	tx   transmitter
	rx   receiver

	right receiveRight
	early earlyFlush
	sends atomic.Uint32 // posts that end with a Send, as answers do; modulo 2^32

	txWake chan struct{} // one token: the transmit loop has something to do
	// Putting the token never waits: if txWake is full, the loop will check for work anyway. Only
	// the receive loop closes eof; teardown then knows that reading has ended.
	eof   chan struct{} // closed when the receive loop has ended
	loops sync.WaitGroup

	mu     sync.Mutex  // before QP.mu; guards all below
	link   link        // constant after the start, nil before; the loops read it without a lock
	last   *core.Fault // the Terminate to send, or nil
	quick  bool        // end without grace
	finDue bool        // all work is done: FIN can go
}

// NewEndpoint makes an unconnected stream.
func (p *provider) NewEndpoint(q *rnic.ProviderQP, cfg rnic.QPConfig) (rnic.Endpoint, error) {
	s := &stream{q: q, p: p, waiting: cfg.Waiting, txWake: make(chan struct{}, 1), eof: make(chan struct{})}
	s.work.Init(q, cfg.SQDepth)
	s.right.init()
	s.goOn = s.follow
	s.early.latest = &p.latest
	s.tx.s = s
	s.tx.out.Init(q, &s.work)
	s.rx.in.Init(q, &s.work)
	return s, nil
}

// A session is the result of MPA start-up.
type session struct {
	conn     net.Conn
	early    []byte // bytes received after the peer's frame
	modes    core.Modes
	ird, ord int
	private  []byte
	gated    bool            // send nothing before the first FPDU has come
	rtr      RTR             // initiator: the first message to send; 0: no RTR
	opened   <-chan struct{} // closed when the rtr message is done
}

// start brings the QP to RTS and starts its loops.
//
// mu is held from the moment in which the QP is RTS until the loops run: a fail or Close meanwhile
// finds either neither link nor loops, or both the link and running loops. Established fails if the
// QP was closed or connected meanwhile; then nothing was started, and the caller closes the
// connection.
func (s *stream) start(ses *session) error {
	l, err := newLink(ses.conn, &s.p.inputs)
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	// Nothing of the stream changes before Established: until then another connection may own the
	// QP.
	c := rnic.Connected{IRD: ses.ird, ORD: ses.ord, PrivateData: ses.private, CRC: ses.modes.CRC, Sources: ses.modes.TakesSources(l.mss())}
	if !s.q.Established(c) {
		return rnic.ErrState
	}
	ses.conn.SetDeadline(time.Time{})
	s.link, s.tx.link = l, l
	s.tx.tcp, _ = l.(*tcpLink)
	if !l.inline() { // a deadline may end its Read after an unknown number of bytes
		s.waiting = nil
	}
	ses.modes.Extensions = s.p.cfg.Extensions
	ses.modes.Direct, ses.modes.Strict = l.inline(), s.p.cfg.CRC == rnic.CRCStrict
	s.modes = ses.modes
	s.tx.out.Start(ses.modes)
	s.rx.start(ses.modes, ses.early)
	s.work.Start(ses.ird, ses.ord, ses.gated)
	// The RTR is queued before the QP's owner can post, because start has not returned. So the RTR
	// is the first message.
	if ses.rtr != 0 {
		ses.opened = s.work.PostRTR(ses.rtr.workRequest())
	}
	s.q.JoinDecisions(s)
	s.loops.Add(2)
	go s.rxLoop()
	go s.txLoop()
	return nil
}

// AddTo implements tally.Source, for a stream that has been started.
func (s *stream) AddTo(t tally.Table) {
	s.right.AddTo(t)
	t.Add("early_flush", s.early.tally.Counts())
	t.Add("call_yield", s.tx.callYields.Counts())
	if l, ok := s.link.(*tcpLink); ok {
		l.wait.AddTo(t)
	}
}

// Wait returns when the loops have ended.
func (s *stream) Wait() { s.loops.Wait() }

// Moved returns the number of bytes taken by TCP, plus those received for our RDMA Reads.
func (s *stream) Moved() uint64 { return s.tx.handed.Load() + s.rx.in.ReadBytes() }

// ReceivesPosted has nothing to do: a peer sends whether there are receives or not.
func (s *stream) ReceivesPosted() {}

// Join is for UD, which iWARP does not have.
func (s *stream) Join(netip.Addr) (rnic.AddressHandle, error) {
	return rnic.AddressHandle{}, errors.ErrUnsupported
}

// Leave is for UD, like Join.
func (s *stream) Leave(netip.Addr) {}

// RemoteAddr returns the peer's TCP address, nil when the stream was never connected.
func (s *stream) RemoteAddr() net.Addr {
	if c := s.socket(); c != nil {
		return c.RemoteAddr()
	}
	return nil
}

// LocalAddr returns our TCP address, nil when the stream was never connected.
func (s *stream) LocalAddr() net.Addr {
	if c := s.socket(); c != nil {
		return c.LocalAddr()
	}
	return nil
}

func (s *stream) socket() net.Conn {
	if l := s.socketLink(); l != nil {
		return l.conn()
	}
	return nil
}

func (s *stream) socketLink() link {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.link
}
