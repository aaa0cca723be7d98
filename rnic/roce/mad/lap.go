// LAP and APR for alternate paths: refusing one, and requesting none.

package mad

import "encoding/binary"

// LAP (IBA 12.8.1, Table 115). The fields after the QPN describe the path, which does not matter
// for a refusal:
//
//	off  size  field
//	  0     4  local communication ID
//	  4     4  remote communication ID
//	  8     4  reserved
//	 12     3  remote QPN or EECN
//	 15     1  remote CM response timeout 0xf8, reserved 0x07
//	 16     4  reserved
//	 20    44  alternate path
//	 64   168  private data

// A LAP asks the peer to load an alternate path. RoCE has no use for one, because an IP network
// reroutes by itself. A LAP without a path cannot be granted; its answer shows whether the peer
// knows the connection.
type LAP struct {
	LocalCommID, RemoteCommID uint32
	RemoteQPN                 uint32 // 24 bits
	RemoteCMTimeout           Timeout
}

// ParseLAP decodes the part of a LAP needed for its answer.
func ParseLAP(d *Data) LAP {
	return LAP{
		LocalCommID:     binary.BigEndian.Uint32(d[0:]),
		RemoteCommID:    binary.BigEndian.Uint32(d[4:]),
		RemoteQPN:       uint24(d[12:]),
		RemoteCMTimeout: Timeout(d[15] >> 3),
	}
}

// Append appends the message's DataLen bytes, without a path.
func (r *LAP) Append(b []byte) []byte {
	b, d := grow(b)
	binary.BigEndian.PutUint32(d[0:], r.LocalCommID)
	binary.BigEndian.PutUint32(d[4:], r.RemoteCommID)
	putUint24(d[12:], r.RemoteQPN)
	d[15] = byte(r.RemoteCMTimeout) << 3
	return b
}

// APR (IBA 12.8.2, Table 116):
//
//	off  size  field
//	  0     4  local communication ID
//	  4     4  remote communication ID
//	  8     1  additional information length
//	  9     1  AP status
//	 10     2  reserved
//	 12    72  additional information
//	 84   148  private data

// AP statuses: unknown connection, and no support for alternate paths.
const (
	APInvalidCommID = 1
	APUnsupported   = 2
)

// An APR answers a LAP.
type APR struct {
	LocalCommID, RemoteCommID uint32
	Status                    uint8 // 0 is success
	InfoLen                   uint8 // used bytes of Info, at most InfoMax
	Info                      [InfoMax]byte
	PrivateData               [DataLen - rejPrivate]byte
}

// Append appends the message's DataLen bytes. It limits InfoLen to InfoMax.
func (r *APR) Append(b []byte) []byte {
	b, d := grow(b)
	binary.BigEndian.PutUint32(d[0:], r.LocalCommID)
	binary.BigEndian.PutUint32(d[4:], r.RemoteCommID)
	d[8] = min(r.InfoLen, InfoMax)
	d[9] = r.Status
	copy(d[rejInfo:], r.Info[:])
	copy(d[rejPrivate:], r.PrivateData[:])
	return b
}

// ParseAPR decodes an APR. An InfoLen above InfoMax is an error.
func ParseAPR(d *Data) (APR, error) {
	r := APR{
		LocalCommID:  binary.BigEndian.Uint32(d[0:]),
		RemoteCommID: binary.BigEndian.Uint32(d[4:]),
		InfoLen:      d[8],
		Status:       d[9],
		Info:         [InfoMax]byte(d[rejInfo:]),
		PrivateData:  [DataLen - rejPrivate]byte(d[rejPrivate:]),
	}
	if r.InfoLen > InfoMax {
		return APR{}, errInfoLength
	}
	return r, nil
}
