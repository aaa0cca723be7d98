// Recovers an IPv4 packet's identification from its ICRC.

package udp

import (
	"encoding/binary"
	"hash/crc32"
	"math/bits"

	"github.com/nfsrdma/nfsrdma/rnic/roce/packet"
)

// Offset of the identification, and the number of bytes after it under the ICRC's headers.
const (
	atID    = 4
	afterID = packet.IPv4Len + packet.UDPLen - atID - 2
)

// maxDatagram is the longest received datagram: a packet with the largest path MTU.
const maxDatagram = packet.MaxHeaderLen + 4096 + 4 + packet.ICRCLen

// An identifier recovers identifications. A bit's effect on the ICRC depends on the number of
// bytes after it, so each packet length has its own basis, computed for the first such packet.
type identifier struct {
	icrc  packet.ICRC
	bases [maxDatagram/4 + 1]*basis
}

// A basis spans the effects of the identification's 16 bits on an ICRC. Its vectors have distinct
// highest bits, each with the identification that produces it.
type basis struct {
	vectors [32]uint32 // by highest bit; 0: none
	ids     [32]uint16
}

// identify sets the identification in network, initially 0, to the one that makes the datagram's
// ICRC valid. It reports whether there is one.
func (d *identifier) identify(network, datagram []byte) bool {
	end := len(datagram) - packet.ICRCLen
	if end < packet.BTHLen || len(datagram) > maxDatagram || len(datagram)%4 != 0 || d.icrc.Start(network, datagram[:end]) != nil {
		return false
	}
	differs := d.icrc.Sum() ^ binary.LittleEndian.Uint32(datagram[end:])
	if differs == 0 {
		return true
	}
	b := &d.bases[len(datagram)/4]
	if *b == nil {
		*b = newBasis(afterID + end)
	}
	id, ok := (*b).solve(differs)
	if ok {
		binary.BigEndian.PutUint16(network[atID:], id)
	}
	return ok
}

// newBasis computes the basis for an identification with n bytes after it.
func newBasis(n int) *basis {
	b := new(basis)
	message := make([]byte, 2+n)
	none := crc32.ChecksumIEEE(message)
	for bit := range 16 {
		id := uint16(1) << bit
		binary.BigEndian.PutUint16(message, id)
		b.insert(crc32.ChecksumIEEE(message)^none, id)
	}
	return b
}

// insert adds a vector. Vectors of 16 adjacent bits are independent: a 32-bit CRC distinguishes
// any two bursts of up to 32 bits.
func (b *basis) insert(v uint32, id uint16) {
	for v != 0 {
		high := bits.Len32(v) - 1
		if b.vectors[high] == 0 {
			b.vectors[high], b.ids[high] = v, id
			return
		}
		v ^= b.vectors[high]
		id ^= b.ids[high]
	}
}

// solve returns the identification that changes an ICRC by v; ok is false if there is none.
func (b *basis) solve(v uint32) (id uint16, ok bool) {
	for v != 0 {
		high := bits.Len32(v) - 1
		if b.vectors[high] == 0 {
			return 0, false
		}
		v ^= b.vectors[high]
		id ^= b.ids[high]
	}
	return id, true
}
