// Headers of RFC 7306: Immediate Data, Atomic Request and Atomic Response.

package rdmap

import (
	"encoding/binary"

	"github.com/nfsrdma/nfsrdma/rnic/iwarp/term"
)

// Header lengths. The Atomic Response has 12 bytes, as in its figure.
const (
	ImmediateLen      = 8
	AtomicRequestLen  = 52
	AtomicResponseLen = 12
)

// Errors for RFC 7306 messages with a wrong length.
var (
	errExtensionLong  = term.New(term.DDPTooLong, "message longer than its header")
	errExtensionShort = term.New(term.RDMAPStream, "message shorter than its header")
)

// exactly checks the length of a header-only message.
func exactly(b []byte, n int) error {
	switch {
	case len(b) > n:
		return errExtensionLong
	case len(b) < n:
		return errExtensionShort
	}
	return nil
}

// AppendImmediate appends Immediate Data (RFC 7306 §6.2).
func AppendImmediate(b []byte, v uint64) []byte { return binary.BigEndian.AppendUint64(b, v) }

// ParseImmediate parses an Immediate Data segment's payload.
func ParseImmediate(b []byte) (uint64, error) {
	if err := exactly(b, ImmediateLen); err != nil {
		return 0, err
	}
	return binary.BigEndian.Uint64(b), nil
}

// AtomicOp is an atomic operation (RFC 7306 §5.2.1, Figure 5).
type AtomicOp uint8

// The atomic operations.
const (
	FetchAdd AtomicOp = 0
	CmpSwap  AtomicOp = 2
)

// AtomicRequest is an Atomic Request (RFC 7306 §5.2.1):
//
//	off  size  field
//	  0  28b   reserved: sent as zero, ignored
//	  3   4b   Atomic Operation Code
//	  4     4  Request Identifier
//	  8     4  Remote STag
//	 12     8  Remote Tagged Offset, a multiple of 8
//	 20     8  Add or Swap Data
//	 28     8  Add or Swap Mask
//	 36     8  Compare Data
//	 44     8  Compare Mask
type AtomicRequest struct {
	Op                   AtomicOp
	ID                   uint32
	STag                 uint32
	TO                   uint64
	Data, DataMask       uint64
	Compare, CompareMask uint64
}

// Append appends the header.
func (a *AtomicRequest) Append(b []byte) []byte {
	b = binary.BigEndian.AppendUint32(b, uint32(a.Op&0x0f))
	b = binary.BigEndian.AppendUint32(b, a.ID)
	b = binary.BigEndian.AppendUint32(b, a.STag)
	b = binary.BigEndian.AppendUint64(b, a.TO)
	b = binary.BigEndian.AppendUint64(b, a.Data)
	b = binary.BigEndian.AppendUint64(b, a.DataMask)
	b = binary.BigEndian.AppendUint64(b, a.Compare)
	return binary.BigEndian.AppendUint64(b, a.CompareMask)
}

// ParseAtomicRequest parses an Atomic Request segment's payload. The responder checks the
// operation.
func ParseAtomicRequest(b []byte) (a AtomicRequest, err error) {
	if err := exactly(b, AtomicRequestLen); err != nil {
		return a, err
	}
	return AtomicRequest{
		Op:          AtomicOp(b[3] & 0x0f),
		ID:          binary.BigEndian.Uint32(b[4:]),
		STag:        binary.BigEndian.Uint32(b[8:]),
		TO:          binary.BigEndian.Uint64(b[12:]),
		Data:        binary.BigEndian.Uint64(b[20:]),
		DataMask:    binary.BigEndian.Uint64(b[28:]),
		Compare:     binary.BigEndian.Uint64(b[36:]),
		CompareMask: binary.BigEndian.Uint64(b[44:]),
	}, nil
}

// AtomicResponse is an Atomic Response (RFC 7306 §5.2.2):
//
//	off  size  field
//	  0     4  Original Request Identifier
//	  4     8  Original Remote Data Value
type AtomicResponse struct {
	ID       uint32
	Original uint64
}

// Append appends the header.
func (r *AtomicResponse) Append(b []byte) []byte {
	b = binary.BigEndian.AppendUint32(b, r.ID)
	return binary.BigEndian.AppendUint64(b, r.Original)
}

// ParseAtomicResponse parses an Atomic Response segment's payload.
func ParseAtomicResponse(b []byte) (r AtomicResponse, err error) {
	if err := exactly(b, AtomicResponseLen); err != nil {
		return r, err
	}
	return AtomicResponse{ID: binary.BigEndian.Uint32(b), Original: binary.BigEndian.Uint64(b[4:])}, nil
}
