// The RDMA Read Request header.

package rdmap

import (
	"encoding/binary"

	"github.com/nfsrdma/nfsrdma/rnic/iwarp/term"
)

// RDMA Read Request header (RFC 5040 §4.4), the whole payload of its DDP segment:
//
//	off  size  field
//	  0     4  Data Sink STag
//	  4     8  Data Sink Tagged Offset
//	 12     4  RDMA Read Message Size
//	 16     4  Data Source STag
//	 20     8  Data Source Tagged Offset
const ReadRequestLen = 28

// Errors for a Read Request with a wrong length.
var (
	errReadLong  = term.New(term.DDPTooLong, "RDMA Read Request longer than its header")
	errReadShort = term.New(term.RDMAPStream, "RDMA Read Request shorter than its header")
)

// ReadRequest is an RDMA Read Request.
type ReadRequest struct {
	SinkSTag uint32
	SinkTO   uint64
	Size     uint32 // bytes
	SrcSTag  uint32
	SrcTO    uint64
}

// Append appends the header.
func (r *ReadRequest) Append(b []byte) []byte {
	var room [ReadRequestLen]byte
	r.put(room[:])
	return append(b, room[:]...)
}

// put writes the header to b's front, which must have room for it, and returns its length.
func (r *ReadRequest) put(b []byte) int {
	_ = b[ReadRequestLen-1]
	binary.BigEndian.PutUint32(b[0:], r.SinkSTag)
	binary.BigEndian.PutUint64(b[4:], r.SinkTO)
	binary.BigEndian.PutUint32(b[12:], r.Size)
	binary.BigEndian.PutUint32(b[16:], r.SrcSTag)
	binary.BigEndian.PutUint64(b[20:], r.SrcTO)
	return ReadRequestLen
}

// ParseReadRequest parses a Read Request segment's payload, which is exactly the header. Its errors
// are *term.Error.
func ParseReadRequest(b []byte) (r ReadRequest, err error) {
	switch {
	case len(b) > ReadRequestLen:
		return r, errReadLong
	case len(b) < ReadRequestLen:
		return r, errReadShort
	}
	r.SinkSTag = binary.BigEndian.Uint32(b[0:])
	r.SinkTO = binary.BigEndian.Uint64(b[4:])
	r.Size = binary.BigEndian.Uint32(b[12:])
	r.SrcSTag = binary.BigEndian.Uint32(b[16:])
	r.SrcTO = binary.BigEndian.Uint64(b[20:])
	return r, nil
}
