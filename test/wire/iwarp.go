// MPA, DDP and RDMAP in their wire format (RFC 5044, 5041, 5040).

package wire

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
)

// startup is an MPA Request or Reply frame.
type startup struct {
	markers, crc, reject bool
	revision             byte
	ird, ord             int // -1 with revision 1
	private              []byte
}

var keys = [2]string{"MPA ID Req Frame", "MPA ID Rep Frame"}

// parseStartup parses the start-up frame at the front of b, and returns its length; nil and 0:
// bytes are missing.
func parseStartup(b []byte, dir int) (*startup, int, error) {
	if len(b) < 20 {
		return nil, 0, nil
	}
	if string(b[:16]) != keys[dir] {
		return nil, 0, fmt.Errorf("the connection starts with %q, not with an MPA frame", b[:16])
	}
	n := 20 + int(binary.BigEndian.Uint16(b[18:]))
	if len(b) < n {
		return nil, 0, nil
	}
	s := &startup{markers: b[16]&0x80 != 0, crc: b[16]&0x40 != 0, reject: b[16]&0x20 != 0, revision: b[17], ird: -1, ord: -1, private: b[20:n]}
	if enhanced := b[16]&0x10 != 0; s.revision >= 2 && enhanced && len(s.private) >= 4 {
		s.ird = int(binary.BigEndian.Uint16(s.private) & 0x3fff)
		s.ord = int(binary.BigEndian.Uint16(s.private[2:]) & 0x3fff)
		s.private = s.private[4:]
	}
	return s, n, nil
}

// inlineSizes parses the private data of RFC 8797: the sizes that its sender sends and receives in
// one Send, and whether the sender accepts Send with Invalidate.
func (s *startup) inlineSizes() (send, receive int, invalidate bool) {
	p := s.private
	for i := 0; i+8 <= len(p); i++ {
		if binary.BigEndian.Uint32(p[i:]) == 0xf6ab0e18 && p[i+4] == 1 {
			return (int(p[i+6]) + 1) * 1024, (int(p[i+7]) + 1) * 1024, p[i+5]&1 != 0
		}
	}
	return 1024, 1024, false
}

// fpdu is one framed PDU.
type fpdu struct {
	frame int // the packet with its last byte
	ulpdu []byte
	crcOK bool
	zero  bool // the CRC field is zero
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// parseFPDU parses the FPDU at the front of b, and returns its length; 0: bytes are missing.
func parseFPDU(b []byte) (f fpdu, n int) {
	if len(b) < 2 {
		return f, 0
	}
	size := 2 + int(binary.BigEndian.Uint16(b))
	padded := size + -size&3
	if len(b) < padded+4 {
		return f, 0
	}
	f.ulpdu = b[2:size]
	crc := b[padded : padded+4]
	f.zero = binary.LittleEndian.Uint32(crc) == 0
	f.crcOK = binary.LittleEndian.Uint32(crc) == crc32.Checksum(b[:padded], castagnoli)
	return f, padded + 4
}

// opcode is the opcode of an RDMAP message (RFC 5040 section 4.3).
type opcode byte

const (
	opWrite opcode = iota
	opReadRequest
	opReadResponse
	opSend
	opSendInvalidate
	opSendSE
	opSendSEInvalidate
	opTerminate
)

var opNames = []string{"RDMA Write", "RDMA Read Request", "RDMA Read Response", "Send", "Send with Invalidate",
	"Send with SE", "Send with SE and Invalidate", "Terminate"}

func (o opcode) String() string {
	if int(o) < len(opNames) {
		return opNames[o]
	}
	return fmt.Sprintf("opcode %d", byte(o))
}

func (o opcode) invalidates() bool { return o == opSendInvalidate || o == opSendSEInvalidate }

// ddp is one DDP segment with its RDMAP opcode.
type ddp struct {
	op           opcode
	tagged, last bool
	stag         uint32 // tagged: the destination; Send with Invalidate: the STag to invalidate
	offset       uint64 // tagged
	queue        uint32 // untagged, like msn and mo
	msn, mo      uint32
	data         []byte
}

func parseDDP(b []byte) (s ddp, err error) {
	if len(b) < 2 {
		return s, fmt.Errorf("an ULPDU of %d bytes", len(b))
	}
	s.tagged, s.last, s.op = b[0]&0x80 != 0, b[0]&0x40 != 0, opcode(b[1]&15)
	if b[0]&3 != 1 || b[1]>>6 != 1 {
		return s, fmt.Errorf("DDP version %d, RDMAP version %d", b[0]&3, b[1]>>6)
	}
	head := 18
	if s.tagged {
		head = 14
	}
	if len(b) < head {
		return s, fmt.Errorf("a DDP segment of %d bytes", len(b))
	}
	s.data = b[head:]
	s.stag = binary.BigEndian.Uint32(b[2:])
	if s.tagged {
		s.offset = binary.BigEndian.Uint64(b[6:])
		if s.op != opWrite && s.op != opReadResponse {
			return s, fmt.Errorf("%v in a tagged segment", s.op)
		}
		return s, nil
	}
	s.queue, s.msn, s.mo = binary.BigEndian.Uint32(b[6:]), binary.BigEndian.Uint32(b[10:]), binary.BigEndian.Uint32(b[14:])
	want := uint32(0)
	switch s.op {
	case opReadRequest:
		want = 1
	case opTerminate:
		want = 2
	case opWrite, opReadResponse:
		return s, fmt.Errorf("%v in an untagged segment", s.op)
	}
	if s.queue != want {
		return s, fmt.Errorf("%v on queue %d", s.op, s.queue)
	}
	return s, nil
}
