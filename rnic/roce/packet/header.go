// The transport headers of a packet together: BTH and what its opcode has follow.

package packet

import (
	"encoding/binary"
	"errors"
)

// MaxHeaderLen is the most that the headers of one packet take: those of an atomic.
const MaxHeaderLen = BTHLen + AtomicETHLen

// What Parse can find wrong. A receiver drops such packets and counts them (IBA 9.8.1 [IBU-008]);
// only RC answers a reserved opcode.
var (
	ErrShort   = errors.New("packet shorter than its headers, pad and ICRC")
	ErrLength  = errors.New("packet length is no multiple of 4")
	ErrVersion = errors.New("transport version is not 0")
	ErrOpcode  = errors.New("opcode is reserved")
)

// Header is the transport headers of a packet. Of the extended ones those count that the opcode
// carries; Parse leaves the others zero.
type Header struct {
	BTH
	DETH       DETH
	RETH       RETH
	Atomic     AtomicETH
	AETH       AETH
	Original   uint64 // AtomicAckETH: what was in memory before the atomic
	Imm        uint32 // ImmDt
	Invalidate uint32 // IETH: the R_Key to invalidate
}

// Len returns the bytes that Put writes.
func (h *Header) Len() int { return h.Opcode.HeaderLen() }

// Append appends the headers.
func (h *Header) Append(b []byte) []byte {
	var room [MaxHeaderLen]byte
	return append(b, room[:h.Put(room[:])]...)
}

// Put writes the headers at the front of b, which has room for them, and returns their length.
func (h *Header) Put(b []byte) int {
	h.put(b)
	n, op := BTHLen, h.Opcode
	if op.Carries(ExtDETH) {
		h.DETH.put(b[n:])
		n += DETHLen
	}
	if op.Carries(ExtRETH) {
		h.RETH.put(b[n:])
		n += RETHLen
	}
	if op.Carries(ExtAtomicETH) {
		h.Atomic.put(b[n:])
		n += AtomicETHLen
	}
	if op.Carries(ExtAETH) {
		h.AETH.put(b[n:])
		n += AETHLen
	}
	if op.Carries(ExtAtomicAckETH) {
		binary.BigEndian.PutUint64(b[n:], h.Original)
		n += AtomicAckETHLen
	}
	if op.Carries(ExtImmDt) {
		binary.BigEndian.PutUint32(b[n:], h.Imm)
		n += ImmDtLen
	}
	if op.Carries(ExtIETH) {
		binary.BigEndian.PutUint32(b[n:], h.Invalidate)
		n += IETHLen
	}
	return n
}

// Parse reads a packet: b is the whole payload of its datagram, the ICRC included, which is not
// looked at. payload is without the pad and aliases b. The fields of the BTH hold with ErrOpcode,
// too, as a responder of RC answers a reserved opcode. Whether the length of the payload suits the
// opcode and the path's MTU is the service's matter: what follows from it differs.
func Parse(b []byte) (h Header, payload []byte, err error) {
	if len(b) < BTHLen+ICRCLen {
		return h, nil, ErrShort
	}
	if h.parse(b) != 0 {
		return Header{}, nil, ErrVersion // IBA 9.6 [IBU-173]
	}
	if !h.Opcode.Known() {
		return h, nil, ErrOpcode
	}
	end := len(b) - ICRCLen - int(h.Pad)
	switch {
	case end < h.Len():
		return Header{}, nil, ErrShort
	case len(b)%4 != 0: // all headers are multiples of 4, and the pad makes the payload one (IBA wire RoCEv2 pad [IBU-195])
		return Header{}, nil, ErrLength
	}
	return h, b[h.parseExt(b):end], nil
}

// parseExt reads the extended headers of a packet that holds them, and returns where they end.
func (h *Header) parseExt(b []byte) int {
	n, op := BTHLen, h.Opcode
	if op.Carries(ExtDETH) {
		h.DETH.parse(b[n:])
		n += DETHLen
	}
	if op.Carries(ExtRETH) {
		h.RETH.parse(b[n:])
		n += RETHLen
	}
	if op.Carries(ExtAtomicETH) {
		h.Atomic.parse(b[n:])
		n += AtomicETHLen
	}
	if op.Carries(ExtAETH) {
		h.AETH.parse(b[n:])
		n += AETHLen
	}
	if op.Carries(ExtAtomicAckETH) {
		h.Original = binary.BigEndian.Uint64(b[n:])
		n += AtomicAckETHLen
	}
	if op.Carries(ExtImmDt) {
		h.Imm = binary.BigEndian.Uint32(b[n:])
		n += ImmDtLen
	}
	if op.Carries(ExtIETH) {
		h.Invalidate = binary.BigEndian.Uint32(b[n:])
		n += IETHLen
	}
	return n
}
