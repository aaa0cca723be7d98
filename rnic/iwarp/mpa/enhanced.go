// Enhanced data of RFC 6581: IRD, ORD and the ready-to-receive options.

package mpa

import "encoding/binary"

// Enhanced data (RFC 6581 §9), two 16-bit words:
//
//	A 0x8000  peer-to-peer      B 0x4000  RTR may be a zero-length Send     IRD 0x3fff
//	C 0x8000  … RDMA Write      D 0x4000  … RDMA Read                       ORD 0x3fff
const (
	EnhancedLen = 4

	// NotNegotiated in IRD or ORD leaves that value to the ULP (RFC 6581 §9.1).
	NotNegotiated uint16 = 0x3fff
)

// Enhanced is a start-up frame's enhanced data.
type Enhanced struct {
	PeerToPeer                 bool // A: the initiator opens with an RTR message
	RTRSend, RTRWrite, RTRRead bool // B, C, D: kinds of RTR; all false unless PeerToPeer
	IRD, ORD                   uint16
}

// append appends the four bytes. IRD and ORD above 14 bits are sent as NotNegotiated.
func (e *Enhanced) append(b []byte) []byte {
	ird, ord := min(e.IRD, NotNegotiated), min(e.ORD, NotNegotiated)
	if e.PeerToPeer { // without A the other flags are zero, RFC 6581 §9.2 [R6581-051]
		ird |= 0x8000 | bit(e.RTRSend, 0x4000)
		ord |= bit(e.RTRWrite, 0x8000) | bit(e.RTRRead, 0x4000)
	}
	b = binary.BigEndian.AppendUint16(b, ird)
	return binary.BigEndian.AppendUint16(b, ord)
}

// parseEnhanced parses the front of b, at least EnhancedLen bytes.
func parseEnhanced(b []byte) Enhanced {
	ird, ord := binary.BigEndian.Uint16(b), binary.BigEndian.Uint16(b[2:])
	e := Enhanced{PeerToPeer: ird&0x8000 != 0, IRD: ird & 0x3fff, ORD: ord & 0x3fff}
	if e.PeerToPeer { // RFC 6581 §9.2 [R6581-052]
		e.RTRSend = ird&0x4000 != 0
		e.RTRWrite = ord&0x8000 != 0
		e.RTRRead = ord&0x4000 != 0
	}
	return e
}

func bit(set bool, b uint16) uint16 {
	if set {
		return b
	}
	return 0
}
