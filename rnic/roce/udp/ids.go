// The identification of an IPv4 packet, found out from its ICRC.

package udp

import (
	"encoding/binary"
	"hash/crc32"
	"math/bits"

	"github.com/nfsrdma/nfsrdma/rnic/roce/packet"
)

// Where the identification is, and what follows it in the headers under the ICRC.
const (
	atID    = 4
	afterID = packet.IPv4Len + packet.UDPLen - atID - 2
)

// maxDatagram is the longest datagram that is received: a packet of the largest path MTU.
const maxDatagram = packet.MaxHeaderLen + 4096 + 4 + packet.ICRCLen

// An identifier finds identifications. What a bit of the identification does to the ICRC depends on
// how much follows it, so there is a basis for each length of a packet, made when the first of that
// length comes.
type identifier struct {
	icrc  packet.ICRC
	bases [maxDatagram/4 + 1]*basis
}

// A basis is what the 16 bits of an identification can do to an ICRC, as vectors of which no two
// begin with the same bit, and the identification that does each.
type basis struct {
	vectors [32]uint32 // by their highest bit; 0: none
	ids     [32]uint16
}

// identify sets the identification in network, which has 0 there, to the one that makes the ICRC of
// the datagram right, and reports whether there is one.
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

// newBasis is the basis for an identification with n bytes after it.
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

// insert adds a vector. Those of 16 bits that lie together are independent: a CRC of 32 bits tells
// any two bursts of up to 32 bits apart.
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

// solve returns the identification that changes an ICRC by v; ok is false if none does.
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
