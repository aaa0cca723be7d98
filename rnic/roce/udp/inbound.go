//go:build linux

// Incoming packet batches: buffers, network headers, ICRC.

package udp

import (
	"encoding/binary"
	"net/netip"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/nfsrdma/nfsrdma/rnic/internal/rxwait"
)

// An Inbound holds received packets. It is not safe for concurrent use, and MUST NOT be copied.
type Inbound struct {
	// set once
	msgs    []mmsghdr
	iovs    []unix.Iovec
	names   []unix.RawSockaddrInet6
	control [][2]recvControl
	room    []byte
	each    int // buffer size for one message
	receive func(uintptr) bool
	errs    *socketErrors

	local   netip.AddrPort
	packets []received
	head    headers
	id      identifier
	n       int // received messages
	err     syscall.Errno
	seen    int  // last seen errs.count
	spins   bool // spin before sleeping
	spinner rxwait.Spinner
}

// A received is one packet: a part of message i.
type received struct {
	i, from, to int
	class       byte // TOS, or traffic class
}

// inboundRoom exceeds the longest packet by one byte, to detect longer ones. joinedRoom holds the
// joined packets of one message.
const (
	inboundRoom = maxDatagram + 1
	joinedRoom  = 1 << 16
)

// NewInbound returns an Inbound for n messages of s. If s joins packets, a message may have
// several.
func NewInbound(s *Socket, n int) *Inbound {
	b := &Inbound{each: inboundRoom, local: s.local, errs: &s.errs, spinner: rxwait.NewSpinner()}
	if s.joins {
		n, b.each = max(1, n/joinedShare), joinedRoom
	}
	b.msgs, b.iovs, b.names = make([]mmsghdr, n), make([]unix.Iovec, n), make([]unix.RawSockaddrInet6, n)
	b.control, b.room = make([][2]recvControl, n), make([]byte, n*b.each)
	for i := range b.msgs {
		m := &b.msgs[i].Msghdr
		b.iovs[i].Base = &b.room[i*b.each]
		b.iovs[i].SetLen(b.each)
		m.Iov = &b.iovs[i]
		m.SetIovlen(1)
		m.Name = (*byte)(unsafe.Pointer(&b.names[i]))
		m.Control = (*byte)(unsafe.Pointer(&b.control[i]))
	}
	b.receive = b.recvmmsg
	return b
}

// joinedShare is the divisor for the number of messages if packets are joined.
const joinedShare = 4

func (b *Inbound) prepare() {
	b.packets = b.packets[:0]
	for i := range b.msgs {
		b.msgs[i].Namelen = unix.SizeofSockaddrInet6
		b.msgs[i].SetControllen(int(unsafe.Sizeof(b.control[0])))
		b.control[i][0].Level, b.control[i][1].Level = -1, -1 // 0 means IPv4
	}
}

// split finds the packets in the received messages.
func (b *Inbound) split() {
	for i := range b.n {
		length := int(b.msgs[i].n)
		size, class := length, byte(0)
		for k := range b.control[i] {
			switch c := &b.control[i][k]; {
			case c.Level == unix.IPPROTO_UDP && c.Type == unix.UDP_GRO:
				if n := int(binary.NativeEndian.Uint32(c.value[:])); n > 0 {
					size = n
				}
			case c.Level == unix.IPPROTO_IP && c.Type == unix.IP_TOS:
				class = c.value[0]
			case c.Level == unix.IPPROTO_IPV6 && c.Type == unix.IPV6_TCLASS:
				class = byte(binary.NativeEndian.Uint32(c.value[:]))
			}
		}
		at := 0
		for more := true; more; more = at < length { // an empty message is one packet, too
			end := min(at+size, length)
			b.packets = append(b.packets, received{i, at, end, class})
			at = end
		}
	}
}

// Len returns the number of packets from the last Receive.
func (b *Inbound) Len() int { return len(b.packets) }

// Packet returns packet i: its network headers, reconstructed as far as the ICRC covers them, and
// its UDP payload. A datagram longer than any packet is cut, which makes its ICRC invalid. good
// reports whether the ICRC is valid. Both slices are valid until the next Packet or Receive.
func (b *Inbound) Packet(i int) (network, datagram []byte, good bool) {
	r := b.packets[i]
	datagram = b.room[r.i*b.each:][r.from:min(r.to, r.from+inboundRoom)]
	network = b.head.of(b.from(r.i), b.local, len(datagram), 0)
	putClass(network, r.class)
	if b.local.Addr().Is4() {
		// Without a matching identification the ICRC is invalid.
		return network, datagram, b.id.identify(network, datagram)
	}
	return network, datagram, b.id.icrc.Valid(network, datagram)
}

// putClass sets the TOS or traffic class in network headers with flow label 0. The ICRC does not
// cover it.
func putClass(network []byte, class byte) {
	if network[0]>>4 == 4 {
		network[1] = class
		return
	}
	network[0], network[1] = 6<<4|class>>4, class<<4
}

func (b *Inbound) from(i int) netip.AddrPort {
	return source(&b.names[i])
}

// source converts an address written by the kernel.
func source(name *unix.RawSockaddrInet6) netip.AddrPort {
	if name.Family == unix.AF_INET {
		n := (*unix.RawSockaddrInet4)(unsafe.Pointer(name))
		return netip.AddrPortFrom(netip.AddrFrom4(n.Addr), getPort(&n.Port))
	}
	return netip.AddrPortFrom(netip.AddrFrom16(name.Addr), getPort(&name.Port))
}

func getPort(field *uint16) uint16 {
	return binary.BigEndian.Uint16((*[2]byte)(unsafe.Pointer(field))[:])
}
