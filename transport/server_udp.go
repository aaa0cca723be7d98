// The server over UDP: a datagram for each call and each reply.

package transport

import (
	"context"
	"encoding/binary"
	"errors"
	"net"
	"net/netip"
	"os"
	"sync"
	"time"

	"github.com/nfsrdma/nfsrdma/rpcrdma"
	"github.com/nfsrdma/nfsrdma/rpcrdma/mem"
	"github.com/nfsrdma/nfsrdma/xdr/oncrpc"
	"golang.org/x/sys/unix"
)

// udpCalls bounds a socket's calls in progress; clients repeat dropped datagrams.
const udpCalls = 64

// A UDPConfig bounds the messages of ServeUDP.
type UDPConfig struct {
	// MaxMessage is the size of the largest call and the largest reply, in bytes, at most 65507.
	// 0: 8800, as in libtirpc. A longer call is answered with GARBAGE_ARGS, and a call with a
	// longer reply with SYSTEM_ERR.
	MaxMessage int
	// Amplify is the largest ratio of a reply's bytes to its call's, for callers on other machines;
	// 0: 1. Beyond it the reply is SYSTEM_ERR. Source addresses in datagrams are easily forged. So
	// a larger value lets an attacker multiply a flood against a third party: use it only in
	// networks without forged addresses.
	Amplify int
}

func (cfg *UDPConfig) setDefaults() {
	setDefault(&cfg.MaxMessage, 8800)
	setDefault(&cfg.Amplify, 1)
	cfg.MaxMessage = min(cfg.MaxMessage, maxDatagram)
}

// ServeUDP serves calls from the socket until Shutdown, which closes it, and then returns
// ErrClosed. ServerConfig.UDP has the limits. A reply leaves from the call's destination address.
//
// Repeated calls pass the same duplicate request cache as those over TCP and RDMA: a call repeats
// another if it has the same bytes, source address, source port and user.
func (s *Server) ServeUDP(pc *net.UDPConn) error {
	u, err := newUDPSocket(s, pc)
	if err == nil {
		err = s.listenUDP(u)
	}
	if err != nil {
		pc.Close()
		return err
	}
	s.pool.join(&u.work, u.peer.client())
	u.receive()
	if err = <-u.ended; errors.Is(err, net.ErrClosed) {
		u.calls.shutDown() // no reply can be sent
	}
	u.calls.drain()
	u.cancel()
	pc.Close()
	s.pool.withdraw(&u.work)
	u.calls.waitIdle()
	s.pool.leave(&u.work)
	close(u.done)
	return s.unlistenUDP(u, err)
}

// listenUDP registers a socket; ErrClosed if the server is closing.
func (s *Server) listenUDP(u *udpSocket) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closing {
		return ErrClosed
	}
	s.owners.open()
	s.sockets[u] = true
	s.wg.Add(1)
	return nil
}

// unlistenUDP forgets a socket that ended with err, and returns the error for ServeUDP.
func (s *Server) unlistenUDP(u *udpSocket, err error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.sockets, u)
	s.wg.Done()
	if s.closing {
		return ErrClosed
	}
	return err
}

// A udpSocket is a server socket, and the carrier for its calls.
type udpSocket struct {
	// Set once.
	srv    *Server
	pc     *net.UDPConn
	ctx    context.Context
	cancel context.CancelFunc
	calls  gate
	work   connQueues

	receiver receiver
	peer     peer       // the current datagram's sender; owned by the leader
	ended    chan error // gets the error that ended receiving
	done     chan struct{}

	mu   sync.Mutex        // guards from
	from map[*Call]udpFrom // sources of the calls in progress
}

// A udpFrom is a call's source and size.
type udpFrom struct {
	remote netip.AddrPort
	local  []byte // control message that makes the reply leave from the call's destination
	size   int
}

// mayHave reports whether a reply of that many bytes may be sent. A loopback source is not forged:
// the kernel accepts no such datagram from outside.
func (f *udpFrom) mayHave(reply int, cfg *UDPConfig) bool {
	return reply <= cfg.MaxMessage && (reply <= f.size*cfg.Amplify || f.remote.Addr().IsLoopback())
}

func newUDPSocket(s *Server, pc *net.UDPConn) (*udpSocket, error) {
	u := &udpSocket{srv: s, pc: pc, from: map[*Call]udpFrom{}, ended: make(chan error, 1), done: make(chan struct{})}
	u.receiver.init(&s.pool, u.receive)
	u.ctx, u.cancel = context.WithCancel(context.Background())
	u.calls.init(udpCalls, int64(udpCalls*s.cfg.UDP.MaxMessage))
	u.work.most, u.work.slots = ownWorkers, udpCalls
	return u, askLocalAddr(pc)
}

func (u *udpSocket) queues() *connQueues { return &u.work }

func (u *udpSocket) request(*Call) *rpcrdma.Request { return nil }

func (u *udpSocket) uncork(*Call) {} // a udpSocket collects no replies

func (u *udpSocket) inputWaits(*Call) bool { return true }

// drain takes no further calls and returns when all taken ones have been answered.
func (u *udpSocket) drain() {
	_ = u.pc.SetReadDeadline(past) // an error: the socket is closed
	<-u.done
}

// close ends the socket immediately.
func (u *udpSocket) close() {
	u.calls.shutDown()
	u.pc.Close()
	<-u.done
}

// receive makes its goroutine the leader, and takes datagrams until the socket is closed or a
// follower leads.
func (u *udpSocket) receive() {
	oob := make([]byte, 128)
	most := u.srv.cfg.UDP.MaxMessage
	for {
		rec := mem.Get(most + 1)
		n, control, _, remote, err := u.pc.ReadMsgUDPAddrPort(rec.B, oob)
		switch {
		case errors.Is(err, net.ErrClosed), errors.Is(err, os.ErrDeadlineExceeded):
			rec.Put()
			u.ended <- err
			return
		case err != nil: // an earlier datagram's error, such as an ICMP message
			rec.Put()
			time.Sleep(budgetPoll)
			continue
		case !isCall(rec.B[:n]) || !u.calls.tryEnter():
			rec.Put()
			continue
		}
		local, reply := localAddr(oob[:control])
		if !u.serve(rec, n, udpFrom{netip.AddrPortFrom(remote.Addr().Unmap(), remote.Port()), reply, n}, local) {
			return
		}
	}
}

// isCall reports whether a datagram begins as a call. Nothing else gets an answer, so two servers
// cannot answer each other.
func isCall(b []byte) bool { return len(b) >= 8 && binary.BigEndian.Uint32(b[4:]) == msgCall }

// serve passes one call to the dispatcher. leads is dispatcher.serve's result.
func (u *udpSocket) serve(rec *mem.Buffer, n int, from udpFrom, local netip.Addr) (leads bool) {
	c := getCall(u)
	c.here = &u.receiver
	c.Ctx, c.Remote = u.ctx, net.UDPAddrFromAddrPort(from.remote)
	c.args.Reset(rec.B[:n], nil)
	c.res.Reset(c.socket.begin(rec))
	u.mu.Lock()
	u.from[c] = from
	u.mu.Unlock()
	if n > u.srv.cfg.UDP.MaxMessage { // truncated: its end is lost
		c.XID = binary.BigEndian.Uint32(rec.B)
		u.srv.refused.count(refusedHeader)
		c.accept(oncrpc.GarbageArgs)
		return true
	}
	var err error
	here := netip.AddrPortFrom(local, u.pc.LocalAddr().(*net.UDPAddr).AddrPort().Port())
	u.peer.init(c.Remote)
	u.peer.origin.local = here
	if u.peer.owner, err = u.srv.owners.bounded(u.srv.owners.askUDP, here, from.remote); err != nil {
		u.drop(c)
		return true
	}
	return u.srv.serve(c, &u.peer)
}

// buffer returns no more than a datagram's space.
func (u *udpSocket) buffer(c *Call, n int) []byte {
	if n < 0 || n > u.srv.cfg.UDP.MaxMessage {
		return nil
	}
	return c.socket.buffer(n)
}

// reply sends the reply, or SYSTEM_ERR instead of one that is too long.
func (u *udpSocket) reply(c *Call) {
	from := u.forget(c)
	cfg := &u.srv.cfg.UDP
	if !from.mayHave(recordSize(&c.res), cfg) {
		c.startReply(&oncrpc.ReplyHeader{Accept: oncrpc.SystemErr})
	}
	if n := recordSize(&c.res); from.mayHave(n, cfg) {
		reply := appendMessage(make([]byte, 0, n), &c.res)
		// The client repeats its call if the reply is lost or cannot be sent.
		_, _, _ = u.pc.WriteMsgUDPAddrPort(reply, from.local, from.remote)
	}
	u.end(c)
}

func (u *udpSocket) rejectChunks(c *Call) { u.drop(c) } // there are no chunks on UDP

func (u *udpSocket) drop(c *Call) {
	u.forget(c)
	u.end(c)
}

// forget removes the call from those in progress.
func (u *udpSocket) forget(c *Call) udpFrom {
	u.mu.Lock()
	defer u.mu.Unlock()
	from := u.from[c]
	delete(u.from, c)
	return from
}

func (u *udpSocket) end(c *Call) {
	c.socket.put()
	c.recycle()
	u.calls.leave(0)
}

// askLocalAddr makes the kernel report each datagram's destination address.
func askLocalAddr(pc *net.UDPConn) error {
	raw, err := pc.SyscallConn()
	if err != nil {
		return err
	}
	level, name := unix.IPPROTO_IP, unix.IP_PKTINFO
	if addr, ok := pc.LocalAddr().(*net.UDPAddr); ok && addr.IP.To4() == nil {
		level, name = unix.IPPROTO_IPV6, unix.IPV6_RECVPKTINFO // IPv4 addresses come mapped
	}
	var opt error
	err = raw.Control(func(fd uintptr) { opt = unix.SetsockoptInt(int(fd), level, name, 1) })
	return errors.Join(err, opt)
}

// localAddr reads a datagram's destination address from control messages, and makes the control
// message that sends the reply from there.
func localAddr(oob []byte) (local netip.Addr, reply []byte) {
	msgs, err := unix.ParseSocketControlMessage(oob)
	if err != nil {
		return netip.Addr{}, nil
	}
	for _, m := range msgs {
		switch {
		case m.Header.Level == unix.IPPROTO_IP && m.Header.Type == unix.IP_PKTINFO && len(m.Data) >= unix.SizeofInet4Pktinfo:
			a := [4]byte(m.Data[8:12]) // ipi_addr, after the interface and ipi_spec_dst
			return netip.AddrFrom4(a), unix.PktInfo4(&unix.Inet4Pktinfo{Spec_dst: a})
		case m.Header.Level == unix.IPPROTO_IPV6 && m.Header.Type == unix.IPV6_PKTINFO && len(m.Data) >= unix.SizeofInet6Pktinfo:
			info := unix.Inet6Pktinfo{Addr: [16]byte(m.Data[:16])}
			local = netip.AddrFrom16(info.Addr)
			if local.IsLinkLocalUnicast() { // meaningless without an interface
				info.Ifindex = binary.NativeEndian.Uint32(m.Data[16:])
			}
			return local.Unmap(), unix.PktInfo6(&info)
		}
	}
	return netip.Addr{}, nil
}
