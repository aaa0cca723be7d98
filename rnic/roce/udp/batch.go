//go:build linux

// Outgoing packet batches: buffers, network headers, ICRC.

package udp

import (
	"encoding/binary"
	"errors"
	"net/netip"
	"syscall"
	"unsafe"

	"github.com/nfsrdma/nfsrdma/rnic/roce/packet"
	"golang.org/x/sys/unix"
)

// A Batch collects outgoing packets. If the socket supports it, consecutive packets of one length
// to one peer become one message, which the kernel or the receiver splits (UDP_SEGMENT); the last
// packet may be shorter. The kernel numbers the identifications 0, 1, 2 … (IBA ICRC plain sockets
// IPv4 TX [IBU-224]). A network adapter that splits messages may number otherwise: then the peer
// drops all but the first packet, and retransmitted ones travel Alone.
//
// A Batch is not safe for concurrent use, and MUST NOT be copied.
type Batch struct {
	// set once
	msgs    []mmsghdr
	iovs    []unix.Iovec
	names   []unix.RawSockaddrInet6 // large enough for IPv4 addresses, too
	control []segmentSize
	room    []byte
	send    func(uintptr) bool
	joins   bool
	alone   bool // the next packet is not joined
	errs    *socketErrors

	local netip.AddrPort
	// By identification: packets with equal network headers reuse the ICRC state's CRC over them.
	icrc [maxJoined]packet.ICRC
	head headers

	messages     []gsoMessage // one for each used element of msgs
	done         int          // messages that have left
	n            int          // packets in the batch
	at, reported int          // packets that have left; packets already reported by Send
	err          syscall.Errno
	full         bool // the last system call found no room
	seen         int  // last seen errs.count
}

// A gsoMessage is the packets joined into one message.
type gsoMessage struct {
	to       netip.AddrPort
	first, n int // packets
	size     int // of each packet but the last
	bytes    int
	closed   bool // the last packet is shorter, so no more can join
}

// Limits for one message: packets as Linux takes since 4.18, and bytes as a UDP datagram takes.
const (
	maxJoined      = 64
	maxJoinedBytes = 65_000
)

// NewBatch returns a batch with room for n packets of s.
func NewBatch(s *Socket, n int) *Batch {
	b := &Batch{msgs: make([]mmsghdr, n), iovs: make([]unix.Iovec, n), names: make([]unix.RawSockaddrInet6, n), control: make([]segmentSize, n),
		room: make([]byte, n*maxDatagram), local: s.local, joins: s.joins, errs: &s.errs}
	for i := range b.msgs {
		b.iovs[i].Base = &b.room[i*maxDatagram]
		b.msgs[i].Name = (*byte)(unsafe.Pointer(&b.names[i]))
		b.control[i].Level, b.control[i].Type = unix.IPPROTO_UDP, unix.UDP_SEGMENT
		b.control[i].SetLen(unix.CmsgLen(2))
	}
	b.send = b.sendmmsg
	return b
}

// Len returns the number of waiting packets.
func (b *Batch) Len() int { return b.n - b.at }

// Full reports whether the batch has no Room.
func (b *Batch) Full() bool { return b.n == len(b.msgs) }

// Room returns the buffer for the next packet: transport headers, payload and pad; see Add.
func (b *Batch) Room() []byte {
	return b.room[b.n*maxDatagram : (b.n+1)*maxDatagram-packet.ICRCLen]
}

var errFamily = errors.New("roce: an address of another family than the socket's")

// Add appends the packet of n bytes built in Room, and its ICRC. t is the known CRC over the
// packet's end. Add fails if to is not in the socket's address family.
func (b *Batch) Add(n int, t packet.Tail, to netip.AddrPort) error {
	if to.Addr().Is4() != b.local.Addr().Is4() {
		return errFamily
	}
	size := n + packet.ICRCLen
	var id int
	g := b.last(to, size)
	if b.alone {
		g = nil
	}
	if g != nil {
		id = g.n
	}
	if err := b.sign(b.n, n, t, to, id); err != nil {
		return err
	}
	b.iovs[b.n].SetLen(size)
	b.n++
	k := len(b.messages) - 1
	if g == nil {
		k++
		b.messages = append(b.messages, gsoMessage{to: to, first: b.n - 1, n: 1, size: size, bytes: size, closed: b.alone})
		b.alone = false
		b.address(k)
		return nil
	}
	g.n++
	g.bytes += size
	g.closed = size < g.size
	b.lengthen(k)
	return nil
}

// Alone makes the next added packet travel alone.
func (b *Batch) Alone() { b.alone = true }

// NeverJoin makes all packets added later travel alone.
func (b *Batch) NeverJoin() { b.joins = false }

// last returns the message that a packet can join, or nil.
func (b *Batch) last(to netip.AddrPort, size int) *gsoMessage {
	if !b.joins || len(b.messages) == b.done {
		return nil
	}
	g := &b.messages[len(b.messages)-1]
	if g.closed || g.to != to || size > g.size || g.n == maxJoined || g.bytes+size > maxJoinedBytes {
		return nil
	}
	return g
}

// sign adds the ICRC to packet i, of n bytes, for the given identification.
func (b *Batch) sign(i, n int, t packet.Tail, to netip.AddrPort, id int) error {
	p := b.room[i*maxDatagram:][:n+packet.ICRCLen]
	c := &b.icrc[id]
	if err := c.StartWith(b.head.of(b.local, to, len(p), uint16(id)), p[:n], t); err != nil {
		return err
	}
	packet.PutICRC(p[n:], c.Sum())
	return nil
}

// address sets up a message.
func (b *Batch) address(k int) {
	g, m := &b.messages[k], &b.msgs[k].Msghdr
	m.Iov = &b.iovs[g.first]
	m.Namelen = putName(&b.names[k], g.to)
	m.Control = nil
	m.SetControllen(0)
	b.lengthen(k)
}

// lengthen extends a message to all its packets.
func (b *Batch) lengthen(k int) {
	g, m := &b.messages[k], &b.msgs[k].Msghdr
	m.SetIovlen(g.n)
	if g.n > 1 {
		b.control[k].size = uint16(g.size)
		m.Control = (*byte)(unsafe.Pointer(&b.control[k]))
		m.SetControllen(int(unsafe.Sizeof(b.control[k])))
	}
}

// noteSent marks n more messages as sent.
func (b *Batch) noteSent(n int) {
	for range n {
		b.at += b.messages[b.done].n
		b.done++
	}
}

// splitMessage splits the rest of the batch into single packets after the network has refused a
// joined message. It returns false if the refused message was a single packet. EIO is the
// kernel's error if the interface computes no checksums; from then on the socket joins no
// packets. EINVAL is its error for packets above a reduced MTU, and concerns only their length.
func (b *Batch) splitMessage() bool {
	g := b.messages[b.done]
	if g.n == 1 {
		return false
	}
	switch b.err {
	case unix.EIO, unix.EOPNOTSUPP:
		b.joins = false
	}
	rest := b.messages[b.done:]
	packets := make([]gsoMessage, 0, b.n-b.at)
	for _, g := range rest {
		for i := g.first; i < g.first+g.n; i++ {
			size := int(b.iovs[i].Len)
			_ = b.sign(i, size-packet.ICRCLen, packet.Tail{}, g.to, 0) // as at Add
			packets = append(packets, gsoMessage{to: g.to, first: i, n: 1, size: size, bytes: size})
		}
	}
	b.messages = append(b.messages[:0], packets...)
	b.done = 0
	for k := range b.messages {
		b.address(k)
	}
	return true
}

// Drop removes the packet on which Send failed.
func (b *Batch) Drop() {
	if b.at < b.n {
		b.noteSent(1)
		b.reported = b.at
	}
	if b.at == b.n {
		b.reset()
	}
}

func (b *Batch) reset() {
	b.n, b.at, b.reported, b.done = 0, 0, 0, 0
	b.messages = b.messages[:0]
}

// A headers caches the last packet's network headers, for a next one with equal length and
// addresses.
type headers struct {
	from, to netip.AddrPort
	size     int
	length   int // used part of room
	room     [packet.GRHLen + packet.UDPLen]byte
}

// of returns a datagram's network headers, valid until the next call; see header.
func (h *headers) of(from, to netip.AddrPort, n int, id uint16) []byte {
	if h.size != n || h.to != to || h.from != from {
		h.from, h.to, h.size, h.length = from, to, n, len(header(h.room[:], from, to, n, id))
	} else if from.Addr().Is4() {
		// The ICRC does not cover the header checksum, which depends on the identification.
		binary.BigEndian.PutUint16(h.room[atID:], id)
	}
	return h.room[:h.length]
}

// header writes the network headers of a datagram of n bytes at the front of b. Fields that
// routers change have arbitrary values.
func header(b []byte, from, to netip.AddrPort, n int, id uint16) []byte {
	length := packet.UDPLen + n
	var at int
	if from.Addr().Is4() {
		ip := packet.IPv4{Length: uint16(packet.IPv4Len + length), ID: id, Fragment: packet.DontFragment, TTL: 64, Src: from.Addr(), Dst: to.Addr()}
		at = ip.Put(b)
	} else {
		ip := packet.GRH{PayLen: uint16(length), NxtHdr: packet.ProtocolUDP, HopLmt: 64, SGID: from.Addr(), DGID: to.Addr()}
		at = ip.Put(b)
	}
	udp := packet.UDP{Src: from.Port(), Dst: to.Port(), Length: uint16(length)}
	return b[:at+udp.Put(b[at:])]
}

// putName writes the socket address for the kernel, and returns its length.
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

// putPort stores a port in network byte order.
func putPort(field *uint16, port uint16) {
	binary.BigEndian.PutUint16((*[2]byte)(unsafe.Pointer(field))[:], port)
}
