// Addressing by IP: the service ID of a port, and the header in front of a REQ's private data.

package mad

import (
	"encoding/binary"
	"errors"
	"net/netip"
)

// ServiceID names what is asked for. Those of IP ports (IBA A11.3):
//
//	off  size  field
//	  0     5  prefix: 00 00 00 00 01
//	  5     1  IP protocol
//	  6     2  port
type ServiceID uint64

const servicePrefix ServiceID = 0x00_00_00_00_01_00_0000

// The protocols whose ports rdma_cm uses: TCP's for RC and UDP's for UD. Linux serves UC under its
// port space RDMA_PS_IB alone, whose number stands in the place of a protocol.
const (
	ProtocolTCP = 6
	ProtocolUDP = 17
	ProtocolIB  = 0x3f
)

// IPService returns the service ID of a port.
func IPService(protocol uint8, port uint16) ServiceID {
	return servicePrefix | ServiceID(protocol)<<16 | ServiceID(port)
}

// IP returns the protocol and the port of a service ID; ok is false if it is not one of a port.
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
// An IPv4 address is in the last 4 bytes of its field, and the 12 before it are zero: not
// the form that a GID has. IPCMLen bytes of 92 leave 56 to the consumer of a REQ, and of
// 216 leave 180 to that of a SIDR_REQ.
const (
	IPCMLen = 36

	ipcmSource      = 4
	ipcmDestination = 20
)

// What can be wrong with an IP CM header: the REQ is refused, there is no address to
// tell the listener.
var (
	errIPCMShort    = errors.New("private data shorter than the IP CM header")
	errIPCMVersion  = errors.New("IP CM header of another version than 0.0")
	errIPVersion    = errors.New("IP CM header for an IP version that is neither 4 nor 6")
	errIPCMFamilies = errors.New("IP CM header needs two addresses of one family")
)

// An IPCM says who connects to whom. The destination's port is in the service ID.
type IPCM struct {
	Source      netip.AddrPort
	Destination netip.Addr // of the family of Source
}

// Append appends the IPCMLen bytes. Addresses that are not both IPv4 or both IPv6 are an
// error. One that is IPv4 mapped into IPv6 is sent as IPv6, as it stands; a zone is not sent.
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

// ParseIPCM reads the header at the front of private data. The addresses are the peer's
// words: nothing but the IP header of the packet says where it came from.
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
