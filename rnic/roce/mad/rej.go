// REJ: refusing a connection, or giving up while it is opened.

package mad

import (
	"encoding/binary"
	"errors"
)

// REJ (IBA 12.6.7, Table 108):
//
//	off  size  field
//	  0     4  local communication ID
//	  4     4  remote communication ID
//	  8     1  message rejected 0xc0, reserved 0x3f
//	  9     1  reject info length 0xfe, reserved 0x01
//	 10     2  reason
//	 12    72  additional reject information (ARI)
//	 84   148  private data
const (
	// InfoMax is the size of the additional information in a REJ, an APR and a SIDR_REP.
	InfoMax = 72

	rejInfo    = 12
	rejPrivate = rejInfo + InfoMax
)

// errInfoLength makes a REJ, APR or SIDR_REP invalid: its sender counts bytes in the private
// data, so no part is trustworthy.
var errInfoLength = errors.New("additional information longer than its field of 72 bytes")

// A REJ refuses a message, with a reason.
type REJ struct {
	LocalCommID, RemoteCommID uint32 // local is 0 in a stateless refusal of a REQ
	Message                   Answered
	Reason                    Reason
	InfoLen                   uint8         // used bytes of Info, at most InfoMax
	Info                      [InfoMax]byte // for some reasons: an acceptable value
	PrivateData               [DataLen - rejPrivate]byte
}

// Append appends the message's DataLen bytes. It limits InfoLen to InfoMax.
func (r *REJ) Append(b []byte) []byte {
	b, d := grow(b)
	binary.BigEndian.PutUint32(d[0:], r.LocalCommID)
	binary.BigEndian.PutUint32(d[4:], r.RemoteCommID)
	d[8] = byte(r.Message) << 6
	d[9] = min(r.InfoLen, InfoMax) << 1
	binary.BigEndian.PutUint16(d[10:], uint16(r.Reason))
	copy(d[rejInfo:], r.Info[:])
	copy(d[rejPrivate:], r.PrivateData[:])
	return b
}

// ParseREJ decodes a REJ. An InfoLen above InfoMax is an error.
func ParseREJ(d *Data) (REJ, error) {
	r := REJ{
		LocalCommID:  binary.BigEndian.Uint32(d[0:]),
		RemoteCommID: binary.BigEndian.Uint32(d[4:]),
		Message:      Answered(d[8] >> 6),
		InfoLen:      d[9] >> 1,
		Reason:       Reason(binary.BigEndian.Uint16(d[10:])),
		Info:         [InfoMax]byte(d[rejInfo:]),
		PrivateData:  [DataLen - rejPrivate]byte(d[rejPrivate:]),
	}
	if r.InfoLen > InfoMax {
		return REJ{}, errInfoLength
	}
	return r, nil
}
