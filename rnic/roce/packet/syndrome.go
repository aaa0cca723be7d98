// The syndrome of an acknowledge: its kinds, and the two tables of five-bit codes.

package packet

import (
	"math/bits"
	"strconv"
	"time"
)

// Syndrome says what an acknowledge acknowledges: the kind in bits 7 to 5, and below
// them the kind's value (IBA 9.7.5).
//
//	000 ACK       credit count, a code
//	001 RNR NAK   timer, a code
//	011 NAK       NAKCode
type Syndrome uint8

// AckKind is the kind of an acknowledge; values that have no name are reserved.
type AckKind uint8

// The kinds.
const (
	KindACK AckKind = 0
	KindRNR AckKind = 1
	KindNAK AckKind = 3
)

// NAKCode says what a NAK refuses.
type NAKCode uint8

// The NAK codes of RC.
const (
	NAKSequence          NAKCode = 0 // a PSN is missing: send again from the acknowledge's PSN on
	NAKInvalidRequest    NAKCode = 1
	NAKRemoteAccess      NAKCode = 2
	NAKRemoteOperational NAKCode = 3
)

// CreditUnlimited is the credit code of a responder that does not limit Sends end to end.
const CreditUnlimited = 31

const maskValue Syndrome = 0x1f

// ACK returns the syndrome of a positive acknowledge with a credit code.
func ACK(credit uint8) Syndrome { return Syndrome(KindACK)<<5 | Syndrome(credit)&maskValue }

// RNR returns the syndrome of a receiver that is not ready, with a timer code.
func RNR(timer uint8) Syndrome { return Syndrome(KindRNR)<<5 | Syndrome(timer)&maskValue }

// NAK returns the syndrome of a refusal.
func NAK(code NAKCode) Syndrome { return Syndrome(KindNAK)<<5 | Syndrome(code)&maskValue }

// Kind returns the kind of acknowledge.
func (s Syndrome) Kind() AckKind { return AckKind(s >> 5) }

// NAKCode returns the code of a NAK.
func (s Syndrome) NAKCode() NAKCode { return NAKCode(s & maskValue) }

// Credits returns how many further Sends an ACK allows; limited is false if the responder does
// not limit them.
func (s Syndrome) Credits() (n int, limited bool) {
	code := s & maskValue
	if code == CreditUnlimited {
		return 0, false
	}
	return steps(int(code)), true
}

// CreditCode returns the code of n credits, or of the largest number below that has one.
func CreditCode(n int) uint8 {
	if n < 2 {
		return uint8(max(n, 0))
	}
	top := bits.Len(uint(n)) - 1 // of each power of two, there is one code for itself, and one for half as much again
	return uint8(min(2*top|n>>(top-1)&1, CreditUnlimited-1))
}

// Wait returns how long an RNR NAK asks to wait: 10 µs for code 1 up to 491.52 ms for code 31,
// and 655.36 ms for code 0.
func (s Syndrome) Wait() time.Duration {
	code := int(s & maskValue)
	if code == 0 {
		code = 32 // the table goes on there
	}
	return time.Duration(steps(code)) * 10 * time.Microsecond
}

// steps is the row that both tables are made of: 0 1 2 3 4 6 8 12 16 24 32 48 …
func steps(code int) int {
	if code < 2 {
		return code
	}
	return (2 | code&1) << (code/2 - 1)
}

// String names the kind and its value.
func (s Syndrome) String() string {
	switch s.Kind() {
	case KindACK:
		if n, limited := s.Credits(); limited {
			return "ACK, credits " + strconv.Itoa(n)
		}
		return "ACK"
	case KindRNR:
		return "RNR NAK, " + s.Wait().String()
	case KindNAK:
		return "NAK, " + s.NAKCode().String()
	}
	return "syndrome 0x" + strconv.FormatUint(uint64(s), 16)
}

// String gives the code's name.
func (c NAKCode) String() string {
	switch c {
	case NAKSequence:
		return "PSN sequence error"
	case NAKInvalidRequest:
		return "invalid request"
	case NAKRemoteAccess:
		return "remote access error"
	case NAKRemoteOperational:
		return "remote operational error"
	}
	return "code " + strconv.Itoa(int(c))
}
