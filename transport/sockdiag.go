// Asks the kernel for a local socket's owner: NETLINK_SOCK_DIAG.

package transport

import (
	"encoding/binary"
	"net"
	"net/netip"

	"golang.org/x/sys/unix"
)

// A sockDiag asks the kernel about sockets and addresses. open opens the netlink sockets; after an
// error the next request reopens them. A sockDiag is not safe for concurrent use.
type sockDiag struct {
	tcp, route netlink
}

// open opens the sockets while descriptors are available.
func (d *sockDiag) open() {
	_ = d.tcp.open(unix.NETLINK_SOCK_DIAG)
	_ = d.route.open(unix.NETLINK_ROUTE)
}

func (d *sockDiag) close() {
	d.tcp.close()
	d.route.close()
}

// owner returns the owner of the TCP socket at remote connected to ours at local. ownerUDP
// returns the owner of the UDP socket bound to remote.
func (d *sockDiag) owner(local, remote netip.AddrPort) Owner {
	return d.lookUp(diagRequest{local, remote, unix.IPPROTO_TCP})
}
func (d *sockDiag) ownerUDP(local, remote netip.AddrPort) Owner {
	return d.lookUp(diagRequest{local, remote, unix.IPPROTO_UDP})
}

// A diagRequest asks for the owner of the socket at remote.
type diagRequest struct {
	local, remote netip.AddrPort
	protocol      byte
}

// lookUp returns the owner of q's socket. It first looks for the socket, with any address, because
// a found socket is proof. Otherwise the peer is remote if the kernel says that the address belongs
// to another machine. If not, the peer's process has closed the socket or bound it to a device, and
// the peer MUST NOT pass for a remote peer.
func (d *sockDiag) lookUp(q diagRequest) Owner {
	if uid, ok := d.find(q, zone(q.remote)); ok {
		return Owner{OwnerLocal, uid}
	}
	if d.isRemote(q.local.Addr(), q.remote) {
		return Owner{Kind: OwnerRemote}
	}
	// A socket bound to a device (SO_BINDTODEVICE) is found only by the device's number, and a
	// socket with a link-local address may be bound to a device or not.
	all, _ := net.Interfaces()
	for _, i := range all[:min(len(all), maxInterfaces)] {
		if uid, ok := d.find(q, uint32(i.Index)); ok {
			return Owner{OwnerLocal, uid}
		}
	}
	return Owner{Kind: OwnerUnknown}
}

// zone returns a link-local address's interface, or 0.
func zone(a netip.AddrPort) uint32 {
	if name := a.Addr().Zone(); name != "" {
		if i, err := net.InterfaceByName(name); err == nil {
			return uint32(i.Index)
		}
	}
	return 0
}

// Layout of struct inet_diag_req_v2 and struct inet_diag_msg in linux/inet_diag.h. A socket
// identity has ports and addresses in network order; the rest is in host order.
//
//	request: 0 family, 1 protocol, 4 states, 8 identity
//	reply:   0 family, 1 state, 4 identity, 64 uid, 68 inode
//	identity: 0 source port, 2 destination port, 4 source, 20 destination, 36 interface, 40 cookie
const (
	diagReqLen  = 56
	diagMsgLen  = 72
	diagIDLen   = 48
	reqID       = 8
	msgID       = 4
	msgState    = 1
	msgUID      = 64
	msgInode    = 68
	idDst       = 20
	idInterface = 36
	idCookie    = 40
)

// TCP states by their numbers in the kernel. In the states before an established connection, and
// for a listening socket with the same port, no handshake has proved the peer.
const (
	tcpEstablished = 1
	tcpSynSent     = 2
	tcpSynRecv     = 3
	tcpClose       = 7
	tcpCloseWait   = 8
	tcpListen      = 10
	tcpNewSynR     = 12
)

// find looks up q's socket, bound to interface dev (0: to none), and returns its user.
func (d *sockDiag) find(q diagRequest, dev uint32) (uid uint32, ok bool) {
	var req [diagReqLen]byte
	local, remote := unmap(q.local), unmap(q.remote)
	datagram := q.protocol == unix.IPPROTO_UDP
	req[0] = unix.AF_INET6
	if remote.Addr().Is4() {
		req[0] = unix.AF_INET
	}
	req[1] = q.protocol
	binary.NativeEndian.PutUint32(req[4:], ^uint32(0)) // any state
	id := req[reqID:]
	from, to := remote, local // the peer's socket: its source is our remote
	if datagram {
		// For UDP the kernel expects the direction of a packet to the socket.
		from, to = to, from
	}
	putEnd(id[0:], id[4:], from)
	putEnd(id[2:], id[idDst:], to)
	binary.NativeEndian.PutUint32(id[idInterface:], dev)
	binary.NativeEndian.PutUint64(id[idCookie:], ^uint64(0)) // INET_DIAG_NOCOOKIE
	typ, msg, err := d.tcp.ask(unix.NETLINK_SOCK_DIAG, unix.SOCK_DIAG_BY_FAMILY, req[:])
	if err != nil || typ != unix.SOCK_DIAG_BY_FAMILY || len(msg) < diagMsgLen {
		return 0, false
	}
	got := msg[msgID:]
	source, peer := end(msg[0], got[0:], got[4:]), end(msg[0], got[2:], got[idDst:])
	switch msg[msgState] {
	case tcpSynSent, tcpSynRecv, tcpListen, tcpNewSynR:
		return 0, false
	case tcpClose: // UDP: not connected
		if !datagram {
			return 0, false
		}
		peer = local
	}
	if source != remote || peer != local {
		return 0, false
	}
	// A socket without an inode has been closed by its process. Older kernels then report root as
	// its user (as for TIME_WAIT), regardless of the owner.
	if binary.NativeEndian.Uint32(msg[msgInode:]) == 0 {
		return 0, false
	}
	return binary.NativeEndian.Uint32(msg[msgUID:]), true
}

// unmap removes the zone, and unmaps an IPv4 address.
func unmap(a netip.AddrPort) netip.AddrPort {
	return netip.AddrPortFrom(a.Addr().Unmap().WithZone(""), a.Port())
}

func putEnd(port, addr []byte, a netip.AddrPort) {
	binary.BigEndian.PutUint16(port, a.Port())
	copy(addr, a.Addr().AsSlice())
}

// end decodes a socket's end. An IPv6 socket may have IPv4 at both ends.
func end(family byte, port, addr []byte) netip.AddrPort {
	ip := netip.AddrFrom4([4]byte(addr))
	if family == unix.AF_INET6 {
		ip = netip.AddrFrom16([16]byte(addr)).Unmap()
	}
	return netip.AddrPortFrom(ip, binary.BigEndian.Uint16(port))
}

// Layout of struct rtmsg in linux/rtnetlink.h, and of the attribute after it.
const (
	rtmsgLen  = 12
	rtDstLen  = 1
	rtmsgType = 7
	rtaLen    = 4
)

// isRemote reports whether remote's address certainly belongs to another machine. It asks the
// routing table, because this also has local addresses that no interface has. A failed lookup means
// unknown, thus false.
func (d *sockDiag) isRemote(local netip.Addr, remote netip.AddrPort) bool {
	a := unmap(remote).Addr()
	if a.IsLoopback() || a == local.Unmap().WithZone("") {
		return false
	}
	req := make([]byte, rtmsgLen, 64)
	req[0], req[rtDstLen] = unix.AF_INET6, byte(a.BitLen())
	if a.Is4() {
		req[0] = unix.AF_INET
	}
	req = appendAttr(req, unix.RTA_DST, a.AsSlice())
	if dev := zone(remote); dev != 0 {
		req = appendAttr(req, unix.RTA_OIF, binary.NativeEndian.AppendUint32(nil, dev))
	}
	typ, msg, err := d.route.ask(unix.NETLINK_ROUTE, unix.RTM_GETROUTE, req)
	if err == unix.ENETUNREACH || err == unix.EHOSTUNREACH {
		return true // no route: the address is not this machine's, since each of those has a route
	}
	return err == nil && typ == unix.RTM_NEWROUTE && len(msg) >= rtmsgLen && msg[rtmsgType] != unix.RTN_LOCAL
}

func appendAttr(b []byte, typ uint16, value []byte) []byte {
	b = binary.NativeEndian.AppendUint16(b, uint16(rtaLen+len(value)))
	b = binary.NativeEndian.AppendUint16(b, typ)
	return append(b, value...)
}
