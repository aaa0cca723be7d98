// DREQ and DREP: disconnecting, in either direction.

package mad

import "encoding/binary"

// DREQ (IBA 12.6.10, Table 112); a DREP has the layout of an RTU:
//
//	off  size  field
//	  0     4  local communication ID
//	  4     4  remote communication ID
//	  8     3  remote QPN or EECN, 1 reserved
//	 12   220  private data
const dreqPrivate = 12

// A DREQ ends a connection.
type DREQ struct {
	LocalCommID, RemoteCommID uint32
	// RemoteQPN is the receiver's, 24 bits, so that guessing the IDs is not enough.
	RemoteQPN   uint32
	PrivateData [DataLen - dreqPrivate]byte
}

// Append appends the DataLen bytes of the message.
func (r *DREQ) Append(b []byte) []byte {
	b, d := grow(b)
	binary.BigEndian.PutUint32(d[0:], r.LocalCommID)
	binary.BigEndian.PutUint32(d[4:], r.RemoteCommID)
	putUint24(d[8:], r.RemoteQPN)
	copy(d[dreqPrivate:], r.PrivateData[:])
	return b
}

// ParseDREQ decodes a DREQ.
func ParseDREQ(d *Data) DREQ {
	return DREQ{
		LocalCommID:  binary.BigEndian.Uint32(d[0:]),
		RemoteCommID: binary.BigEndian.Uint32(d[4:]),
		RemoteQPN:    uint24(d[8:]),
		PrivateData:  [DataLen - dreqPrivate]byte(d[dreqPrivate:]),
	}
}

// A DREP answers a DREQ, even for an unknown connection.
type DREP struct {
	LocalCommID, RemoteCommID uint32
	PrivateData               [DataLen - rtuPrivate]byte
}

// Append appends the DataLen bytes of the message.
func (r *DREP) Append(b []byte) []byte { return (*RTU)(r).Append(b) }

// ParseDREP decodes a DREP.
func ParseDREP(d *Data) DREP { return DREP(ParseRTU(d)) }
