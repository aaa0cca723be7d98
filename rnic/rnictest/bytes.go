// Segments built by hand, byte for byte as drawn in RFC 5040 and RFC 5041.

package rnictest

import (
	"encoding/binary"

	"github.com/nfsrdma/nfsrdma/rnic"
)

// Tagged builds a tagged segment: DDP and RDMAP control bytes, STag, TO, payload.
func Tagged(ddp, ctrl byte, stag rnic.STag, to uint64, payload []byte) []byte {
	b := []byte{ddp, ctrl}
	b = binary.BigEndian.AppendUint32(b, uint32(stag))
	b = binary.BigEndian.AppendUint64(b, to)
	return append(b, payload...)
}

// Untagged builds an untagged segment: DDP and RDMAP control bytes, invalidate STag, QN, MSN, MO,
// payload.
func Untagged(ddp, ctrl byte, inv rnic.STag, qn, msn, mo uint32, payload []byte) []byte {
	b := []byte{ddp, ctrl}
	for _, v := range []uint32{uint32(inv), qn, msn, mo} {
		b = binary.BigEndian.AppendUint32(b, v)
	}
	return append(b, payload...)
}

// ReadReq builds a Read Request's payload.
func ReadReq(sink rnic.STag, sinkTO uint64, size uint32, src rnic.STag, srcTO uint64) []byte {
	b := binary.BigEndian.AppendUint32(nil, uint32(sink))
	b = binary.BigEndian.AppendUint64(b, sinkTO)
	b = binary.BigEndian.AppendUint32(b, size)
	b = binary.BigEndian.AppendUint32(b, uint32(src))
	return binary.BigEndian.AppendUint64(b, srcTO)
}

// Terminate builds a Terminate segment from a control field and the bytes returned to the peer.
func Terminate(layerType, code, ctrl byte, back []byte) []byte {
	return Untagged(0x41, 0x47, 0, 2, 1, 0, append([]byte{layerType, code, ctrl, 0}, back...))
}

// Returned builds a Terminate's copy of a segment: its length and its first n bytes.
func Returned(seg []byte, n int) []byte {
	return append(binary.BigEndian.AppendUint16(nil, uint16(len(seg))), seg[:n]...)
}
