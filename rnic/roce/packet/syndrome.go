// An acknowledge's syndrome: its kinds, and the two tables of five-bit codes.

package packet

import (
	"math/bits"
	"strconv"
	"time"
)

// Syndrome describes an acknowledge: bits 7 to 5 are its kind, the others the kind's value (IBA
// 9.7.5).
//
//	000 ACK       credit count, a code
//	001 RNR NAK   timer, a code
//	011 NAK       NAKCode
type Syndrome uint8

// AckKind is an acknowledge's kind; values without a name are reserved.
type AckKind uint8

// The kinds.
const (
	KindACK AckKind = 0
	KindRNR AckKind = 1
	KindNAK AckKind = 3
)

// NAKCode is a NAK's reason.
type NAKCode uint8

// The NAK codes of RC.
const (
	NAKSequence          NAKCode = 0 // a PSN is missing: retransmit from the acknowledge's PSN
	NAKInvalidRequest    NAKCode = 1
	NAKRemoteAccess      NAKCode = 2
	NAKRemoteOperational NAKCode = 3
)

// CreditUnlimited is the credit code of a responder without end-to-end flow control.
const CreditUnlimited = 31

const maskValue Syndrome = 0x1f

// ACK returns the syndrome of a positive acknowledge with a credit code.
func ACK(credit uint8) Syndrome { return Syndrome(KindACK)<<5 | Syndrome(credit)&maskValue }

// RNR returns a receiver-not-ready syndrome with a timer code.
func RNR(timer uint8) Syndrome { return Syndrome(KindRNR)<<5 | Syndrome(timer)&maskValue }

// NAK returns a NAK's syndrome.
func NAK(code NAKCode) Syndrome { return Syndrome(KindNAK)<<5 | Syndrome(code)&maskValue }

// Kind returns the acknowledge's kind.
func (s Syndrome) Kind() AckKind { return AckKind(s >> 5) }

// NAKCode returns a NAK's code.
func (s Syndrome) NAKCode() NAKCode { return NAKCode(s & maskValue) }

// Credits returns how many further Sends an ACK permits; limited is false without a limit.
func (s Syndrome) Credits() (n int, limited bool) {
	code := s & maskValue
	if code == CreditUnlimited {
		return 0, false
	}
	return steps(int(code)), true
}

// CreditCode returns the code for n credits, or for the largest smaller number with a code.
func CreditCode(n int) uint8 {
	if n < 2 {
		return uint8(max(n, 0))
	}
	// Each power of two has two codes: one for itself, and one for 1.5 times its value.
	top := bits.Len(uint(n)) - 1
	return uint8(min(2*top|n>>(top-1)&1, CreditUnlimited-1))
}

// Wait returns the delay requested by an RNR NAK: 10 µs for code 1, 491.52 ms for code 31, and
// 655.36 ms for code 0.
func (s Syndrome) Wait() time.Duration {
	code := int(s & maskValue)
	if code == 0 {
		code = 32 // the table continues there
	}
	return time.Duration(steps(code)) * 10 * time.Microsecond
}

// steps returns the element at index code of the series behind both tables: 0 1 2 3 4 6 8 12 16 24
// 32 48 …
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

// String returns the code's name.
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
