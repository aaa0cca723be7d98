//go:build linux

// Batches of packets that have come: room, network headers, ICRC.

package udp

import (
	"encoding/binary"
	"net/netip"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/nfsrdma/nfsrdma/rnic/internal/look"
)

// An Inbound is packets that have come. It is not for two goroutines at a time, and MUST NOT be
// copied.
type Inbound struct {
	// set once
	msgs    []mmsghdr
	iovs    []unix.Iovec
	names   []unix.RawSockaddrInet6
	control [][2]told
	room    []byte
	each    int // bytes of room for one message
	receive func(uintptr) bool
	errs    *socketErrors

	local   netip.AddrPort
	packets []received
	head    headers
	id      identifier
	n       int // messages
	err     syscall.Errno
	seen    int  // of errs
	looks   bool // before it sleeps
	look    look.Looker
}

// A received is one packet: message i, or a piece of it.
type received struct {
	i, from, to int
	class       byte // TOS, or traffic class
}

// inboundRoom is one byte more than a packet can have, so that a longer one shows. joinedRoom is
// what packets that the kernel has not taken apart can have together.
const (
	inboundRoom = maxDatagram + 1
	joinedRoom  = 1 << 16
)

// NewInbound returns room for n messages of s, each of one packet or, if s has them joined, of
// several.
func NewInbound(s *Socket, n int) *Inbound {
	b := &Inbound{each: inboundRoom, local: s.local, errs: &s.errs, look: look.New()}
	if s.joins {
		n, b.each = max(1, n/joinedShare), joinedRoom
	}
	b.msgs, b.iovs, b.names = make([]mmsghdr, n), make([]unix.Iovec, n), make([]unix.RawSockaddrInet6, n)
	b.control, b.room = make([][2]told, n), make([]byte, n*b.each)
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

// joinedShare is how many times fewer messages there are where they are joined.
const joinedShare = 4

func (b *Inbound) prepare() {
	b.packets = b.packets[:0]
	for i := range b.msgs {
		b.msgs[i].Namelen = unix.SizeofSockaddrInet6
		b.msgs[i].SetControllen(int(unsafe.Sizeof(b.control[0])))
		b.control[i][0].Level, b.control[i][1].Level = -1, -1 // 0 is IPv4's
	}
}

// split finds the packets in the messages that have come.
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
		for more := true; more; more = at < length { // also a message of no bytes is one packet
			end := min(at+size, length)
			b.packets = append(b.packets, received{i, at, end, class})
			at = end
		}
	}
}

// Len is how many packets have come with the last Receive.
func (b *Inbound) Len() int { return len(b.packets) }

// Packet is packet i: its network headers, made up but for what the ICRC covers, and the payload of
// the datagram. A datagram that is longer than any packet is cut, so that its ICRC is wrong. good
// reports whether the ICRC is right. Both slices are valid until the next call of Packet or
// Receive.
func (b *Inbound) Packet(i int) (network, datagram []byte, good bool) {
	r := b.packets[i]
	datagram = b.room[r.i*b.each:][r.from:min(r.to, r.from+inboundRoom)]
	network = b.head.of(b.from(r.i), b.local, len(datagram), 0)
	putClass(network, r.class)
	if b.local.Addr().Is4() {
		return network, datagram, b.id.identify(network, datagram) // where no identification suits, the ICRC is wrong
	}
	return network, datagram, b.id.icrc.Valid(network, datagram)
}

// putClass sets the TOS or traffic class in network headers that have a flow label of 0. It is
// outside of the ICRC.
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

// source is the address that the kernel has written.
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
