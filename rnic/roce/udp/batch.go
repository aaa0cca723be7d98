//go:build linux

// Batches of packets, out and in: room, network headers, ICRC.

package udp

import (
	"encoding/binary"
	"net/netip"
	"syscall"
	"unsafe"

	"github.com/nfsrdma/nfsrdma/rnic/roce/packet"
	"golang.org/x/sys/unix"
)

// A Batch is packets on their way out. It is not for two goroutines at a time, and MUST NOT be copied.
type Batch struct {
	// set once
	msgs  []mmsghdr
	iovs  []unix.Iovec
	names []unix.RawSockaddrInet6 // as large as one of IPv4
	room  []byte
	send  func(uintptr) bool

	local netip.AddrPort
	icrc  packet.ICRC
	head  [packet.GRHLen + packet.UDPLen]byte

	n, at, told int // packets that are there; have left; were told of by Send
	err         syscall.Errno
}

// NewBatch returns a batch with room for n packets of s.
func NewBatch(s *Socket, n int) *Batch {
	b := &Batch{msgs: make([]mmsghdr, n), iovs: make([]unix.Iovec, n), names: make([]unix.RawSockaddrInet6, n),
		room: make([]byte, n*maxDatagram), local: s.local}
	for i := range b.msgs {
		m := &b.msgs[i].Msghdr
		b.iovs[i].Base = &b.room[i*maxDatagram]
		m.Iov = &b.iovs[i]
		m.SetIovlen(1)
		m.Name = (*byte)(unsafe.Pointer(&b.names[i]))
	}
	b.send = b.sendmmsg
	return b
}

// Len is how many packets wait.
func (b *Batch) Len() int { return b.n - b.at }

// Full reports whether there is no Room.
func (b *Batch) Full() bool { return b.n == len(b.msgs) }

// Room is where the next packet is to be built: transport headers, payload and pad; see Add.
func (b *Batch) Room() []byte {
	return b.room[b.n*maxDatagram : (b.n+1)*maxDatagram-packet.ICRCLen]
}

// Add appends the packet of n bytes that is in Room, and gives it its ICRC. to is of the socket's family.
func (b *Batch) Add(n int, to netip.AddrPort) error {
	p := b.room[b.n*maxDatagram:][:n+packet.ICRCLen]
	head := header(b.head[:], b.local, to, len(p))
	if err := b.icrc.Start(head, p[:n]); err != nil {
		return err
	}
	packet.PutICRC(p[n:], b.icrc.Sum())
	b.iovs[b.n].SetLen(len(p))
	b.msgs[b.n].Namelen = putName(&b.names[b.n], to)
	b.n++
	return nil
}

// Drop takes out the packet that Send has failed on.
func (b *Batch) Drop() {
	if b.at < b.n {
		b.at++
		b.told = b.at
	}
	if b.at == b.n {
		b.reset()
	}
}

func (b *Batch) reset() { b.n, b.at, b.told = 0, 0, 0 }

// header writes the network headers that a datagram of n bytes has on the wire at the front of b. Those fields that
// routers change have any value.
func header(b []byte, from, to netip.AddrPort, n int) []byte {
	length := packet.UDPLen + n
	var at int
	if from.Addr().Is4() {
		ip := packet.IPv4{Length: uint16(packet.IPv4Len + length), Fragment: packet.DontFragment, TTL: 64, Src: from.Addr(), Dst: to.Addr()}
		at = ip.Put(b)
	} else {
		ip := packet.GRH{PayLen: uint16(length), NxtHdr: packet.ProtocolUDP, HopLmt: 64, SGID: from.Addr(), DGID: to.Addr()}
		at = ip.Put(b)
	}
	udp := packet.UDP{Src: from.Port(), Dst: to.Port(), Length: uint16(length)}
	return b[:at+udp.Put(b[at:])]
}

// putName writes the address for the kernel, and returns its length.
func putName(name *unix.RawSockaddrInet6, to netip.AddrPort) uint32 {
	if to.Addr().Is4() {
		n := (*unix.RawSockaddrInet4)(unsafe.Pointer(name))
		*n = unix.RawSockaddrInet4{Family: unix.AF_INET, Addr: to.Addr().As4()}
		putPort(&n.Port, to.Port())
		return unix.SizeofSockaddrInet4
	}
	*name = unix.RawSockaddrInet6{Family: unix.AF_INET6, Addr: to.Addr().As16()}
	putPort(&name.Port, to.Port())
	return unix.SizeofSockaddrInet6
}

// A port stands in network order, whatever the machine's is.
func putPort(field *uint16, port uint16) {
	binary.BigEndian.PutUint16((*[2]byte)(unsafe.Pointer(field))[:], port)
}

func getPort(field *uint16) uint16 {
	return binary.BigEndian.Uint16((*[2]byte)(unsafe.Pointer(field))[:])
}

// An Inbound is packets that have come. It is not for two goroutines at a time, and MUST NOT be copied.
type Inbound struct {
	// set once
	msgs    []mmsghdr
	iovs    []unix.Iovec
	names   []unix.RawSockaddrInet6
	room    []byte
	heads   [][packet.GRHLen + packet.UDPLen]byte
	receive func(uintptr) bool

	lens []int // of the network headers
	id   identifier
	n    int
	err  syscall.Errno
}

// inboundRoom is one byte more than a packet can have, so that a longer one shows.
const inboundRoom = maxDatagram + 1

// NewInbound returns room for n packets.
func NewInbound(n int) *Inbound {
	b := &Inbound{msgs: make([]mmsghdr, n), iovs: make([]unix.Iovec, n), names: make([]unix.RawSockaddrInet6, n),
		room: make([]byte, n*inboundRoom), heads: make([][packet.GRHLen + packet.UDPLen]byte, n), lens: make([]int, n)}
	for i := range b.msgs {
		m := &b.msgs[i].Msghdr
		b.iovs[i].Base = &b.room[i*inboundRoom]
		b.iovs[i].SetLen(inboundRoom)
		m.Iov = &b.iovs[i]
		m.SetIovlen(1)
		m.Name = (*byte)(unsafe.Pointer(&b.names[i]))
	}
	b.receive = b.recvmmsg
	return b
}

func (b *Inbound) prepare() {
	for i := range b.msgs {
		b.msgs[i].Namelen = unix.SizeofSockaddrInet6
	}
}

// Len is how many packets have come with the last Receive.
func (b *Inbound) Len() int { return b.n }

// Packet is packet i: its network headers, made up but for what the ICRC covers, and the payload of the datagram. A
// datagram that is longer than any packet is cut, so that its ICRC is wrong. Both are valid until the next Receive.
func (b *Inbound) Packet(i int) (network, datagram []byte) {
	return b.heads[i][:b.lens[i]], b.room[i*inboundRoom:][:b.msgs[i].n]
}

// head makes up the network headers of packet i.
func (b *Inbound) head(i int, local netip.AddrPort) {
	network := header(b.heads[i][:], b.from(i), local, int(b.msgs[i].n))
	b.lens[i] = len(network)
	if local.Addr().Is4() {
		_, datagram := b.Packet(i)
		b.id.identify(network, datagram) // where no identification suits, the ICRC is wrong, and the packet dropped for that
	}
}

func (b *Inbound) from(i int) netip.AddrPort {
	name := &b.names[i]
	if name.Family == unix.AF_INET {
		n := (*unix.RawSockaddrInet4)(unsafe.Pointer(name))
		return netip.AddrPortFrom(netip.AddrFrom4(n.Addr), getPort(&n.Port))
	}
	return netip.AddrPortFrom(netip.AddrFrom16(name.Addr), getPort(&name.Port))
}
