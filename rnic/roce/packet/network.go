// The network headers covered by the ICRC: IPv4 without options, and UDP.

package packet

import (
	"encoding/binary"
	"errors"
	"net/netip"
)

// Port is RoCEv2's UDP port, ProtocolUDP the IP protocol number for UDP.
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

// ErrNetwork means that a packet has network headers that RoCEv2 does not allow.
var ErrNetwork = errors.New("neither IPv4 without options nor IPv6")

// IPv4 is a UDP packet's IPv4 header (RFC 791 §3.1):
//
//	off  size  field                     off  size  field
//	  0     1  version 4, IHL 5            8     1  TTL
//	  1     1  TOS                         9     1  protocol 17
//	  2     2  total length               10     2  header checksum
//	  4     2  identification             12     4  source address
//	  6     2  flags 3, fragment offset   16     4  destination address
type IPv4 struct {
	TOS      uint8
	Length   uint16 // of the packet including this header
	ID       uint16 // under the ICRC, so a sender must know its kernel's value
	Fragment uint16 // flags and offset; under the ICRC
	TTL      uint8
	Src      netip.Addr
	Dst      netip.Addr
}

// Put writes the header with its checksum at the front of b, which must be long enough, and
// returns its length. The addresses MUST be IPv4 or mapped.
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

// ParseIPv4 reads the header at the front of b. rest is the remainder and aliases b. It ignores
// the checksum: the kernel has validated it, or the header is from a UD receive, where nothing
// uses it.
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
	Length   uint16 // of the datagram including this header and the ICRC (IBA ICRC [IBU-223])
	Checksum uint16 // outside the ICRC
}

// Put writes the header at the front of b, which must be long enough, and returns its length.
func (h *UDP) Put(b []byte) int {
	_ = b[UDPLen-1]
	binary.BigEndian.PutUint16(b[0:], h.Src)
	binary.BigEndian.PutUint16(b[2:], h.Dst)
	binary.BigEndian.PutUint16(b[4:], h.Length)
	binary.BigEndian.PutUint16(b[6:], h.Checksum)
	return UDPLen
}

// ParseUDP reads the header at the front of b. rest is the remainder and aliases b.
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

// onesSum returns the ones' complement sum over 16-bit words (RFC 1071).
func onesSum(b []byte) uint16 {
	var sum uint32
	for i := 0; i < len(b); i += 2 {
		sum += uint32(binary.BigEndian.Uint16(b[i:]))
	}
	sum = sum>>16 + sum&0xffff
	return uint16(sum>>16 + sum)
}
