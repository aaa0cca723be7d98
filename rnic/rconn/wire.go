// The wire format: the hello in the private data, and the messages. Codecs alone.

package rconn

import (
	"encoding/binary"
	"errors"
)

// Layout of a hello, in both sides' private data. Zeros may follow. All fields are big-endian.
//
//	offset  size  field
//	0       4     magic, "RCON"
//	4       1     version, 1
//	5       3     reserved, zero
//	8       4     bytes of the sender's ring, a power of two
//	12      4     STag of the ring
//	16      8     tagged offset of the ring's first byte
//	24      4     receives posted by the sender
const (
	helloLen = 28
	magic    = 0x52434f4e
	version  = 1
)

// Limits of a hello.
const (
	// minRing is the smallest ring, in bytes. 4 KiB: a smaller one would need a message for each
	// few bytes.
	minRing = 4 << 10
	// maxRing is the largest ring, in bytes. 1 GiB: positions are 32 bits, and wrap.
	maxRing = 1 << 30
	// minReceives is the smallest number of receives. 8: reserve takes three of them.
	minReceives = 8
	// maxReceives is the largest number of receives. 65,536: far more than a ring needs.
	maxReceives = 1 << 16
)

// A hello describes one side's ring and receives.
type hello struct {
	ring     uint32
	stag     uint32
	base     uint64
	receives uint32
}

var (
	errMagic   = errors.New("rconn: the peer does not speak this protocol")
	errVersion = errors.New("rconn: the peer speaks another version of the protocol")
	errHello   = errors.New("rconn: invalid ring in the peer's hello")
)

// appendHello appends the 28 bytes of h.
func appendHello(b []byte, h hello) []byte {
	b = binary.BigEndian.AppendUint32(b, magic)
	b = append(b, version, 0, 0, 0)
	b = binary.BigEndian.AppendUint32(b, h.ring)
	b = binary.BigEndian.AppendUint32(b, h.stag)
	b = binary.BigEndian.AppendUint64(b, h.base)
	return binary.BigEndian.AppendUint32(b, h.receives)
}

// parseHello parses private data. A returned hello has a usable ring.
func parseHello(b []byte) (h hello, err error) {
	if len(b) < helloLen || binary.BigEndian.Uint32(b) != magic {
		return h, errMagic
	}
	if b[4] != version {
		return h, errVersion
	}
	h = hello{binary.BigEndian.Uint32(b[8:]), binary.BigEndian.Uint32(b[12:]), binary.BigEndian.Uint64(b[16:]), binary.BigEndian.Uint32(b[24:])}
	power := h.ring&(h.ring-1) == 0
	reserved := b[5] | b[6] | b[7]
	if reserved != 0 || !power || h.ring < minRing || h.ring > maxRing || h.base+uint64(h.ring) < h.base ||
		h.receives < minReceives || h.receives > maxReceives {
		return hello{}, errHello
	}
	return h, nil
}

// Layout of a message, the payload of a Send. All fields are big-endian. Positions and counts wrap
// at 2^32.
//
//	offset  size  field
//	0       1     kind
//	1       3     reserved, zero
//	4       4     data: number of bytes just written to the ring, at least 1; else 0
//	8       4     bytes read by the sender from its own ring
//	12      4     messages received by the sender, with their receives posted again
//
// Where the provider has Immediate Data, it replaces the message for data: an RDMA Write carries
// the number of bytes.
const messageLen = 16

// A kind is the type of a message.
type kind uint8

const (
	kindData   kind = 1 // bytes came to the ring
	kindUpdate kind = 2 // only the counts
	kindEnd    kind = 3 // no data follows
)

// A message holds a message's fields.
type message struct {
	kind     kind
	bytes    uint32
	read     uint32
	received uint32
	bare     bool // Immediate Data: read and received are not set
}

var errMessage = errors.New("rconn: invalid message from the peer")

// put encodes m.
func (m *message) put(b *[messageLen]byte) {
	b[0], b[1], b[2], b[3] = byte(m.kind), 0, 0, 0
	binary.BigEndian.PutUint32(b[4:], m.bytes)
	binary.BigEndian.PutUint32(b[8:], m.read)
	binary.BigEndian.PutUint32(b[12:], m.received)
}

// parseMessage parses the payload of a Send.
func parseMessage(b []byte) (m message, err error) {
	if len(b) != messageLen || b[1]|b[2]|b[3] != 0 {
		return m, errMessage
	}
	m = message{kind: kind(b[0]), bytes: binary.BigEndian.Uint32(b[4:]), read: binary.BigEndian.Uint32(b[8:]), received: binary.BigEndian.Uint32(b[12:])}
	if m.kind < kindData || m.kind > kindEnd || (m.kind == kindData) != (m.bytes > 0) {
		return message{}, errMessage
	}
	return m, nil
}

// parseImmediate returns the message for Immediate Data.
func parseImmediate(v uint64) (message, error) {
	if v == 0 || v > maxRing {
		return message{}, errMessage
	}
	return message{kind: kindData, bytes: uint32(v), bare: true}, nil
}
