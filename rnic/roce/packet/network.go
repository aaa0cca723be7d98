// The network headers before a packet that the ICRC covers: IPv4 without options, and UDP.

package packet

import (
	"encoding/binary"
	"errors"
	"net/netip"
)

// Port is the UDP port of RoCEv2, ProtocolUDP the protocol number before its header.
const (
	Port        = 4791
	ProtocolUDP = 17
)

// Sizes of the headers. IPv4 options do not occur (IBA wire RoCEv2 IPv4 [IBU-188]).
const (
	IPv4Len = 20
	UDPLen  = 8

	versionIHL = 0x45
)

// DontFragment is the flag in IPv4.Fragment that RoCEv2 packets have.
const DontFragment = 0x4000

// ErrNetwork is what stands before a packet and is no network header that RoCEv2 has.
var ErrNetwork = errors.New("neither IPv4 without options nor IPv6")

// IPv4 is the IPv4 header (RFC 791 §3.1), of a packet whose protocol is UDP:
//
//	off  size  field                     off  size  field
//	  0     1  version 4, IHL 5            8     1  TTL
//	  1     1  TOS                         9     1  protocol 17
//	  2     2  total length               10     2  header checksum
//	  4     2  identification             12     4  source address
//	  6     2  flags 3, fragment offset   16     4  destination address
type IPv4 struct {
	TOS      uint8
	Length   uint16 // of the packet, this header included
	ID       uint16 // under the ICRC, so a sender has to know what its kernel puts here
	Fragment uint16 // flags and offset; under the ICRC
	TTL      uint8
	Src      netip.Addr
	Dst      netip.Addr
}

// Put writes the header, with its checksum, at the front of b, which has room for it, and returns
// its length. The addresses MUST be IPv4 or mapped.
func (h *IPv4) Put(b []byte) int {
	_ = b[IPv4Len-1]
	b[0] = versionIHL
	b[1] = h.TOS
	binary.BigEndian.PutUint16(b[2:], h.Length)
	binary.BigEndian.PutUint16(b[4:], h.ID)
	binary.BigEndian.PutUint16(b[6:], h.Fragment)
	b[8] = h.TTL
	b[9] = ProtocolUDP
	b[10], b[11] = 0, 0
	src, dst := h.Src.As4(), h.Dst.As4()
	copy(b[12:], src[:])
	copy(b[16:], dst[:])
	binary.BigEndian.PutUint16(b[10:], ^onesSum(b[:IPv4Len]))
	return IPv4Len
}

// ParseIPv4 reads the header at the front of b; rest is what follows it and aliases b. The checksum
// is not looked at: the kernel validated it, or it stands in a UD receive, where nothing goes by
// it.
func ParseIPv4(b []byte) (h IPv4, rest []byte, err error) {
	if len(b) < IPv4Len {
		return h, nil, ErrShort
	}
	if b[0] != versionIHL || b[9] != ProtocolUDP {
		return h, nil, ErrNetwork
	}
	h.TOS = b[1]
	h.Length = binary.BigEndian.Uint16(b[2:])
	h.ID = binary.BigEndian.Uint16(b[4:])
	h.Fragment = binary.BigEndian.Uint16(b[6:])
	h.TTL = b[8]
	h.Src = netip.AddrFrom4([4]byte(b[12:]))
	h.Dst = netip.AddrFrom4([4]byte(b[16:]))
	return h, b[IPv4Len:], nil
}

// UDP is the UDP header (RFC 768): source port, destination port, length, checksum, two bytes each.
type UDP struct {
	Src      uint16
	Dst      uint16
	Length   uint16 // of the datagram, this header and the ICRC included (IBA ICRC [IBU-223])
	Checksum uint16 // outside the ICRC
}

// Put writes the header at the front of b, which has room for it, and returns its length.
func (h *UDP) Put(b []byte) int {
	_ = b[UDPLen-1]
	binary.BigEndian.PutUint16(b[0:], h.Src)
	binary.BigEndian.PutUint16(b[2:], h.Dst)
	binary.BigEndian.PutUint16(b[4:], h.Length)
	binary.BigEndian.PutUint16(b[6:], h.Checksum)
	return UDPLen
}

// ParseUDP reads the header at the front of b; rest is what follows it and aliases b.
func ParseUDP(b []byte) (h UDP, rest []byte, err error) {
	if len(b) < UDPLen {
		return h, nil, ErrShort
	}
	h.Src = binary.BigEndian.Uint16(b[0:])
	h.Dst = binary.BigEndian.Uint16(b[2:])
	h.Length = binary.BigEndian.Uint16(b[4:])
	h.Checksum = binary.BigEndian.Uint16(b[6:])
	return h, b[UDPLen:], nil
}

// onesSum is the ones' complement sum of 16-bit words (RFC 1071).
func onesSum(b []byte) uint16 {
	var sum uint32
	for i := 0; i < len(b); i += 2 {
		sum += uint32(binary.BigEndian.Uint16(b[i:]))
	}
	sum = sum>>16 + sum&0xffff
	return uint16(sum>>16 + sum)
}
