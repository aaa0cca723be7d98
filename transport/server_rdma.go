// The server's end of one RPC-over-RDMA connection.

package transport

import (
	"context"
	"errors"
	"io"
	"math"
	"net"
	"sync"
	"sync/atomic"

	"github.com/nfsrdma/nfsrdma/chunks"
	"github.com/nfsrdma/nfsrdma/internal/lead"
	"github.com/nfsrdma/nfsrdma/rnic"
	"github.com/nfsrdma/nfsrdma/rpcrdma"
)

// ServeRDMA accepts connections of l until Shutdown, then returns ErrClosed.
func (s *Server) ServeRDMA(dev *rnic.Device, l rnic.Listener) error {
	if err := s.listen(l); err != nil {
		l.Close()
		return err
	}
	for {
		req, err := l.Accept(context.Background())
		if err != nil {
			return s.unlisten(l, err)
		}
		r := newRDMAConn(s, req)
		r.provider = dev.Caps().Provider
		if !s.add(r, r.remote) {
			req.Reject(nil)
			r.cancel()
			continue
		}
		go r.serve(dev)
	}
}

var errMadeRoom = errors.New("rpc: closed to make room for another connection")

// An rdmaConn is one connection of the server. Its calls come on the receive
// loop of rpcrdma, which runs the inline procedures. The credits bound its calls.
type rdmaConn struct {
	// Set once.
	srv    *Server
	req    rnic.ConnRequest
	ctx    context.Context
	cancel context.CancelFunc
	calls  gate
	work   lines
	remote net.Addr
	tcp    net.Conn // nil: it is not over TCP
	peer   peer
	used   usage

	provider string // its name, set by ServeRDMA

	draining atomic.Bool

	row     lead.Row // of calls that were the only one; owned by the receive loop
	lent    lentCalls
	runLent func() // runs the first of lent; made once

	mu     sync.Mutex
	conn   *rpcrdma.Conn // nil until it has been accepted
	closed bool
}

func newRDMAConn(s *Server, req rnic.ConnRequest) *rdmaConn {
	remote := req.RemoteAddr()
	r := &rdmaConn{srv: s, req: req, remote: remote}
	r.ctx, r.cancel = context.WithCancel(context.Background())
	r.calls.init(math.MaxInt, math.MaxInt64)
	r.work.most, r.work.slots = s.cfg.Workers, s.cfg.RDMA.Credits
	r.peer.init(remote)
	if _, ok := req.(rnic.DatagramRequest); !ok { // else all connections of a host have one port
		if r.tcp = req.NetConn(); r.tcp != nil {
			r.peer.origin.local = addrPortOf(r.tcp.LocalAddr())
		}
	}
	r.peer.origin.watch(r.fate)
	r.peer.memo = new(atomic.Value)
	r.runLent = func() { s.dispatcher.pool.runLent(r.lent.take()) }
	return r
}

func (r *rdmaConn) lines() *lines { return &r.work }
func (r *rdmaConn) usage() *usage { return &r.used }

// serve accepts the connection and stays until it has ended.
func (r *rdmaConn) serve(dev *rnic.Device) {
	defer r.srv.remove(r)
	req := r.req
	cfg := r.srv.cfg.RDMA
	cfg.Handler = r
	var conn *rpcrdma.Conn
	var err error
	why := refusedSetUp
	if r.peer.owner, err = r.srv.owners.ofRequest(req); err != nil {
		why = refusedOwner
		req.Reject(nil)
	} else {
		r.srv.pool.join(&r.work, r.peer.client())
		defer r.srv.pool.leave(&r.work)
		conn, err = rpcrdma.Accept(dev, req, cfg)
	}
	if err != nil {
		r.cancel()
		r.srv.refused.count(why)
		r.srv.log.Warn("connection not accepted", "peer", r.remote, "error", err)
		return
	}
	r.mu.Lock()
	r.conn = conn
	// Shutdown may have come between Accept and here, and has found no conn to close.
	closed := r.closed
	r.mu.Unlock()
	if closed {
		conn.Abort(errMadeRoom)
	}
	<-conn.Done()
	if err := conn.Err(); err != nil && !errors.Is(err, io.EOF) && r.ctx.Err() == nil {
		r.srv.log.Warn("connection ended", "peer", r.remote, "error", err)
	}
	r.close()
	r.srv.pool.withdraw(&r.work)
	r.calls.waitIdle()
}

// An rdmaPart is the part of a Call that only RDMA needs.
type rdmaPart struct{ req *rpcrdma.Request }

// ServeRPC takes one call. It is where rpcrdma hands them over.
func (r *rdmaConn) ServeRPC(req *rpcrdma.Request) {
	r.enter()
	r.srv.count(r, len(req.Msg.Stream)+itemBytes(req.Msg.Items))
	c := getCall(r)
	c.Ctx, c.Remote, c.RDMA = r.ctx, r.remote, true
	c.rdma.req = req
	if r.draining.Load() {
		r.drop(c)
		return
	}
	// Items are where RDMA Read has put them, and stay the Request's until Reply or Drop.
	c.args.Reset(req.Msg.Stream, req.Msg.Items)
	c.res.Reset(req.Scratch())
	r.srv.dispatcher.serve(c, &r.peer)
}

// enter counts a call that has come.
func (r *rdmaConn) enter() {
	// Always has room: the credits bound what a client can send, and the gate only counts here, for
	// drain.
	r.calls.tryEnter()
	r.row.Count(!r.calls.only())
}

// lend is for calls that are short, and for those that come one by one.
func (r *rdmaConn) lend(c *Call) bool {
	return (c.short || r.row.Alone()) && r.lent.push(c, r.runLent)
}

// Lent calls are those that the receive loop has been given and nobody has begun. Each is taken by
// one of as many functions.
type lentCalls struct {
	mu    sync.Mutex
	calls []*Call // guarded by mu; in order
}

// push adds c, if the receive loop takes run for it.
func (l *lentCalls) push(c *Call, run func()) bool {
	l.mu.Lock() // while Lend is called as well: run may be called before that returns, and waits here then
	defer l.mu.Unlock()
	l.calls = append(l.calls, c)
	if c.rdma.req.Lend(run) {
		return true
	}
	n := len(l.calls) - 1
	l.calls[n] = nil
	l.calls = l.calls[:n]
	return false
}

// take removes the first, which is there.
func (l *lentCalls) take() *Call {
	l.mu.Lock()
	defer l.mu.Unlock()
	c := l.calls[0]
	n := copy(l.calls, l.calls[1:])
	l.calls[n] = nil
	l.calls = l.calls[:n]
	return c
}

func (r *rdmaConn) buffer(c *Call, n int) []byte { return c.rdma.req.Buffer(n) }

func (r *rdmaConn) request(c *Call) *rpcrdma.Request { return c.rdma.req }

// reply gives the reply to the connection. Where it fails the connection has
// ended, or the client offered too little, which rpcrdma has told it. A procedure
// that was cut off gives no reply: its error is none of the client's, who is to
// find the connection lost and send the call again.
func (r *rdmaConn) reply(c *Call) {
	if r.ctx.Err() != nil {
		r.drop(c)
		return
	}
	m := chunks.Message{Stream: c.res.Bytes(), Items: c.res.Items()}
	r.used.sent(len(m.Stream) + itemBytes(m.Items))
	if r.together(c, m) {
		_ = c.rdma.req.ReplyCoalesced(m)
	} else {
		_ = c.rdma.req.Reply(m)
	}
	r.release(c)
}

// togetherMost is the longest reply that is held back for others.
const togetherMost = 16 << 10

// together reports whether other calls of the connection are likely to end with c: those that the
// receive loop could have run, had they not to wait for a disk, wait there for the same, and
// several are told of it at once.
func (r *rdmaConn) together(c *Call, m chunks.Message) bool {
	return c.line != nil && c.proc.Inline && len(m.Stream)+itemBytes(m.Items) <= togetherMost && !r.calls.only()
}

func (r *rdmaConn) rejectChunks(c *Call) {
	_ = c.rdma.req.RejectChunks()
	r.release(c)
}

func (r *rdmaConn) drop(c *Call) {
	c.rdma.req.Drop()
	r.release(c)
}

func (r *rdmaConn) release(c *Call) {
	c.rdma = rdmaPart{}
	c.recycle()
	r.calls.leave(0)
}

// fate returns the state of the connection. A client that ends one in order has possibly left
// replies unread.
func (r *rdmaConn) fate() fate {
	r.mu.Lock()
	conn := r.conn
	r.mu.Unlock()
	if conn != nil && !conn.Alive() {
		return fateCut
	}
	if r.tcp == nil {
		return fateLive
	}
	return tcpFate(r.tcp, fateCut, 0)
}

func (r *rdmaConn) drain() {
	r.draining.Store(true)
	r.calls.drain()
}

func (r *rdmaConn) close() {
	if conn := r.end(); conn != nil {
		conn.Close()
	}
}

func (r *rdmaConn) abort() {
	if conn := r.end(); conn != nil {
		conn.Abort(errMadeRoom)
	}
}

// end marks the connection as closed, and returns it if it is there already.
func (r *rdmaConn) end() *rpcrdma.Conn {
	r.mu.Lock()
	r.closed = true
	conn := r.conn
	r.mu.Unlock()
	r.peer.origin.ended(fateCut)
	r.cancel()
	r.calls.shutDown()
	// A peer that has asked by datagrams may never have been there: serve would wait for it for up
	// to a minute.
	if d, ok := r.req.(rnic.DatagramRequest); ok && conn == nil {
		d.Abandon()
	}
	return conn
}
