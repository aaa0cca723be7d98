// The message of rping: the address of memory that the peer reads or writes.

package exchange

import "encoding/binary"

// A Region is a memory region of the peer, in a Send of RegionLen bytes, big-endian:
//
//	off  size  field
//	  0     8  address
//	  8     4  R_Key
//	 12     4  size in bytes
type Region struct {
	Addr uint64
	RKey uint32
	Size uint32
}

// RegionLen is the size of an encoded Region.
const RegionLen = 16

// AppendRegion appends a region.
func AppendRegion(b []byte, r Region) []byte {
	b = binary.BigEndian.AppendUint64(b, r.Addr)
	b = binary.BigEndian.AppendUint32(b, r.RKey)
	return binary.BigEndian.AppendUint32(b, r.Size)
}

// ParseRegion parses a region of RegionLen bytes.
func ParseRegion(b []byte) (Region, error) {
	if len(b) != RegionLen {
		return Region{}, errLength
	}
	return Region{Addr: binary.BigEndian.Uint64(b), RKey: binary.BigEndian.Uint32(b[8:]), Size: binary.BigEndian.Uint32(b[12:])}, nil
}
