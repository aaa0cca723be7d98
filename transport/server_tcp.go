// The server side of a TCP connection: receiving calls and sending replies.

package transport

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/nfsrdma/nfsrdma/rpcrdma"
	"github.com/nfsrdma/nfsrdma/rpcrdma/mem"
	"golang.org/x/sys/unix"
)

var errNoMemory = errors.New("rpc: the server's memory budget is spent")

// ServeTCP accepts connections from l until Shutdown, then returns ErrClosed.
func (s *Server) ServeTCP(l net.Listener) error {
	if err := s.listen(l); err != nil {
		l.Close()
		return err
	}
	for {
		nc, err := l.Accept()
		if err != nil {
			var temp interface{ Temporary() bool }
			if errors.As(err, &temp) && temp.Temporary() {
				s.log.Warn("cannot accept connections", "error", err)
				time.Sleep(acceptBackoff)
				continue
			}
			return s.unlisten(l, err)
		}
		t := newTCPConn(s, nc)
		if !s.add(t, nc.RemoteAddr()) {
			t.close()
			continue
		}
		go t.begin()
	}
}

// A tcpConn is a server connection. The leader reads records and runs calls, or passes them to
// workers. A goroutine with a reply writes the reply, together with other ready replies.
type tcpConn struct {
	// Set once.
	srv     *Server
	nc      net.Conn
	ctx     context.Context
	cancel  context.CancelFunc
	calls   gate
	work    connQueues
	remote  net.Addr
	account *mem.Account // in the server's budget
	input   socketInput

	receiver receiver

	// Owned by the receiver's leader.
	rd   *recordReader
	peer peer
	half bool // a deadline for the rest of a record is set
	// charged is the current record's charge to the budget.
	charged int
	served  chan struct{} // one token: the account's wait for the budget has succeeded

	used usage
	// Counters for fate, compared with the bytes acknowledged by the peer. A reply counts before
	// it is written, because the client may have it, and close, before the writer runs again.
	received, settled, replied atomic.Uint64 // calls; those answered or dropped; bytes of replies

	// stream is the TLS session on nc, set once by startTLS; nil: in clear.
	stream atomic.Pointer[tlsStream]

	draining atomic.Bool
	ended    chan struct{} // closed when the receive loop has ended

	mu      sync.Mutex
	out     []*Call // replies waiting to be written
	spare   []*Call // the backing array that out does not use
	writing bool    // a goroutine writes; other goroutines just add to out
	failed  bool
	stopped sync.Cond // signals that writing became false

	// Owned by the writer.
	gather gatherList
}

func newTCPConn(s *Server, nc net.Conn) *tcpConn {
	t := &tcpConn{srv: s, nc: nc, remote: nc.RemoteAddr(), ended: make(chan struct{}), served: make(chan struct{}, 1)}
	t.stopped.L = &t.mu
	t.account = s.cfg.Budget.Open(func(int64) { t.served <- struct{}{} })
	t.ctx, t.cancel = context.WithCancel(context.Background())
	// Twice the workers: while that many calls run, as many replies may be in flight.
	t.calls.init(2*s.cfg.Workers, s.cfg.Budget.Total()/budgetShare)
	t.work.most, t.work.slots = s.cfg.Workers, 2*s.cfg.Workers
	t.rd = newRecordReader(nc, tcpWindow, s.cfg.MaxRecord)
	t.rd.beforeRead = t.beforeRead
	t.rd.charge = t.charge
	t.receiver.init(&s.pool, t.receive)
	t.input.init(nc)
	t.peer.init(t.remote)
	t.peer.origin.local = addrPortOf(nc.LocalAddr())
	t.peer.origin.watch(t.fate)
	t.peer.memo = new(atomic.Value)
	return t
}

func (t *tcpConn) queues() *connQueues { return &t.work }
func (t *tcpConn) usage() *usage       { return &t.used }
func (t *tcpConn) abort()              { t.close() }

func (t *tcpConn) request(*Call) *rpcrdma.Request { return nil }

// A socketPart is a Call's state for TCP and UDP: buffers, released after the reply has been
// written, since the arguments point into rec, and large results into bufs.
type socketPart struct {
	rec  *mem.Buffer   // the record
	out  *mem.Buffer   // the reply's initial buffer
	bufs []*mem.Buffer // from Call.Buffer
	held int           // bytes in bufs, charged to the budget; TCP only
	mark [markLen]byte // the reply's record mark
}

// begin takes rec over, and returns the reply's initial buffer.
func (p *socketPart) begin(rec *mem.Buffer) []byte {
	p.rec, p.out = rec, mem.Get(replySpace)
	return p.out.B
}

// buffer returns n bytes that are valid until put.
func (p *socketPart) buffer(n int) []byte {
	b := mem.Get(n)
	p.bufs = append(p.bufs, b)
	return b.B
}

// put releases all buffers. The array of bufs stays for the next call.
func (p *socketPart) put() {
	p.rec.Put()
	p.out.Put()
	for _, b := range p.bufs {
		b.Put()
	}
	clear(p.bufs)
	p.rec, p.out, p.bufs, p.held = nil, nil, p.bufs[:0], 0
}

// begin is a connection's first leader.
func (t *tcpConn) begin() {
	var err error
	if t.peer.owner, err = t.srv.owners.of(t.nc); err != nil {
		t.end(err)
		return
	}
	t.srv.pool.join(&t.work, t.peer.client())
	t.srv.leads.Join(&t.receiver)
	t.receive()
}

// receive makes its goroutine the leader, and reads calls until a follower takes over or the
// connection ends. At the connection's end receive waits for running calls.
func (t *tcpConn) receive() {
	err, leads := t.readCalls()
	if !leads {
		t.flush() // the last call's reply has waited
		return
	}
	t.srv.leads.Leave(&t.receiver)
	t.end(err)
	t.srv.pool.leave(&t.work)
}

// end ends a connection that is no longer read.
func (t *tcpConn) end(err error) {
	if !errors.Is(err, io.EOF) && !errors.Is(err, net.ErrClosed) && !errors.Is(err, errHandshake) && !t.draining.Load() {
		t.srv.log.Warn("connection cut off", "peer", t.remote, "error", err)
	}
	t.flush()
	if errors.Is(err, io.EOF) || t.draining.Load() {
		t.calls.drain() // the peer may have closed only its sending direction
		t.awaitWriter()
	}
	if errors.Is(err, io.EOF) {
		t.awaitFIN()
	}
	if f := t.fate(); f == fateClosed {
		t.peer.origin.ended(f)
	}
	t.closeNotify()
	close(t.ended)
	t.close()
	t.srv.pool.withdraw(&t.work)
	t.calls.waitIdle()
	t.srv.remove(t)
}

// readCalls reads and serves calls until an error, or until leads is false: a follower continues.
func (t *tcpConn) readCalls() (err error, leads bool) {
	for {
		// Enter before reading the record: while a client has too many calls, receive reads
		// nothing, TCP's flow control stops the client, and nothing is dropped. Waiting replies
		// leave before receive waits.
		if !t.calls.tryEnter() {
			t.flush()
			if !t.calls.enter() {
				return net.ErrClosed, true
			}
		}
		t.charged = 0
		rec, err := t.rd.next()
		if err != nil {
			t.account.Give(int64(t.charged))
			t.calls.leave(0)
			return err, true
		}
		if t.half {
			t.half = false
			t.nc.SetReadDeadline(time.Time{})
		}
		if t.takesProbe(rec.B) {
			err := t.startTLS(rec.B)
			rec.Put()
			if err != nil {
				return err, true
			}
			continue
		}
		t.srv.count(t, markLen+len(rec.B))
		t.received.Add(1)
		c := getCall(t)
		c.Ctx, c.Remote = t.ctx, t.remote
		c.args.Reset(rec.B, nil)
		c.res.Reset(c.socket.begin(rec))
		c.here, c.ownLoop, c.more = &t.receiver, true, t.rd.more()
		t.receiver.row.Count(c.more || !t.calls.only())
		if !t.srv.serve(c, &t.peer) {
			return nil, false
		}
	}
}

// beforeRead runs before each read of the socket: replies must not wait for the peer's next
// bytes, and the rest of a record must arrive in time.
func (t *tcpConn) beforeRead(inside bool) error {
	t.flush()
	t.flushSealed()
	if inside && !t.half {
		t.half = true
		t.nc.SetReadDeadline(time.Now().Add(t.srv.cfg.HalfTimeout))
	}
	if s := t.stream.Load(); s != nil && s.worn() {
		t.draining.Store(true)
	}
	if t.draining.Load() {
		return os.ErrDeadlineExceeded
	}
	return nil
}

// charge charges a large record to the budget. If the budget, or this connection's share, is
// exhausted, charge waits until calls have released memory, for at most HalfTimeout. Meanwhile the
// connection stands in the budget's queue, so that large records get their turn among small ones.
func (t *tcpConn) charge(n int) error {
	if t.account.TakeOrWait(int64(n)) {
		t.charged = n
		return nil
	}
	t.flush()
	look := time.NewTicker(budgetLook)
	defer look.Stop()
	for end := time.Now().Add(t.srv.cfg.HalfTimeout); ; {
		select {
		case <-t.served:
			t.charged = n
			return nil
		case <-look.C:
		}
		if !t.draining.Load() && t.ctx.Err() == nil && time.Now().Before(end) {
			continue
		}
		if !t.account.Leave() { // the bytes were granted at this moment
			<-t.served
			t.account.Give(int64(n))
		}
		return errNoMemory
	}
}

func (t *tcpConn) uncork(*Call) { t.flush() }

// inputWaits reports whether the peer has sent more; true if unknown.
func (t *tcpConn) inputWaits(*Call) bool {
	if s := t.stream.Load(); s != nil && s.buffered() {
		return true
	}
	return t.input.waits()
}

// A socketInput counts unread bytes in a socket. Its function is made once, so that a count
// allocates nothing.
type socketInput struct {
	raw   syscall.RawConn // nil: unknown
	count func(fd uintptr)
	n     atomic.Int64
}

func (s *socketInput) init(nc net.Conn) {
	if sc, ok := nc.(syscall.Conn); ok {
		s.raw, _ = sc.SyscallConn()
	}
	s.count = func(fd uintptr) {
		n, _ := unix.IoctlGetInt(int(fd), unix.TIOCINQ)
		s.n.Store(int64(n))
	}
}

// waits reports whether the socket has unread bytes; true if unknown.
func (s *socketInput) waits() bool {
	return s.raw == nil || s.raw.Control(s.count) != nil || s.n.Load() > 0
}

// buffer returns a pooled buffer that is released with the call.
func (t *tcpConn) buffer(c *Call, n int) []byte {
	if n < 0 || !t.account.Take(int64(n)) {
		return nil
	}
	c.socket.held += n
	t.calls.hold(n)
	return c.socket.buffer(n)
}

// reply queues the reply. The leader flushes before it waits for the peer; other goroutines write
// at once, unless another goroutine is writing.
func (t *tcpConn) reply(c *Call) {
	// The leader must not write a long reply: a client may read slowly, or may itself be writing a
	// call, so a follower must keep receiving.
	c.moveLarge()
	later := c.leads()
	var batch []*Call
	t.mu.Lock()
	t.out = append(t.out, c)
	if !later {
		batch = t.beginWrite()
	}
	t.mu.Unlock()
	t.write(batch)
}

func (t *tcpConn) flush() {
	t.mu.Lock()
	batch := t.beginWrite()
	t.mu.Unlock()
	t.write(batch)
}

// beginWrite makes the caller the writer, and returns the replies to write, or none if another
// goroutine writes: the writer checks out under the lock before stopping, so no reply is forgotten.
// The caller holds mu.
func (t *tcpConn) beginWrite() (batch []*Call) {
	if t.writing {
		return nil
	}
	return t.nextBatch()
}

// nextBatch takes the queued replies. If there are no replies, the writer stops being the writer.
// The caller holds mu.
func (t *tcpConn) nextBatch() (batch []*Call) {
	t.writing = len(t.out) > 0
	if !t.writing {
		t.stopped.Broadcast()
		return nil
	}
	// Two arrays alternate: one collects replies while the other is written, and neither is
	// reallocated.
	batch, t.out, t.spare = t.out, t.spare[:0], nil
	return batch
}

// awaitWriter waits until no goroutine writes. After the last call's end that is soon: a writer
// releases its calls before it stops being the writer.
func (t *tcpConn) awaitWriter() {
	t.mu.Lock()
	for t.writing {
		t.stopped.Wait()
	}
	t.mu.Unlock()
}

// write writes the writer's batch, and replies queued meanwhile.
func (t *tcpConn) write(batch []*Call) {
	for len(batch) > 0 {
		t.writeBatch(batch)
		t.mu.Lock()
		t.spare = batch[:0]
		batch = t.nextBatch()
		t.mu.Unlock()
	}
}

// writeBatch writes replies with as few system calls as the gather list permits.
func (t *tcpConn) writeBatch(batch []*Call) {
	if !t.hasFailed() {
		n := 0
		for _, c := range batch {
			t.gather.message(&c.socket.mark, &c.res)
			n += markLen + recordSize(&c.res)
		}
		t.used.sent(n)
		w := t.beginReplies(n)
		t.settled.Add(uint64(len(batch)))
		if err := t.gather.writeTo(w, t); err != nil {
			t.close()
		}
		t.repliesWritten()
	}
	// Complete the calls even after an error: the client notices the lost connection and repeats
	// its calls.
	for i, c := range batch {
		batch[i] = nil
		t.release(c)
	}
}

// beginReplies counts replies of n bytes with their marks, and returns where to write them.
func (t *tcpConn) beginReplies(n int) io.Writer {
	if s := t.stream.Load(); s != nil {
		t.replied.Add(uint64(wireSize(n)))
		return s
	}
	t.replied.Add(uint64(n))
	return t.nc
}

// wait and keepWriting bound a slow client, which must read at least leastTaken bytes in each
// HalfTimeout.
func (t *tcpConn) wait()                    { t.nc.SetWriteDeadline(time.Now().Add(t.srv.cfg.HalfTimeout)) }
func (t *tcpConn) keepWriting(n int64) bool { return n >= leastTaken }

func (t *tcpConn) hasFailed() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.failed
}

func (t *tcpConn) rejectChunks(c *Call) { t.drop(c) } // TCP has no chunks

func (t *tcpConn) drop(c *Call) {
	t.settled.Add(1)
	t.release(c)
}

// release ends the call.
func (t *tcpConn) release(c *Call) {
	held := c.socket.held
	if n := c.socket.rec.Charged + held; n > 0 {
		t.account.Give(int64(n))
	}
	c.socket.put()
	c.recycle()
	t.calls.leave(held)
}

func (t *tcpConn) drain() {
	t.draining.Store(true)
	t.nc.SetReadDeadline(time.Now())
	<-t.ended
}

func (t *tcpConn) close() {
	t.mu.Lock()
	t.failed = true
	t.mu.Unlock()
	// The order matters: first notify procedures, then wake the writer and the leader by closing
	// the socket, last wake the goroutines that wait at the gate.
	t.peer.origin.ended(fateCut)
	t.cancel()
	t.nc.Close()
	t.calls.shutDown()
}
