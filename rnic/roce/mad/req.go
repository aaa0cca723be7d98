// REQ: the connection request.

package mad

import "encoding/binary"

// REQ (IBA 12.6.5, Table 106):
//
//	off  size  field
//	  0     4  local communication ID
//	  4     4  reserved
//	  8     8  service ID
//	 16     8  local CA GUID
//	 24     4  reserved
//	 28     4  local Q_Key
//	 32     3  local QPN
//	 35     1  responder resources
//	 36     3  local EECN
//	 39     1  initiator depth
//	 40     3  remote EECN
//	 43     1  remote CM response timeout 0xf8, transport service 0x06, flow control 0x01
//	 44     3  starting PSN
//	 47     1  local CM response timeout 0xf8, retry count 0x07
//	 48     2  P_Key
//	 50     1  path MTU 0xf0, RDC exists 0x08, RNR retry count 0x07
//	 51     1  max CM retries 0xf0, SRQ 0x08, extended transport type 0x07
//	 52    44  primary path
//	 96    44  alternate path; its last byte has SAP supported 0x04
//	140    92  private data
const (
	reqPrimary   = 52
	reqAlternate = 96
	reqPrivate   = 140

	sapSupported = 0x04
)

// A REQ asks the passive side for a connection, with all parameters of the active side.
type REQ struct {
	LocalCommID  uint32 // the active side's connection ID
	ServiceID    ServiceID
	LocalCAGUID  uint64
	LocalQKey    uint32
	LocalQPN     uint32 // 24 bits
	LocalEECN    uint32 // 24 bits, RD only
	RemoteEECN   uint32 // 24 bits, RD only
	StartingPSN  uint32 // 24 bits: the passive side's first PSN (IBA 12.7.31)
	PartitionKey uint16

	ResponderResources uint8 // Reads and atomics that the active side answers concurrently
	InitiatorDepth     uint8 // Reads and atomics that it wants to have outstanding

	RemoteCMTimeout Timeout // the passive side must answer within this
	LocalCMTimeout  Timeout // the active side answers within this
	MaxCMRetries    uint8   // 4 bits: repetitions of this REQ

	Service           Service
	ExtendedTransport uint8 // 3 bits
	FlowControl       bool  // end to end, by AETH credits
	RetryCount        uint8 // 3 bits
	RNRRetryCount     uint8 // 3 bits; 7 means forever
	PathMTU           MTU
	RDCExists         bool // RD only
	SRQ               bool
	SAPSupported      bool // suggested alternate paths

	Primary, Alternate Path

	PrivateData [DataLen - reqPrivate]byte // rdma_cm: IPCM, then the consumer's part
}

// Append appends the DataLen bytes of the message.
func (r *REQ) Append(b []byte) []byte {
	b, d := grow(b)
	binary.BigEndian.PutUint32(d[0:], r.LocalCommID)
	binary.BigEndian.PutUint64(d[8:], uint64(r.ServiceID))
	binary.BigEndian.PutUint64(d[16:], r.LocalCAGUID)
	binary.BigEndian.PutUint32(d[28:], r.LocalQKey)
	putUint24(d[32:], r.LocalQPN)
	d[35] = r.ResponderResources
	putUint24(d[36:], r.LocalEECN)
	d[39] = r.InitiatorDepth
	putUint24(d[40:], r.RemoteEECN)
	d[43] = byte(r.RemoteCMTimeout)<<3 | byte(r.Service&3)<<1 | bit(r.FlowControl, 0x01)
	putUint24(d[44:], r.StartingPSN)
	d[47] = byte(r.LocalCMTimeout)<<3 | r.RetryCount&7
	binary.BigEndian.PutUint16(d[48:], r.PartitionKey)
	d[50] = byte(r.PathMTU)<<4 | bit(r.RDCExists, 0x08) | r.RNRRetryCount&7
	d[51] = r.MaxCMRetries<<4 | bit(r.SRQ, 0x08) | r.ExtendedTransport&7
	r.Primary.put((*[pathLen]byte)(d[reqPrimary:]))
	r.Alternate.put((*[pathLen]byte)(d[reqAlternate:]))
	d[reqPrivate-1] |= bit(r.SAPSupported, sapSupported)
	copy(d[reqPrivate:], r.PrivateData[:])
	return b
}

// ParseREQ decodes a REQ. It accepts any value in any field: for unsupported values the listener
// chooses a reject reason.
func ParseREQ(d *Data) REQ {
	return REQ{
		LocalCommID:        binary.BigEndian.Uint32(d[0:]),
		ServiceID:          ServiceID(binary.BigEndian.Uint64(d[8:])),
		LocalCAGUID:        binary.BigEndian.Uint64(d[16:]),
		LocalQKey:          binary.BigEndian.Uint32(d[28:]),
		LocalQPN:           uint24(d[32:]),
		ResponderResources: d[35],
		LocalEECN:          uint24(d[36:]),
		InitiatorDepth:     d[39],
		RemoteEECN:         uint24(d[40:]),
		RemoteCMTimeout:    Timeout(d[43] >> 3),
		Service:            Service(d[43] >> 1 & 3),
		FlowControl:        d[43]&0x01 != 0,
		StartingPSN:        uint24(d[44:]),
		LocalCMTimeout:     Timeout(d[47] >> 3),
		RetryCount:         d[47] & 7,
		PartitionKey:       binary.BigEndian.Uint16(d[48:]),
		PathMTU:            MTU(d[50] >> 4),
		RDCExists:          d[50]&0x08 != 0,
		RNRRetryCount:      d[50] & 7,
		MaxCMRetries:       d[51] >> 4,
		SRQ:                d[51]&0x08 != 0,
		ExtendedTransport:  d[51] & 7,
		Primary:            parsePath((*[pathLen]byte)(d[reqPrimary:])),
		Alternate:          parsePath((*[pathLen]byte)(d[reqAlternate:])),
		SAPSupported:       d[reqPrivate-1]&sapSupported != 0,
		PrivateData:        [DataLen - reqPrivate]byte(d[reqPrivate:]),
	}
}
