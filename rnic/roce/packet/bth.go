// The Base Transport Header, which begins every packet.

package packet

import "encoding/binary"

// BTHLen is the size of the Base Transport Header (IBA 9.2, IBA wire RoCEv2 BTH [IBU-191]).
const BTHLen = 12

const (
	flagSE   byte = 0x80
	flagM    byte = 0x40
	maskPad  byte = 0x30
	maskTVer byte = 0x0f

	flagFECN byte = 0x80
	flagBECN byte = 0x40

	flagA byte = 0x80

	low24 = 1<<24 - 1
)

// BTH is the Base Transport Header. Its transport version is always 0; Parse rejects others.
type BTH struct {
	Opcode Opcode
	SE     bool  // solicited event
	M      bool  // MigReq
	Pad    uint8 // bytes of pad after the payload, 0 to 3
	PKey   uint16
	FECN   bool   // forward congestion; outside the ICRC, because switches may set it
	BECN   bool   // backward congestion: set in a CNP, for congestion on our path
	DestQP uint32 // 24 bits
	AckReq bool
	PSN    uint32 // 24 bits
}

// PadFor returns the pad for n bytes of payload (IBA wire RoCEv2 pad [IBU-195]).
func PadFor(n int) uint8 { return uint8(-n & 3) }

// put writes the header at the front of b. It truncates 24-bit numbers and Pad to their fields'
// bits.
func (h *BTH) put(b []byte) {
	_ = b[BTHLen-1]
	b[0] = byte(h.Opcode)
	b[1] = flag(h.SE, flagSE) | flag(h.M, flagM) | h.Pad<<4&maskPad
	binary.BigEndian.PutUint16(b[2:], h.PKey)
	binary.BigEndian.PutUint32(b[4:], h.DestQP&low24)
	b[4] = flag(h.FECN, flagFECN) | flag(h.BECN, flagBECN)
	binary.BigEndian.PutUint32(b[8:], h.PSN&low24)
	b[8] = flag(h.AckReq, flagA)
}

// parse reads the header at the front of b, which must be long enough, and returns the transport
// version.
func (h *BTH) parse(b []byte) (version byte) {
	_ = b[BTHLen-1]
	h.Opcode = Opcode(b[0])
	h.SE = b[1]&flagSE != 0
	h.M = b[1]&flagM != 0
	h.Pad = b[1] & maskPad >> 4
	h.PKey = binary.BigEndian.Uint16(b[2:])
	h.FECN = b[4]&flagFECN != 0
	h.BECN = b[4]&flagBECN != 0
	h.DestQP = binary.BigEndian.Uint32(b[4:]) & low24
	h.AckReq = b[8]&flagA != 0
	h.PSN = binary.BigEndian.Uint32(b[8:]) & low24
	return b[1] & maskTVer
}

// ParseBTH reads the header at the front of a possibly truncated packet. ok is false if b is too
// short or the transport version is not 0.
func ParseBTH(b []byte) (h BTH, ok bool) {
	return h, len(b) >= BTHLen && h.parse(b) == 0
}

// flag returns bit if it is set, else 0.
func flag(set bool, bit byte) byte {
	if set {
		return bit
	}
	return 0
}
