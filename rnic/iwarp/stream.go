// The stream: one QP's connection, its loops, and how it begins.

package iwarp

import (
	"errors"
	"io"
	"net"
	"net/netip"
	"runtime"
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
// continues when TCP has no room, and ends the stream. Other goroutines transmit the work that they
// post.
type stream struct {
	// set once, in NewEndpoint
	q       *rnic.ProviderQP
	p       *provider
	waiting func() bool // QPConfig.Waiting; nil: callers cannot drive
	goOn    func()      // s.follow as a func value, made once

	// set once, before the loops start
	modes core.Modes

	// Parts with their own locks. A stream's locks are rx.mu, tx.mu and work's lock, in this order,
	// and mu. mu is held together with no other, except work's lock before the loops start. tx.mu
	// is taken under rx.mu where the peer invalidates a region that a batch points into, also a
	// batch of another stream; rx.mu is never taken under tx.mu. Neither is held in a wait for TCP,
	// so a peer that stops reading cannot hold up its own input.
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

// NewEndpoint makes a stream that is not connected.
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
	early    []byte // bytes that came after the peer's frame
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
	l, err := newLink(ses.conn)
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
	if !l.inline() { // a deadline may end its Read with bytes taken, how many is not known
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

// PostSend queues work, and sends it unless another goroutine will.
func (s *stream) PostSend(wrs []rnic.Posted) error {
	if n := len(wrs); n > 0 && wrs[n-1].Op <= rnic.OpSendSEInvalidate {
		s.sends.Add(1)
	}
	mine, err := s.work.Post(wrs)
	budget := inlineBytes
	if !mine && s.early.due() {
		mine, budget = s.flushEarly(), batchBytes
	}
	if mine {
		if budget == inlineBytes && wrs[len(wrs)-1].Hint == rnic.HintCoalesce {
			runtime.Gosched() // others post while this goroutine holds the turn, and it sends their work too
		}
		s.tx.runInline(budget)
	}
	return err
}

// flushEarly lets posted work leave before the batch is done, and reports whether the
// caller is to transmit it.
func (s *stream) flushEarly() (mine bool) {
	if mine = s.work.ClaimCorked(); mine {
		s.early.tally.Win()
	} else {
		s.early.tally.Lose()
	}
	return mine
}

// Release returns once no batch points into the memory that mr had.
func (s *stream) Release(mr *rnic.MR) { s.tx.detach(mr) }

// rxLoop reads, places and completes until the stream ends, then discards.
func (s *stream) rxLoop() {
	if s.digest(never) { // bytes that came with the start-up frames
		s.receive()
	}
}

// receive runs the receive loop after the start-up bytes, or after follow, until the input ends or
// another goroutine is the loop.
func (s *stream) receive() {
	for {
		err := s.rx.fill(s.link)
		s.rx.came, s.rx.sends = s.rx.in.Messages(), s.sends.Load()
		// wanted is read before the batch: a caller that wants the right later waits for a reply,
		// so the loop would have to reclaim the right at once.
		offers := err == nil && s.right.wanted()
		// No linger before an offer: a woken caller takes the right and transmits by itself.
		if err == nil && !s.digest(func() bool { return offers }) {
			return
		}
		s.rx.blockThread = s.answered()
		if offers {
			s.offerRight()
		}
		if err != nil {
			s.inputEnded(err)
			s.rx.quit()
			s.q.LeaveDecisions(s)
			close(s.eof)
			s.loops.Done()
			return
		}
	}
}

// answered reports whether the stream has sent as many answers as it received messages since the
// current batch began. If so, no other goroutine works on this peer's messages, and none needs the
// processor of a blocked thread.
func (s *stream) answered() bool {
	n := s.rx.in.Messages() - s.rx.came
	return s.waiting == nil && n > 0 && s.sends.Load()-s.rx.sends >= n
}

// follow continues the receive loop on another goroutine, after a batch's handlers. The goroutine
// that read the batch is no longer the loop, because its handler may wait.
func (s *stream) follow() {
	s.handled(true, never)
	s.rx.blockThread = s.answered()
	s.receive()
}

func never() bool { return false }

// digest passes the input to the core and ends the batch. content reports whether the receiving
// goroutine waits for nothing more. leads is false if another goroutine is the receive loop now
// (follow).
func (s *stream) digest(content func() bool) (leads bool) {
	// After an error the loop continues: it reads and discards input until the socket ends, so that
	// closing it does not reset it under our Terminate. fail may be called again; the first counts.
	bunch := s.q.BeginBatch()
	err := s.rx.consume()
	if bunch && s.q.EndBatch() {
		s.rx.woken = true
	}
	if err != nil {
		s.fail(err)
	}
	return s.afterBatch(content)
}

// afterBatch reports the completions of a batch of FPDUs to the ULP. Then it sends the work that
// the ULP posted meanwhile, and responses to the peer's Reads, in one go. When the handler posted
// nothing but woke others, they get the processor first, so that their posts leave together: with
// 32 callers that saves a third of the time.
func (s *stream) afterBatch(content func() bool) (leads bool) {
	s.work.Cork()
	// The handler runs with no lock held, and may post, close or invalidate. Its posts stay queued
	// until Uncork, so that one writev takes them and the responses to the peer's Reads. A long
	// batch takes two writev calls (earlyflush.go).
	s.early.begin()
	follow := s.goOn
	if s.waiting != nil { // a caller may run this, and cannot pass the receive side on
		follow = nil
	}
	ran, leads := s.q.Lead(follow)
	if leads {
		s.handled(ran, content)
	}
	return leads
}

// handled is the second half of afterBatch, after the handlers.
func (s *stream) handled(ran bool, content func() bool) {
	s.early.end()
	if ran && !content() && s.work.YieldCorked() {
		runtime.Gosched() // others post meanwhile
	}
	s.sendCollected()
	s.q.NotifySends()
}

// sendCollected sends the work posted since Cork, and uncorks.
func (s *stream) sendCollected() {
	if s.work.Uncork() {
		// Only the transmit loop writes to a link that may block: the receive loop MUST NOT wait
		// for room, or two peers with full windows would wait for each other.
		if s.link.inline() {
			s.tx.run(batchBytes)
		} else {
			s.tx.handOver()
		}
	}
}

// inputEnded finds out how the inbound bytes ended.
func (s *stream) inputEnded(err error) {
	// A FIN between FPDUs is an orderly end if nothing is outstanding. The peer may have answered
	// bytes that the transmitter has just handed to TCP, so the transmitter must first record those
	// bytes.
	if err == io.EOF {
		s.tx.barrier()
		if s.work.Outstanding() || s.rx.inMessage() {
			err = errPeerLeft
		}
	}
	s.fail(err)
}

// txLoop transmits work that posters could not, and ends the stream.
func (s *stream) txLoop() {
	defer s.loops.Done()
	for range s.txWake {
		// This check comes first: after an error only teardown transmits.
		if s.q.Failed() {
			s.teardown()
			return
		}
		if s.work.TurnOfLoop() {
			s.tx.runLoop()
		}
		if s.takeFIN() {
			s.link.closeWrite()
		}
		s.q.Notify()
	}
}

// FlushDeferred implements rnic.Scheduler.
func (s *stream) FlushDeferred() { s.wakeTx() }

func (s *stream) wakeTx() {
	select {
	case s.txWake <- struct{}{}:
	default:
	}
}

// AddTo implements tally.Source, for a stream that has been started.
func (s *stream) AddTo(t tally.Table) {
	s.right.AddTo(t)
	t.Add("early_flush", s.early.tally.Counts())
	if l, ok := s.link.(*tcpLink); ok {
		l.wait.AddTo(t)
	}
}

// Uncork implements rnic.Scheduler.
func (s *stream) Uncork() {
	s.early.end()
	s.sendCollected()
}

// InputWaits implements rnic.Scheduler.
func (s *stream) InputWaits() bool {
	l, ok := s.link.(*tcpLink)
	return !ok || l.waits()
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
