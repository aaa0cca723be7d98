// LAP and APR: alternate paths, as far as it takes to refuse them, and to ask for none.

package mad

import "encoding/binary"

// LAP (IBA 12.8.1, Table 115). What is after the QPN says which path, which matters to
// nobody who refuses every one:
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

// A LAP asks the peer to load an alternate path. An IP network does the rerouting itself, so RoCE
// has no use for one. One without a path cannot be granted; its answer reports whether the peer
// knows the connection.
type LAP struct {
	LocalCommID, RemoteCommID uint32
	RemoteQPN                 uint32 // 24 bits
	RemoteCMTimeout           Timeout
}

// ParseLAP reads the part of a LAP that its answer needs.
func ParseLAP(d *Data) LAP {
	return LAP{
		LocalCommID:     binary.BigEndian.Uint32(d[0:]),
		RemoteCommID:    binary.BigEndian.Uint32(d[4:]),
		RemoteQPN:       uint24(d[12:]),
		RemoteCMTimeout: Timeout(d[15] >> 3),
	}
}

// Append appends the DataLen bytes of the message, which has no path.
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

// What an AP status says: there is no such connection, and the CM does not do alternate paths.
const (
	APInvalidCommID = 1
	APUnsupported   = 2
)

// An APR answers a LAP.
type APR struct {
	LocalCommID, RemoteCommID uint32
	Status                    uint8 // 0 is success
	InfoLen                   uint8 // bytes of Info that count, at most InfoMax
	Info                      [InfoMax]byte
	PrivateData               [DataLen - rejPrivate]byte
}

// Append appends the DataLen bytes of the message. An InfoLen above InfoMax is sent as
// InfoMax.
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

// ParseAPR reads an APR. One that says it has more additional information than fits is an error.
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
