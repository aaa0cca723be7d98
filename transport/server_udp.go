// The server over UDP: a datagram for each call and reply, for rarely used programs.

package transport

import (
	"context"
	"encoding/binary"
	"errors"
	"net"
	"net/netip"
	"sync"
	"time"

	"github.com/nfsrdma/nfsrdma/rpcrdma"
	"github.com/nfsrdma/nfsrdma/rpcrdma/mem"
	"golang.org/x/sys/unix"
)

const (
	// udpCalls bounds a socket's calls in progress; clients repeat dropped datagrams.
	udpCalls  = 64
	udpRecord = 8 << 10 // largest call, in bytes
	udpReply  = 8 << 10 // largest reply, in bytes: enough for a port mapper (RFC 1833)
)

// ServeUDP serves calls from the socket until Shutdown, which closes it, and then returns
// ErrClosed.
//
// Source addresses in datagrams are easily forged. So a reply to another machine is dropped if it
// has more bytes than its call: the server must not amplify a flood against a third party. A reply
// leaves from the call's destination address.
func (s *Server) ServeUDP(pc *net.UDPConn) error {
	u, err := newUDPSocket(s, pc)
	if err == nil {
		err = s.listen(pc)
	}
	if err != nil {
		pc.Close()
		return err
	}
	s.pool.join(&u.work, u.peer.client())
	u.receive()
	err = <-u.ended
	u.cancel()
	s.pool.withdraw(&u.work)
	u.calls.waitIdle()
	s.pool.leave(&u.work)
	return s.unlisten(pc, err)
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
	ended    chan error // gets the error that ended the socket

	mu   sync.Mutex
	from map[*Call]udpFrom // of calls in progress
}

// A udpFrom is a call's source and size.
type udpFrom struct {
	remote netip.AddrPort
	local  []byte // control message that makes the reply leave from the call's destination
	size   int
}

// mayHave reports whether a reply of that many bytes may be sent. A reply longer than the call
// would amplify an attack with a forged source. A loopback source is not forged: the kernel accepts
// no such datagram from outside.
func (f *udpFrom) mayHave(reply int) bool {
	return reply <= udpReply && (reply <= f.size || f.remote.Addr().IsLoopback())
}

func newUDPSocket(s *Server, pc *net.UDPConn) (*udpSocket, error) {
	u := &udpSocket{srv: s, pc: pc, from: map[*Call]udpFrom{}, ended: make(chan error, 1)}
	u.receiver.init(&s.pool, u.receive)
	u.ctx, u.cancel = context.WithCancel(context.Background())
	u.calls.init(udpCalls, udpCalls*udpReply)
	u.work.most, u.work.slots = ownWorkers, udpCalls
	return u, askLocalAddr(pc)
}

func (u *udpSocket) queues() *connQueues { return &u.work }

func (u *udpSocket) request(*Call) *rpcrdma.Request { return nil }

func (u *udpSocket) uncork(*Call) {} // a udpSocket collects no replies

func (u *udpSocket) inputWaits(*Call) bool { return true }

// receive makes its goroutine the leader, and takes datagrams until the socket is closed or a
// follower leads.
func (u *udpSocket) receive() {
	oob := make([]byte, 128)
	for {
		rec := mem.Get(udpRecord + 1)
		n, control, flags, remote, err := u.pc.ReadMsgUDPAddrPort(rec.B, oob)
		switch {
		case errors.Is(err, net.ErrClosed):
			rec.Put()
			u.ended <- err
			return
		case err != nil: // an earlier datagram's error, such as an ICMP message
			rec.Put()
			time.Sleep(budgetPoll)
			continue
		case flags&unix.MSG_TRUNC != 0 || n > udpRecord || !u.calls.tryEnter():
			rec.Put()
			continue
		}
		local, reply := localAddr(oob[:control])
		if !u.serve(rec, n, udpFrom{netip.AddrPortFrom(remote.Addr().Unmap(), remote.Port()), reply, n}, local) {
			return
		}
	}
}

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
	if n < 0 || n > udpReply {
		return nil
	}
	return c.socket.buffer(n)
}

func (u *udpSocket) reply(c *Call) {
	from := u.forget(c)
	var g gatherList
	g.message(&c.socket.mark, &c.res)
	reply := make([]byte, 0, recordSize(&c.res)+markLen)
	for _, piece := range g.list {
		reply = append(reply, piece...)
	}
	reply = reply[markLen:] // datagrams have no record mark
	if from.mayHave(len(reply)) {
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
