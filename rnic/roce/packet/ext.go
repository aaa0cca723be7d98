// The extended transport headers; their layouts are in the package's doc.

package packet

import "encoding/binary"

// Sizes of the extended headers (IBA 9.3; for DETH, RETH and ImmDt also IBA wire RoCEv2 [IBU-192
// IBU-193 IBU-194]).
const (
	DETHLen         = 8
	RETHLen         = 16
	AtomicETHLen    = 28
	AETHLen         = 4
	AtomicAckETHLen = 8
	ImmDtLen        = 4
	IETHLen         = 4
)

// DETH is the Datagram Extended Transport Header, in every UD packet.
type DETH struct {
	QKey  uint32
	SrcQP uint32 // 24 bits
}

func (h *DETH) put(b []byte) {
	_ = b[DETHLen-1]
	binary.BigEndian.PutUint32(b[0:], h.QKey)
	binary.BigEndian.PutUint32(b[4:], h.SrcQP&low24)
}

func (h *DETH) parse(b []byte) {
	_ = b[DETHLen-1]
	h.QKey = binary.BigEndian.Uint32(b[0:])
	h.SrcQP = binary.BigEndian.Uint32(b[4:]) & low24
}

// RETH is the RDMA Extended Transport Header, in a Write's first packet and in a Read Request.
type RETH struct {
	VA     uint64
	RKey   uint32
	Length uint32 // of the whole message, in bytes
}

func (h *RETH) put(b []byte) {
	_ = b[RETHLen-1]
	binary.BigEndian.PutUint64(b[0:], h.VA)
	binary.BigEndian.PutUint32(b[8:], h.RKey)
	binary.BigEndian.PutUint32(b[12:], h.Length)
}

func (h *RETH) parse(b []byte) {
	_ = b[RETHLen-1]
	h.VA = binary.BigEndian.Uint64(b[0:])
	h.RKey = binary.BigEndian.Uint32(b[8:])
	h.Length = binary.BigEndian.Uint32(b[12:])
}

// AtomicETH is the Atomic Extended Transport Header, in CmpSwap and FetchAdd.
type AtomicETH struct {
	VA      uint64
	RKey    uint32
	SwapAdd uint64 // CmpSwap: new value; FetchAdd: addend
	Compare uint64 // CmpSwap only
}

func (h *AtomicETH) put(b []byte) {
	_ = b[AtomicETHLen-1]
	binary.BigEndian.PutUint64(b[0:], h.VA)
	binary.BigEndian.PutUint32(b[8:], h.RKey)
	binary.BigEndian.PutUint64(b[12:], h.SwapAdd)
	binary.BigEndian.PutUint64(b[20:], h.Compare)
}

func (h *AtomicETH) parse(b []byte) {
	_ = b[AtomicETHLen-1]
	h.VA = binary.BigEndian.Uint64(b[0:])
	h.RKey = binary.BigEndian.Uint32(b[8:])
	h.SwapAdd = binary.BigEndian.Uint64(b[12:])
	h.Compare = binary.BigEndian.Uint64(b[20:])
}

// AETH is the ACK Extended Transport Header, in acknowledges and in all Read responses except
// middle ones.
type AETH struct {
	Syndrome Syndrome
	MSN      uint32 // 24 bits: number of messages completed by the responder
}

func (h *AETH) put(b []byte) {
	binary.BigEndian.PutUint32(b, uint32(h.Syndrome)<<24|h.MSN&low24)
}

func (h *AETH) parse(b []byte) {
	v := binary.BigEndian.Uint32(b)
	h.Syndrome, h.MSN = Syndrome(v>>24), v&low24
}
