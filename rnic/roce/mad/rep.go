// REP, RTU and MRA: accepting a REQ, confirming that, and delaying it.

package mad

import "encoding/binary"

// REP (IBA 12.6.8, Table 110):
//
//	off  size  field
//	  0     4  local communication ID
//	  4     4  remote communication ID
//	  8     4  local Q_Key
//	 12     3  local QPN, 1 reserved
//	 16     3  local EE context number, 1 reserved
//	 20     3  starting PSN, 1 reserved
//	 24     1  responder resources
//	 25     1  initiator depth
//	 26     1  target ACK delay 0xf8, failover accepted 0x06, end-to-end flow control 0x01
//	 27     1  RNR retry count 0xe0, SRQ 0x10, reserved 0x0f
//	 28     8  local CA GUID
//	 36   196  private data
const repPrivate = 36

// A REP accepts a connection. Local means its sender, the passive side.
type REP struct {
	LocalCommID, RemoteCommID uint32
	LocalQKey                 uint32
	LocalQPN                  uint32 // 24 bits
	LocalEECN                 uint32 // 24 bits, RD only
	// StartingPSN is the active side's first PSN, 24 bits (IBA 12.7.31).
	StartingPSN        uint32
	ResponderResources uint8
	InitiatorDepth     uint8 // at most the REQ's responder resources
	TargetAckDelay     Timeout
	FailoverAccepted   uint8 // 2 bits: 1 and 2 refuse the alternate path
	FlowControl        bool
	RNRRetryCount      uint8 // 3 bits
	SRQ                bool
	LocalCAGUID        uint64
	PrivateData        [DataLen - repPrivate]byte
}

// Append appends the DataLen bytes of the message.
func (r *REP) Append(b []byte) []byte {
	b, d := grow(b)
	binary.BigEndian.PutUint32(d[0:], r.LocalCommID)
	binary.BigEndian.PutUint32(d[4:], r.RemoteCommID)
	binary.BigEndian.PutUint32(d[8:], r.LocalQKey)
	putUint24(d[12:], r.LocalQPN)
	putUint24(d[16:], r.LocalEECN)
	putUint24(d[20:], r.StartingPSN)
	d[24] = r.ResponderResources
	d[25] = r.InitiatorDepth
	d[26] = byte(r.TargetAckDelay)<<3 | (r.FailoverAccepted&3)<<1 | bit(r.FlowControl, 0x01)
	d[27] = r.RNRRetryCount<<5 | bit(r.SRQ, 0x10)
	binary.BigEndian.PutUint64(d[28:], r.LocalCAGUID)
	copy(d[repPrivate:], r.PrivateData[:])
	return b
}

// ParseREP decodes a REP.
func ParseREP(d *Data) REP {
	return REP{
		LocalCommID:        binary.BigEndian.Uint32(d[0:]),
		RemoteCommID:       binary.BigEndian.Uint32(d[4:]),
		LocalQKey:          binary.BigEndian.Uint32(d[8:]),
		LocalQPN:           uint24(d[12:]),
		LocalEECN:          uint24(d[16:]),
		StartingPSN:        uint24(d[20:]),
		ResponderResources: d[24],
		InitiatorDepth:     d[25],
		TargetAckDelay:     Timeout(d[26] >> 3),
		FailoverAccepted:   d[26] >> 1 & 3,
		FlowControl:        d[26]&0x01 != 0,
		RNRRetryCount:      d[27] >> 5,
		SRQ:                d[27]&0x10 != 0,
		LocalCAGUID:        binary.BigEndian.Uint64(d[28:]),
		PrivateData:        [DataLen - repPrivate]byte(d[repPrivate:]),
	}
}

// RTU (IBA 12.6.9, Table 111) and DREP (12.6.11, Table 113) have the same layout:
//
//	off  size  field
//	  0     4  local communication ID
//	  4     4  remote communication ID
//	  8   224  private data
const rtuPrivate = 8

// An RTU reports that the active side is ready to use the connection.
type RTU struct {
	LocalCommID, RemoteCommID uint32
	PrivateData               [DataLen - rtuPrivate]byte
}

// Append appends the DataLen bytes of the message.
func (r *RTU) Append(b []byte) []byte {
	b, d := grow(b)
	binary.BigEndian.PutUint32(d[0:], r.LocalCommID)
	binary.BigEndian.PutUint32(d[4:], r.RemoteCommID)
	copy(d[rtuPrivate:], r.PrivateData[:])
	return b
}

// ParseRTU decodes an RTU.
func ParseRTU(d *Data) RTU {
	return RTU{
		LocalCommID:  binary.BigEndian.Uint32(d[0:]),
		RemoteCommID: binary.BigEndian.Uint32(d[4:]),
		PrivateData:  [DataLen - rtuPrivate]byte(d[rtuPrivate:]),
	}
}

// MRA (IBA 12.6.6, Table 107):
//
//	off  size  field
//	  0     4  local communication ID
//	  4     4  remote communication ID
//	  8     1  message MRAed 0xc0, reserved 0x3f
//	  9     1  service timeout 0xf8, reserved 0x07
//	 10   222  private data
const mraPrivate = 10

// An MRA asks the peer to wait longer for an answer: its message has arrived.
type MRA struct {
	LocalCommID, RemoteCommID uint32
	Message                   Answered
	ServiceTimeout            Timeout // maximum further delay
	PrivateData               [DataLen - mraPrivate]byte
}

// Append appends the DataLen bytes of the message.
func (m *MRA) Append(b []byte) []byte {
	b, d := grow(b)
	binary.BigEndian.PutUint32(d[0:], m.LocalCommID)
	binary.BigEndian.PutUint32(d[4:], m.RemoteCommID)
	d[8] = byte(m.Message) << 6
	d[9] = byte(m.ServiceTimeout) << 3
	copy(d[mraPrivate:], m.PrivateData[:])
	return b
}

// ParseMRA decodes an MRA.
func ParseMRA(d *Data) MRA {
	return MRA{
		LocalCommID:    binary.BigEndian.Uint32(d[0:]),
		RemoteCommID:   binary.BigEndian.Uint32(d[4:]),
		Message:        Answered(d[8] >> 6),
		ServiceTimeout: Timeout(d[9] >> 3),
		PrivateData:    [DataLen - mraPrivate]byte(d[mraPrivate:]),
	}
}
