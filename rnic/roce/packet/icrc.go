// The invariant CRC: Ethernet's CRC-32 over all that no router changes.

package packet

import (
	"bytes"
	"encoding/binary"

	"github.com/nfsrdma/nfsrdma/rnic/internal/crcieee"
)

// ICRCLen is the size of the ICRC, which ends every packet.
const ICRCLen = 4

// The CRC begins with the LRH that RoCEv2 does not have, as eight bytes of ones (IBA ICRC seed
// [IBU-217]).
const absentLRH = 8

// maxMasked is the most that Start copies to mask it: absent LRH, IPv6, UDP and BTH.
const maxMasked = absentLRH + GRHLen + UDPLen + BTHLen

// An ICRC computes the invariant CRC of one packet after another, in one pass over the pieces that
// the packet lies in (IBA 7.8.1, Annex A17; IBA ICRC algorithm [IBU-216]). Fields that a router
// changes count as ones:
//
//	IPv4  TOS, TTL, header checksum                  [IBU-218]
//	IPv6  traffic class, flow label, hop limit       [IBU-219]
//	UDP   checksum                                   [IBU-220]
//	BTH   byte 4: FECN, BECN and the reserved bits   [IBU-220]
//
// The zero value is ready. It is not for two goroutines at a time. It has the room for the masked
// headers, so one that stays where it is makes no garbage. Packets that follow each other with the
// same network headers have the CRC of those computed once.
type ICRC struct {
	crc  uint32
	room [maxMasked]byte

	known  [maxMasked]byte // network headers, as they were given
	length int             // of known
	before uint32          // the CRC up to their end
}

// Start begins a packet. network is its IP and UDP headers as they are on the wire; headers begins
// with the whole BTH, and all of it counts: what follows the BTH need not come to Add again.
func (c *ICRC) Start(network, headers []byte) error { return c.StartWith(network, headers, Tail{}) }

// A Tail is the CRC of the last N bytes of what there is of a packet: it was computed where they
// were copied, in the same pass. With N of 0 nothing is known.
type Tail = crcieee.Piece

// CopyTail copies what is to be the end of a packet, but for the ICRC, to the front of dst.
func CopyTail(dst, src []byte) Tail { return crcieee.Copy(dst, src) }

// StartWith is Start with what is known of the end of headers, whose bytes are not looked at.
func (c *ICRC) StartWith(network, headers []byte, t Tail) error {
	if len(headers)-t.N < BTHLen {
		return ErrShort
	}
	if c.length == 0 || !bytes.Equal(c.known[:c.length], network) {
		if err := c.network(network); err != nil {
			return err
		}
	}
	bth := c.room[:BTHLen]
	copy(bth, headers)
	bth[4] = 0xff
	c.crc = crcieee.Update(c.before, bth)
	c.Add(headers[BTHLen : len(headers)-t.N])
	c.crc = crcieee.Join(c.crc, t)
	return nil
}

// network computes the CRC of network headers.
func (c *ICRC) network(network []byte) error {
	b := c.room[:absentLRH]
	for i := range b {
		b[i] = 0xff
	}
	ip := c.room[absentLRH:]
	var n int
	switch {
	case len(network) == IPv4Len+UDPLen && network[0] == versionIHL:
		n = copy(ip, network)
		ip[1], ip[8], ip[10], ip[11] = 0xff, 0xff, 0xff, 0xff
	case len(network) == GRHLen+UDPLen && network[0]>>4 == version6:
		n = copy(ip, network)
		ip[0] |= 0x0f
		ip[1], ip[2], ip[3], ip[7] = 0xff, 0xff, 0xff, 0xff
	default:
		return ErrNetwork
	}
	ip[n-2], ip[n-1] = 0xff, 0xff
	c.before = crcieee.Update(0, c.room[:absentLRH+n])
	c.length = copy(c.known[:], network)
	return nil
}

// Add takes the next piece of the packet: extended headers, payload, pad.
func (c *ICRC) Add(b []byte) { c.crc = crcieee.Update(c.crc, b) }

// Sum returns the ICRC of what there was since Start.
func (c *ICRC) Sum() uint32 { return c.crc }

// PutICRC stores an ICRC in the first four bytes of b, least significant byte first (IBA ICRC byte
// order [IBU-221]).
func PutICRC(b []byte, icrc uint32) { binary.LittleEndian.PutUint32(b, icrc) }

// Valid reports whether a packet that was received whole ends with its ICRC. network is as for
// Start, packet the payload of the datagram. One that is too short or came in another way is not
// valid (IBA ICRC [IBU-222]).
func (c *ICRC) Valid(network, packet []byte) bool {
	end := len(packet) - ICRCLen
	if end < BTHLen || c.Start(network, packet[:end]) != nil {
		return false
	}
	return c.Sum() == binary.LittleEndian.Uint32(packet[end:])
}
