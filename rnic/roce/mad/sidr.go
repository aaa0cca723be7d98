// SIDR_REQ and SIDR_REP: finding a datagram service's queue pair.

package mad

import "encoding/binary"

// SIDR_REQ (IBA 12.11.1, Table 119):
//
//	off  size  field
//	  0     4  request ID
//	  4     2  P_Key
//	  6     2  reserved
//	  8     8  service ID
//	 16   216  private data
const sidrReqPrivate = 16

// A SIDRREQ asks for a UD service's queue pair.
type SIDRREQ struct {
	RequestID    uint32 // the sender's, repeated in the answer
	PartitionKey uint16
	ServiceID    ServiceID
	PrivateData  [DataLen - sidrReqPrivate]byte // rdma_cm: IPCM, then the consumer's part
}

// Append appends the DataLen bytes of the message.
func (r *SIDRREQ) Append(b []byte) []byte {
	b, d := grow(b)
	binary.BigEndian.PutUint32(d[0:], r.RequestID)
	binary.BigEndian.PutUint16(d[4:], r.PartitionKey)
	binary.BigEndian.PutUint64(d[8:], uint64(r.ServiceID))
	copy(d[sidrReqPrivate:], r.PrivateData[:])
	return b
}

// ParseSIDRREQ decodes a SIDR_REQ.
func ParseSIDRREQ(d *Data) SIDRREQ {
	return SIDRREQ{
		RequestID:    binary.BigEndian.Uint32(d[0:]),
		PartitionKey: binary.BigEndian.Uint16(d[4:]),
		ServiceID:    ServiceID(binary.BigEndian.Uint64(d[8:])),
		PrivateData:  [DataLen - sidrReqPrivate]byte(d[sidrReqPrivate:]),
	}
}

// SIDR_REP (IBA 12.11.2, Table 120):
//
//	off  size  field
//	  0     4  request ID
//	  4     1  status
//	  5     1  additional information length
//	  6     2  reserved
//	  8     3  QPN, 1 reserved
//	 12     8  service ID
//	 20     4  Q_Key
//	 24    72  additional information
//	 96   136  private data
const (
	sidrRepInfo    = 24
	sidrRepPrivate = sidrRepInfo + InfoMax
)

// SIDRStatus is a SIDR_REP's outcome.
type SIDRStatus uint8

// The outcomes.
const (
	SIDRValid       SIDRStatus = 0
	SIDRUnsupported SIDRStatus = 1 // no listener
	SIDRRejected    SIDRStatus = 2 // the listener's program refused
	SIDRNoQP        SIDRStatus = 3
	SIDRRedirect    SIDRStatus = 4 // Info has the address to ask instead
	SIDRVersion     SIDRStatus = 5
)

var sidrStatuses = [...]string{
	SIDRValid: "valid QPN", SIDRUnsupported: "service ID not supported", SIDRRejected: "rejected by the service provider",
	SIDRNoQP: "no queue pair available", SIDRRedirect: "redirected", SIDRVersion: "unsupported version",
}

func (s SIDRStatus) String() string { return name(sidrStatuses[:], int(s), "SIDR status ") }

// A SIDRREP answers a SIDRREQ. QPN and Q_Key are valid only with SIDRValid.
type SIDRREP struct {
	RequestID   uint32
	Status      SIDRStatus
	QPN         uint32 // 24 bits
	ServiceID   ServiceID
	QKey        uint32
	InfoLen     uint8 // used bytes of Info, at most InfoMax
	Info        [InfoMax]byte
	PrivateData [DataLen - sidrRepPrivate]byte
}

// Append appends the message's DataLen bytes. It limits InfoLen to InfoMax.
func (r *SIDRREP) Append(b []byte) []byte {
	b, d := grow(b)
	binary.BigEndian.PutUint32(d[0:], r.RequestID)
	d[4] = byte(r.Status)
	d[5] = min(r.InfoLen, InfoMax)
	putUint24(d[8:], r.QPN)
	binary.BigEndian.PutUint64(d[12:], uint64(r.ServiceID))
	binary.BigEndian.PutUint32(d[20:], r.QKey)
	copy(d[sidrRepInfo:], r.Info[:])
	copy(d[sidrRepPrivate:], r.PrivateData[:])
	return b
}

// ParseSIDRREP decodes a SIDR_REP. An InfoLen above InfoMax is an error.
func ParseSIDRREP(d *Data) (SIDRREP, error) {
	r := SIDRREP{
		RequestID:   binary.BigEndian.Uint32(d[0:]),
		Status:      SIDRStatus(d[4]),
		InfoLen:     d[5],
		QPN:         uint24(d[8:]),
		ServiceID:   ServiceID(binary.BigEndian.Uint64(d[12:])),
		QKey:        binary.BigEndian.Uint32(d[20:]),
		Info:        [InfoMax]byte(d[sidrRepInfo:]),
		PrivateData: [DataLen - sidrRepPrivate]byte(d[sidrRepPrivate:]),
	}
	if r.InfoLen > InfoMax {
		return SIDRREP{}, errInfoLength
	}
	return r, nil
}
