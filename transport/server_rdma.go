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

// An rdmaConn is one connection of the server. Its calls come on the goroutine that receives for
// rpcrdma. The credits bound them.
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

	receiver receiver
	arrives  *rpcrdma.Conn // that calls come by; owned by the leader, nil before the first

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
	r.receiver.init(&s.pool, func() { r.arrives.Follow() })
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
		r.srv.leads.Join(&r.receiver)
		defer r.srv.leads.Leave(&r.receiver)
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
func (r *rdmaConn) ServeRPC(req *rpcrdma.Request) (leads bool) {
	// Always has room: the credits bound what a client can send, and the gate only counts here, for
	// drain.
	r.calls.tryEnter()
	r.srv.count(r, len(req.Msg.Stream)+itemBytes(req.Msg.Items))
	c := getCall(r)
	c.Ctx, c.Remote, c.RDMA = r.ctx, r.remote, true
	c.rdma.req = req
	if req.CanFollow() {
		r.arrives = req.Conn()
		c.here, c.ownLoop, c.more = &r.receiver, req.OwnLoop(), req.More()
		r.receiver.row.Count(c.more || !r.calls.only())
	}
	if r.draining.Load() {
		r.drop(c)
		return true
	}
	// Items are where RDMA Read has put them, and stay the Request's until Reply or Drop.
	c.args.Reset(req.Msg.Stream, req.Msg.Items)
	c.res.Reset(req.Scratch())
	return r.srv.dispatcher.serve(c, &r.peer)
}

func (r *rdmaConn) buffer(c *Call, n int) []byte { return c.rdma.req.Buffer(n) }

func (r *rdmaConn) request(c *Call) *rpcrdma.Request { return c.rdma.req }

func (r *rdmaConn) uncork(c *Call) { c.rdma.req.Uncork() }

func (r *rdmaConn) inputWaits(c *Call) bool { return c.rdma.req.InputWaits() }

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

// together reports whether other calls of the connection are likely to end with c: those that
// became busy for a disk wait there for the same, and several go on at once.
func (r *rdmaConn) together(c *Call, m chunks.Message) bool {
	return c.standing == standsApart && c.proc.Inline && len(m.Stream)+itemBytes(m.Items) <= togetherMost && !r.calls.only()
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
