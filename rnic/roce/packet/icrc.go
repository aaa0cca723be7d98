// The invariant CRC: Ethernet's CRC-32 over all fields that routers do not change.

package packet

import (
	"bytes"
	"encoding/binary"

	"github.com/nfsrdma/nfsrdma/rnic/internal/crcieee"
)

// ICRCLen is the size of the ICRC at a packet's end.
const ICRCLen = 4

// The CRC starts with eight 0xff bytes for the LRH, which RoCEv2 lacks (IBA ICRC seed [IBU-217]).
const absentLRH = 8

// maxMasked is the most that Start copies for masking: absent LRH, IPv6, UDP and BTH.
const maxMasked = absentLRH + GRHLen + UDPLen + BTHLen

// An ICRC computes one packet's invariant CRC after another, in one pass over a packet's pieces
// (IBA 7.8.1, Annex A17; IBA ICRC algorithm [IBU-216]). Fields that routers change count as ones:
//
//	IPv4  TOS, TTL, header checksum                  [IBU-218]
//	IPv6  traffic class, flow label, hop limit       [IBU-219]
//	UDP   checksum                                   [IBU-220]
//	BTH   byte 4: FECN, BECN and the reserved bits   [IBU-220]
//
// The zero value is ready to use. An ICRC is not safe for concurrent use. It has space for the
// masked headers, so a reused one allocates nothing. For consecutive packets with equal network
// headers it computes their CRC only once.
type ICRC struct {
	crc  uint32
	room [maxMasked]byte

	known  [maxMasked]byte // the last network headers, unmasked
	length int             // of known, in bytes
	before uint32          // the CRC over them
}

// Start begins a packet. network has its IP and UDP headers as they are on the wire. headers
// starts with the whole BTH; bytes after it also count, and need no Add.
func (c *ICRC) Start(network, headers []byte) error { return c.StartWith(network, headers, Tail{}) }

// A Tail is the CRC over a packet's last N bytes, computed while copying them. N = 0 means
// unknown.
type Tail = crcieee.Piece

// CopyTail copies a packet's end, without the ICRC, to the front of dst.
func CopyTail(dst, src []byte) Tail { return crcieee.Copy(dst, src) }

// StartWith is Start with a known CRC over the end of headers, which it does not read.
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

// network computes the CRC over network headers.
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

// Add adds the packet's next piece: extended headers, payload, pad.
func (c *ICRC) Add(b []byte) { c.crc = crcieee.Update(c.crc, b) }

// Sum returns the ICRC over the bytes since Start.
func (c *ICRC) Sum() uint32 { return c.crc }

// PutICRC stores an ICRC at the front of b, least significant byte first (IBA ICRC byte order
// [IBU-221]).
func PutICRC(b []byte, icrc uint32) { binary.LittleEndian.PutUint32(b, icrc) }

// Valid reports whether a received packet ends with its ICRC. network is as for Start, packet the
// datagram's payload. A packet that is too short or has other network headers is invalid (IBA
// ICRC [IBU-222]).
func (c *ICRC) Valid(network, packet []byte) bool {
	end := len(packet) - ICRCLen
	if end < BTHLen || c.Start(network, packet[:end]) != nil {
		return false
	}
	return c.Sum() == binary.LittleEndian.Uint32(packet[end:])
}
