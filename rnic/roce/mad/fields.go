// Fields that are not whole bytes, and values with a code of their own.

package mad

import (
	"encoding/binary"
	"time"
)

// uint24 reads the 24 bits at the front of b: QPNs, EECNs and PSNs have that size. The
// fourth byte belongs to another field or is reserved.
func uint24(b []byte) uint32 { return binary.BigEndian.Uint32(b) >> 8 }

// putUint24 writes the 24 bits at the front of b and leaves the fourth byte as it is.
func putUint24(b []byte, v uint32) {
	_ = b[2]
	b[0], b[1], b[2] = byte(v>>16), byte(v>>8), byte(v)
}

func bit(set bool, mask byte) byte {
	if set {
		return mask
	}
	return 0
}

// grow appends the bytes of one message, all zero, and returns them as well.
func grow(b []byte) ([]byte, *Data) {
	var zero Data
	b = append(b, zero[:]...)
	return b, (*Data)(b[len(b)-DataLen:])
}

// Timeout is a time in five bits: 4.096 µs × 2^n. Linux asks for 20, about 4.3 s.
type Timeout uint8

// Duration returns the time that the code means.
func (t Timeout) Duration() time.Duration { return 4096 * time.Nanosecond << (t & 0x1f) }

// MTU is the code of a path MTU: 1 to 5 are 256 to 4096 bytes, all others reserved.
type MTU uint8

// Bytes returns the payload that fits a packet, 0 for a code that is reserved: such a
// REQ is refused with RejMTU.
func (m MTU) Bytes() int {
	if m < 1 || m > 5 {
		return 0
	}
	return 128 << m
}

// Service is the transport service of a connection.
type Service uint8

// The services that a REQ asks for; 3 means that the extended type has it.
const (
	ServiceRC Service = 0
	ServiceUC Service = 1
)

var services = [...]string{ServiceRC: "RC", ServiceUC: "UC", 2: "RD", 3: "extended"}

func (s Service) String() string { return name(services[:], int(s), "transport service ") }

// Answered is what an MRA or a REJ answers.
type Answered uint8

// What can be answered. 2 is a LAP in an MRA, and in a REJ none: a time-out, say.
const (
	AnsweredREQ   Answered = 0
	AnsweredREP   Answered = 1
	AnsweredOther Answered = 2
)
