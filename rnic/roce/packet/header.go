// A packet's transport headers: BTH, then its opcode's extended headers.

package packet

import (
	"encoding/binary"
	"errors"
)

// MaxHeaderLen is the longest set of headers: an atomic's.
const MaxHeaderLen = BTHLen + AtomicETHLen

// Errors returned by Parse. A receiver drops such packets and counts them (IBA 9.8.1 [IBU-008]);
// only RC answers a reserved opcode.
var (
	ErrShort   = errors.New("packet shorter than its headers, pad and ICRC")
	ErrLength  = errors.New("packet length is no multiple of 4")
	ErrVersion = errors.New("transport version is not 0")
	ErrOpcode  = errors.New("opcode is reserved")
)

// Header has a packet's transport headers. Only the extended headers for the opcode are used;
// Parse leaves the others zero.
type Header struct {
	BTH
	DETH       DETH
	RETH       RETH
	Atomic     AtomicETH
	AETH       AETH
	Original   uint64 // AtomicAckETH: the value before the atomic
	Imm        uint32 // ImmDt
	Invalidate uint32 // IETH: the R_Key to invalidate
}

// Len returns the number of bytes that Put writes.
func (h *Header) Len() int { return h.Opcode.HeaderLen() }

// Append appends the headers.
func (h *Header) Append(b []byte) []byte {
	var room [MaxHeaderLen]byte
	return append(b, room[:h.Put(room[:])]...)
}

// Put writes the headers at the front of b, which must be long enough, and returns their length.
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

// Parse reads a packet: b is the whole UDP payload including the ICRC, which Parse ignores.
// payload excludes the pad and aliases b. With ErrOpcode the BTH is still valid, because an RC
// responder answers reserved opcodes. Each service checks the payload length against opcode and
// path MTU itself, because the consequences differ.
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
	// Headers are multiples of 4, and so is the padded payload (IBA wire RoCEv2 pad [IBU-195]).
	case len(b)%4 != 0:
		return Header{}, nil, ErrLength
	}
	return h, b[h.parseExt(b):end], nil
}

// parseExt reads the extended headers, which must be complete, and returns their end.
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
