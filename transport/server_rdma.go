// The server side of an RPC-over-RDMA connection.

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

// ServeRDMA accepts connections from l until Shutdown, then returns ErrClosed.
func (s *Server) ServeRDMA(dev *rnic.Device, l rnic.Listener) error {
	if err := s.listen(l); err != nil {
		l.Close()
		return err
	}
	s.offerRDMATLS(l)
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

// An rdmaConn is a server connection. Its calls arrive on rpcrdma's receiving goroutine, limited
// by the credits.
type rdmaConn struct {
	// Set once.
	srv    *Server
	req    rnic.ConnRequest
	ctx    context.Context
	cancel context.CancelFunc
	calls  gate
	work   connQueues
	remote net.Addr
	tcp    net.Conn   // nil: not over TCP
	stream *tlsStream // nil: in clear
	peer   peer
	used   usage

	provider string // the provider's name, set by ServeRDMA

	draining atomic.Bool

	receiver receiver
	arrives  *rpcrdma.Conn // source of calls; owned by the leader; nil before the first call

	mu     sync.Mutex
	conn   *rpcrdma.Conn // nil until accepted
	closed bool
}

func newRDMAConn(s *Server, req rnic.ConnRequest) *rdmaConn {
	remote := req.RemoteAddr()
	r := &rdmaConn{srv: s, req: req, remote: remote}
	r.ctx, r.cancel = context.WithCancel(context.Background())
	r.calls.init(math.MaxInt, math.MaxInt64)
	r.work.most, r.work.slots = s.cfg.Workers, s.cfg.RDMA.Credits
	r.peer.init(remote)
	// Over datagrams all connections of a host share a port, which identifies none of them.
	if _, ok := req.(rnic.DatagramRequest); !ok {
		if r.tcp = r.overTLS(req.NetConn()); r.tcp != nil {
			r.peer.origin.local = addrPortOf(r.tcp.LocalAddr())
		}
	}
	r.peer.origin.watch(r.fate)
	r.peer.memo = new(atomic.Value)
	r.receiver.init(&s.pool, func() { r.arrives.Follow() })
	return r
}

func (r *rdmaConn) queues() *connQueues { return &r.work }
func (r *rdmaConn) usage() *usage       { return &r.used }

// serve accepts the connection, and returns after the connection's end.
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
	// Shutdown may have run since Accept, and found no conn to close.
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

// An rdmaPart is a Call's RDMA state.
type rdmaPart struct{ req *rpcrdma.Request }

// ServeRPC handles one call. rpcrdma calls it.
func (r *rdmaConn) ServeRPC(req *rpcrdma.Request) (leads bool) {
	// tryEnter always succeeds: credits limit the client's calls, and the gate only counts calls
	// for drain.
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
	if r.stream != nil && r.stream.worn() {
		r.draining.Store(true)
		go r.retire() // which awaits this call as well
	}
	// RDMA Read has placed the items, and the Request owns them until Reply or Drop.
	c.args.Reset(req.Msg.Stream, req.Msg.Items)
	c.res.Reset(req.Scratch())
	return r.srv.dispatcher.serve(c, &r.peer)
}

func (r *rdmaConn) buffer(c *Call, n int) []byte { return c.rdma.req.Buffer(n) }

func (r *rdmaConn) request(c *Call) *rpcrdma.Request { return c.rdma.req }

func (r *rdmaConn) uncork(c *Call) { c.rdma.req.Uncork() }

func (r *rdmaConn) inputWaits(c *Call) bool { return c.rdma.req.InputWaits() }

// reply passes the reply to the connection. An error means that the connection has ended, or that
// the client offered too little chunk space, which rpcrdma has reported to the client. A cut-off
// procedure sends no reply: instead of its error the client must notice the lost connection, and
// repeat the call.
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

// together reports whether other calls of the connection will probably end with c: calls that
// became busy for a disk often wait for the same operation, and end together.
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

// fate returns the connection's state. A client that closes the connection properly has possibly
// left replies unread, so the connection counts as cut.
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

// retire ends the connection after the replies to its calls.
func (r *rdmaConn) retire() {
	r.drain()
	r.close()
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

// end marks the connection as closed, and returns the rpcrdma.Conn if there already is one.
func (r *rdmaConn) end() *rpcrdma.Conn {
	r.mu.Lock()
	r.closed = true
	conn := r.conn
	r.mu.Unlock()
	r.peer.origin.ended(fateCut)
	r.cancel()
	r.calls.shutDown()
	// A peer that has sent a request by datagrams possibly never existed, and serve would wait up
	// to a minute for that peer.
	if d, ok := r.req.(rnic.DatagramRequest); ok && conn == nil {
		d.Abandon()
	}
	return conn
}
