// Addressing by IP: the service ID for a port, and the header before a REQ's private data.

package mad

import (
	"encoding/binary"
	"errors"
	"net/netip"
)

// ServiceID names the requested service. For IP ports (IBA A11.3):
//
//	off  size  field
//	  0     5  prefix: 00 00 00 00 01
//	  5     1  IP protocol
//	  6     2  port
type ServiceID uint64

const servicePrefix ServiceID = 0x00_00_00_00_01_00_0000

// The protocols in rdma_cm's service IDs: TCP for RC and UDP for UD. Linux serves UC only under
// its port space RDMA_PS_IB, with that number in place of a protocol.
const (
	ProtocolTCP = 6
	ProtocolUDP = 17
	ProtocolIB  = 0x3f
)

// IPService returns a port's service ID.
func IPService(protocol uint8, port uint16) ServiceID {
	return servicePrefix | ServiceID(protocol)<<16 | ServiceID(port)
}

// IP returns a service ID's protocol and port; ok is false if it is not a port's.
func (s ServiceID) IP() (protocol uint8, port uint16, ok bool) {
	if s&^0xff_ffff != servicePrefix {
		return 0, 0, false
	}
	return uint8(s >> 16), uint16(s), true
}

// IP CM header (IBA A11.4), at the front of the private data of a REQ or SIDR_REQ:
//
//	off  size  field
//	  0     1  major version 0xf0, minor version 0x0f: both 0
//	  1     1  IP version 0xf0: 4 or 6; reserved 0x0f
//	  2     2  source port
//	  4    16  source address
//	 20    16  destination address
//
// An IPv4 address is in its field's last 4 bytes, after 12 zeros, unlike in a GID. After IPCMLen
// bytes, 56 of 92 bytes remain for the consumer in a REQ, and 180 of 216 in a SIDR_REQ.
const (
	IPCMLen = 36

	ipcmSource      = 4
	ipcmDestination = 20
)

// Errors for an invalid IP CM header: the REQ is refused, because the listener would get no
// address.
var (
	errIPCMShort    = errors.New("private data shorter than the IP CM header")
	errIPCMVersion  = errors.New("IP CM header of another version than 0.0")
	errIPVersion    = errors.New("IP CM header for an IP version that is neither 4 nor 6")
	errIPCMFamilies = errors.New("IP CM header needs two addresses of one family")
)

// An IPCM has a request's source and destination. The destination port is in the service ID.
type IPCM struct {
	Source      netip.AddrPort
	Destination netip.Addr // in Source's address family
}

// Append appends the IPCMLen bytes. It fails unless both addresses are IPv4 or both IPv6. A
// mapped IPv4 address is sent as IPv6; a zone is not sent.
func (c *IPCM) Append(b []byte) ([]byte, error) {
	src, dst := c.Source.Addr(), c.Destination
	if !src.IsValid() || src.BitLen() != dst.BitLen() {
		return b, errIPCMFamilies
	}
	var h [IPCMLen]byte
	binary.BigEndian.PutUint16(h[2:], c.Source.Port())
	if src.Is4() {
		h[1] = 4 << 4
		s, d := src.As4(), dst.As4()
		copy(h[ipcmSource+12:], s[:])
		copy(h[ipcmDestination+12:], d[:])
	} else {
		h[1] = 6 << 4
		s, d := src.As16(), dst.As16()
		copy(h[ipcmSource:], s[:])
		copy(h[ipcmDestination:], d[:])
	}
	return append(b, h[:]...), nil
}

// ParseIPCM reads the header at the front of private data. The addresses are the peer's claim:
// only the packet's IP header shows its source.
func ParseIPCM(private []byte) (c IPCM, consumer []byte, err error) {
	if len(private) < IPCMLen {
		return c, nil, errIPCMShort
	}
	if private[0] != 0 {
		return c, nil, errIPCMVersion
	}
	var src, dst netip.Addr
	switch private[1] >> 4 {
	case 4:
		src = netip.AddrFrom4([4]byte(private[ipcmSource+12:]))
		dst = netip.AddrFrom4([4]byte(private[ipcmDestination+12:]))
	case 6:
		src = netip.AddrFrom16([16]byte(private[ipcmSource:]))
		dst = netip.AddrFrom16([16]byte(private[ipcmDestination:]))
	default:
		return c, nil, errIPVersion
	}
	port := binary.BigEndian.Uint16(private[2:])
	return IPCM{Source: netip.AddrPortFrom(src, port), Destination: dst}, private[IPCMLen:], nil
}
