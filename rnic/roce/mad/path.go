// Path records in a REQ, and the GIDs that RoCE derives from IP addresses.

package mad

import (
	"encoding/binary"
	"net/netip"
)

// Path record in a REQ (Table 106; primary at 52, alternate at 96):
//
//	off  size  field
//	  0     2  local port LID              RoCE: 0xffff, there are none
//	  2     2  remote port LID
//	  4    16  local port GID
//	 20    16  remote port GID
//	 36     4  flow label 0xfffff000, reserved 0x00000fc0, packet rate 0x0000003f
//	 40     1  traffic class
//	 41     1  hop limit
//	 42     1  SL 0xf0, subnet local 0x08, reserved 0x07
//	 43     1  local ACK timeout 0xf8, reserved 0x07 (0x04 of the alternate: SAP supported)
const pathLen = 44

// GID is a port's address: for RoCEv2 the IPv6 address, or a mapped IPv4 address, ::ffff:a.b.c.d
// (IBA A17.4.5).
type GID [16]byte

// GIDOf returns an IPv4 or IPv6 address's GID, without a zone.
func GIDOf(a netip.Addr) GID {
	if !a.IsValid() {
		return GID{} // an absent alternate path has no GID
	}
	return a.As16()
}

// Addr returns a GID's IP address, unmapped.
func (g GID) Addr() netip.Addr { return netip.AddrFrom16(g).Unmap() }

// A Path has a REQ sender's addressing parameters; local means that sender. A path without GIDs
// is absent.
type Path struct {
	LocalLID, RemoteLID uint16
	LocalGID, RemoteGID GID
	FlowLabel           uint32 // 20 bits
	PacketRate          uint8  // 6 bits
	TrafficClass        uint8
	HopLimit            uint8
	SL                  uint8 // 4 bits
	SubnetLocal         bool
	LocalAckTimeout     Timeout
}

// put writes the path to p, which must be zero.
func (a *Path) put(p *[pathLen]byte) {
	binary.BigEndian.PutUint16(p[0:], a.LocalLID)
	binary.BigEndian.PutUint16(p[2:], a.RemoteLID)
	copy(p[4:20], a.LocalGID[:])
	copy(p[20:36], a.RemoteGID[:])
	binary.BigEndian.PutUint32(p[36:], a.FlowLabel<<12|uint32(a.PacketRate&0x3f))
	p[40] = a.TrafficClass
	p[41] = a.HopLimit
	p[42] = a.SL<<4 | bit(a.SubnetLocal, 0x08)
	p[43] = byte(a.LocalAckTimeout) << 3
}

func parsePath(p *[pathLen]byte) Path {
	word := binary.BigEndian.Uint32(p[36:])
	return Path{
		LocalLID:        binary.BigEndian.Uint16(p[0:]),
		RemoteLID:       binary.BigEndian.Uint16(p[2:]),
		LocalGID:        GID(p[4:20]),
		RemoteGID:       GID(p[20:36]),
		FlowLabel:       word >> 12,
		PacketRate:      uint8(word & 0x3f),
		TrafficClass:    p[40],
		HopLimit:        p[41],
		SL:              p[42] >> 4,
		SubnetLocal:     p[42]&0x08 != 0,
		LocalAckTimeout: Timeout(p[43] >> 3),
	}
}
