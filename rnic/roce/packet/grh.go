// The 40 bytes before a received UD payload: a GRH, or an IPv4 header in its place.

package packet

import (
	"encoding/binary"
	"net/netip"
)

// GRHLen is the size of the Global Route Header, and of the space that a UD receive reserves
// before the payload (IBA 11.4.1.2 [IBU-235]).
const GRHLen = 40

const (
	version6   = 6
	maskFlow   = 1<<20 - 1
	shiftClass = 20
	shiftIPVer = 28
)

// GRH is the Global Route Header, in RoCEv2 the IPv6 header (IBA 8.3, IBA wire RoCEv2 GRH
// [IBU-196]):
//
//	off  size  field
//	  0     4  IPVer 4 bits, TClass 8, FlowLabel 20
//	  4     2  PayLen: bytes after this header
//	  6     1  NxtHdr
//	  7     1  HopLmt
//	  8    16  SGID
//	 24    16  DGID
//
// A GID is an IPv6 address; an IPv4 address is mapped to ::ffff:a.b.c.d.
type GRH struct {
	TClass    uint8
	FlowLabel uint32 // 20 bits
	PayLen    uint16
	NxtHdr    uint8 // ProtocolUDP in RoCEv2
	HopLmt    uint8
	SGID      netip.Addr
	DGID      netip.Addr
}

// Put writes the header at the front of b, which must be long enough, and returns its length. The
// GIDs MUST be set.
func (h *GRH) Put(b []byte) int {
	_ = b[GRHLen-1]
	binary.BigEndian.PutUint32(b[0:], version6<<shiftIPVer|uint32(h.TClass)<<shiftClass|h.FlowLabel&maskFlow)
	binary.BigEndian.PutUint16(b[4:], h.PayLen)
	b[6] = h.NxtHdr
	b[7] = h.HopLmt
	src, dst := h.SGID.As16(), h.DGID.As16()
	copy(b[8:], src[:])
	copy(b[24:], dst[:])
	return GRHLen
}

// ParseGRH reads the header at the front of b. rest is the remainder and aliases b.
func ParseGRH(b []byte) (h GRH, rest []byte, err error) {
	if len(b) < GRHLen {
		return h, nil, ErrShort
	}
	first := binary.BigEndian.Uint32(b)
	if first>>shiftIPVer != version6 {
		return h, nil, ErrNetwork
	}
	h.TClass = uint8(first >> shiftClass)
	h.FlowLabel = first & maskFlow
	h.PayLen = binary.BigEndian.Uint16(b[4:])
	h.NxtHdr = b[6]
	h.HopLmt = b[7]
	h.SGID = netip.AddrFrom16([16]byte(b[8:]))
	h.DGID = netip.AddrFrom16([16]byte(b[24:]))
	return h, b[GRHLen:], nil
}
