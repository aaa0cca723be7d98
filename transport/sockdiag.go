// The kernel's answer to whose a socket of this machine is: NETLINK_SOCK_DIAG.

package transport

import (
	"encoding/binary"
	"net"
	"net/netip"

	"golang.org/x/sys/unix"
)

// A sockDiag asks the kernel about sockets and addresses. Its netlink sockets are
// opened by open, and anew after an error. One question at a time.
type sockDiag struct {
	tcp, route netlink
}

// open has the sockets ready while there are descriptors to be had.
func (d *sockDiag) open() {
	_ = d.tcp.open(unix.NETLINK_SOCK_DIAG)
	_ = d.route.open(unix.NETLINK_ROUTE)
}

func (d *sockDiag) close() {
	d.tcp.close()
	d.route.close()
}

// owner returns who has the TCP socket at remote that is connected to ours at local. ownerUDP
// returns who has the UDP socket that is bound to remote.
func (d *sockDiag) owner(local, remote netip.AddrPort) Owner {
	return d.answer(question{local, remote, unix.IPPROTO_TCP})
}
func (d *sockDiag) ownerUDP(local, remote netip.AddrPort) Owner {
	return d.answer(question{local, remote, unix.IPPROTO_UDP})
}

// A question is whose the socket at remote is.
type question struct {
	local, remote netip.AddrPort
	protocol      byte
}

// answer returns who has the socket that q is about. The
// socket is looked for first, whatever its address: a found one is certain. One that is
// not found is another machine's where the kernel says that its address is. Else its
// process has closed it or bound it to a device, and it MUST NOT pass for a remote one.
func (d *sockDiag) answer(q question) Owner {
	if uid, ok := d.find(q, zone(q.remote)); ok {
		return Owner{OwnerLocal, uid}
	}
	if d.elsewhere(q.local.Addr(), q.remote) {
		return Owner{Kind: OwnerRemote}
	}
	// A socket that is bound to a device (SO_BINDTODEVICE) is found by its number only,
	// and one of a link-local address is bound to one or not.
	all, _ := net.Interfaces()
	for _, i := range all[:min(len(all), maxInterfaces)] {
		if uid, ok := d.find(q, uint32(i.Index)); ok {
			return Owner{OwnerLocal, uid}
		}
	}
	return Owner{Kind: OwnerUnknown}
}

// maxInterfaces bounds the questions for one connection.
const maxInterfaces = 64

// zone is the interface of a link-local address, or 0.
func zone(a netip.AddrPort) uint32 {
	if name := a.Addr().Zone(); name != "" {
		if i, err := net.InterfaceByName(name); err == nil {
			return uint32(i.Index)
		}
	}
	return 0
}

// Layout of struct inet_diag_req_v2 and struct inet_diag_msg of linux/inet_diag.h. The
// identity of a socket has ports and addresses in network order, the rest is the host's.
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

// States of TCP as the kernel numbers them. Other sockets than those listed here
// have exchanged a handshake with the peer, which a listening one that merely has
// the same port has not.
const (
	tcpEstablished = 1
	tcpSynSent     = 2
	tcpSynRecv     = 3
	tcpClose       = 7
	tcpCloseWait   = 8
	tcpListen      = 10
	tcpNewSynR     = 12
)

// find looks for the socket that q is about, on the interface that it is bound to (0: on none), and
// returns its user.
func (d *sockDiag) find(q question, dev uint32) (uid uint32, ok bool) {
	var req [diagReqLen]byte
	local, remote := unmap(q.local), unmap(q.remote)
	datagram := q.protocol == unix.IPPROTO_UDP
	req[0] = unix.AF_INET6
	if remote.Addr().Is4() {
		req[0] = unix.AF_INET
	}
	req[1] = q.protocol
	binary.NativeEndian.PutUint32(req[4:], ^uint32(0)) // in every state
	id := req[reqID:]
	from, to := remote, local // the socket that is looked for is the peer's: its source is our remote
	if datagram {
		from, to = to, from // of UDP the kernel has them the other way round: as a packet to the socket would
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
	case tcpClose: // of UDP: not connected
		if !datagram {
			return 0, false
		}
		peer = local
	}
	if source != remote || peer != local {
		return 0, false
	}
	// A socket without an inode has been closed by its process: older kernels then
	// report root as its user (so does TIME_WAIT), whoever had it.
	if binary.NativeEndian.Uint32(msg[msgInode:]) == 0 {
		return 0, false
	}
	return binary.NativeEndian.Uint32(msg[msgUID:]), true
}

// unmap takes the zone away, and the IPv6 around an IPv4 address.
func unmap(a netip.AddrPort) netip.AddrPort {
	return netip.AddrPortFrom(a.Addr().Unmap().WithZone(""), a.Port())
}

func putEnd(port, addr []byte, a netip.AddrPort) {
	binary.BigEndian.PutUint16(port, a.Port())
	copy(addr, a.Addr().AsSlice())
}

// end reads an end of a socket of a family. An IPv6 socket may have IPv4 at both ends.
func end(family byte, port, addr []byte) netip.AddrPort {
	ip := netip.AddrFrom4([4]byte(addr))
	if family == unix.AF_INET6 {
		ip = netip.AddrFrom16([16]byte(addr)).Unmap()
	}
	return netip.AddrPortFrom(ip, binary.BigEndian.Uint16(port))
}

// Layout of struct rtmsg of linux/rtnetlink.h, and of the attribute after it.
const (
	rtmsgLen  = 12
	rtDstLen  = 1
	rtmsgType = 7
	rtaLen    = 4
)

// elsewhere reports whether the address of remote is known to be another machine's: the
// routing table has the addresses of loopback too, and local routes without an interface's
// address. A question that fails leaves it unknown, which is not elsewhere.
func (d *sockDiag) elsewhere(local netip.Addr, remote netip.AddrPort) bool {
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
		return true // an answer: no route leads there, and to an own address one does
	}
	return err == nil && typ == unix.RTM_NEWROUTE && len(msg) >= rtmsgLen && msg[rtmsgType] != unix.RTN_LOCAL
}

func appendAttr(b []byte, typ uint16, value []byte) []byte {
	b = binary.NativeEndian.AppendUint16(b, uint16(rtaLen+len(value)))
	b = binary.NativeEndian.AppendUint16(b, typ)
	return append(b, value...)
}
