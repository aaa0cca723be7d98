// Fields with a fraction of a byte or three bytes, and coded values.

package mad

import (
	"encoding/binary"
	"time"
)

// uint24 reads the first 24 bits of b: the size of QPNs, EECNs and PSNs. The fourth byte belongs
// to another field or is reserved.
func uint24(b []byte) uint32 { return binary.BigEndian.Uint32(b) >> 8 }

// putUint24 writes the first 24 bits of b and leaves the fourth byte unchanged.
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

// grow appends one message's bytes, all zero, and also returns them separately.
func grow(b []byte) ([]byte, *Data) {
	var zero Data
	b = append(b, zero[:]...)
	return b, (*Data)(b[len(b)-DataLen:])
}

// Timeout is a time in five bits: 4.096 µs × 2^n. Linux uses 20, about 4.3 s.
type Timeout uint8

// Duration returns the code's time.
func (t Timeout) Duration() time.Duration { return 4096 * time.Nanosecond << (t & 0x1f) }

// MTU is a path MTU code: 1 to 5 mean 256 to 4096 bytes, all others are reserved.
type MTU uint8

// Bytes returns the payload size, 0 for a reserved code: RejMTU refuses such a REQ.
func (m MTU) Bytes() int {
	if m < 1 || m > 5 {
		return 0
	}
	return 128 << m
}

// Service is a connection's transport service.
type Service uint8

// The services in a REQ; 3 means that the extended type has it.
const (
	ServiceRC Service = 0
	ServiceUC Service = 1
)

var services = [...]string{ServiceRC: "RC", ServiceUC: "UC", 2: "RD", 3: "extended"}

func (s Service) String() string { return name(services[:], int(s), "transport service ") }

// Answered names the message that an MRA or a REJ answers.
type Answered uint8

// 2 means a LAP in an MRA. In a REJ it means no message, for example after a timeout.
const (
	AnsweredREQ   Answered = 0
	AnsweredREP   Answered = 1
	AnsweredOther Answered = 2
)
