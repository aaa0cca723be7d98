// The verbs: the types and errors of a program's requests to the RNIC.

package rnic

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"time"
)

// An STag names a Memory Region to the peer: 24 random bits of index, 8 of key (RFC 5040 §1.1).
type STag uint32

// Access is a set of rights to a Memory Region.
type Access uint8

// Access rights, to be or'ed.
const (
	LocalWrite   Access = 1 << iota // sink of our own RDMA Reads
	RemoteRead                      // the peer may read the region by RDMA Read
	RemoteWrite                     // the peer may write to the region by RDMA Write
	RemoteAtomic                    // the peer may do atomic operations on it
)

// Opcode is a work request's operation.
type Opcode uint8

// The work requests.
const (
	OpSend Opcode = iota
	OpSendInvalidate
	OpSendSE
	OpSendSEInvalidate
	OpWrite
	OpRead
	OpReadInvalidate // RDMA Read, then local invalidate of the sink
	OpLocalInvalidate
	OpRecv // in a WC only: a receive completed

	// Operations of RFC 7306, available if both peers set DeviceConfig.Extensions.
	OpImmediate   // eight bytes that complete one of the peer's receives
	OpImmediateSE // the same, and requests an event
	OpFetchAdd    // the atomic operations
	OpCmpSwap
	OpSwap // unconditional

	// InfiniBand operations, available if Caps.ImmediateData is set: four bytes accompany the
	// message, the low ones of Immediate. The peer finds them in the WC of the receive completed by
	// the message.
	OpSendImmediate
	OpSendSEImmediate
	OpWriteImmediate // takes one of the peer's receives, and leaves its buffer unchanged
	OpWriteSEImmediate

	OpRecvWrite // in a WC only: a receive completed by an RDMA Write with Immediate Data
)

// IsAtomic reports whether op is an atomic operation, IsImmediate whether it is a kind of Immediate
// Data.
func (op Opcode) IsAtomic() bool    { return op == OpFetchAdd || op == OpCmpSwap || op == OpSwap }
func (op Opcode) IsImmediate() bool { return op == OpImmediate || op == OpImmediateSE }

// CarriesImmediate reports whether the operation carries four bytes of Immediate Data.
func (op Opcode) CarriesImmediate() bool { return op >= OpSendImmediate && op <= OpWriteSEImmediate }

// An Atomic holds the operands for an atomic operation on eight bytes of the peer's memory, an
// integer in the peer's byte order (RFC 7306 §5.1).
type Atomic struct {
	Data uint64 // OpFetchAdd: the addend; else the new value

	// Mask, for OpFetchAdd, marks the top bits of fields added separately; 0: one field of 64 bits.
	// For OpCmpSwap it marks the bits to swap.
	Mask uint64

	// OpCmpSwap swaps if the bits in CompareMask equal Compare.
	Compare, CompareMask uint64
}

// A SendWR is one work request for the send queue. Posting copies the SendWR; the memory behind its
// slices (the SGL array too) must not change until its completion, or a later one of the same QP,
// has been polled.
type SendWR struct {
	ID  uint64
	Op  Opcode
	SGL [][]byte // Send*, Write: the payload, gathered in order

	// Source, if not nil, supplies the payload of a Write. SGL then reserves memory for it, which
	// the provider may overwrite with the payload or leave unchanged. Consecutive Writes may share
	// a Source. Source must not change for as long as SGL must not.
	Source Source

	RemoteSTag STag   // Write: target; Read: source; atomics: operand
	RemoteTO   uint64 // tagged offset in the STag's region

	Invalidate STag // OpSendInvalidate, OpSendSEInvalidate: the peer's STag

	MR     *MR    // Read: sink; OpLocalInvalidate: the region to invalidate
	Offset uint64 // Read: offset from the start of the sink MR
	Length uint32 // Read: bytes

	Immediate uint64  // OpImmediate, OpImmediateSE; the low 32 bits where CarriesImmediate
	Atomic    *Atomic // atomic operations, on the eight bytes at RemoteTO, a multiple of eight

	AH *AddressHandle // a UD message's destination; other services ignore it

	Fence      bool // start only when all earlier RDMA Reads are done
	Unsignaled bool // complete only on failure
	Hint       Hint // the zero value is right for most
}

// A Hint lets a provider save work. Without the hint the result is the same, but later or more
// expensive.
type Hint uint8

// The hints of a work request.
const (
	HintNone Hint = iota
	// HintDeferred allows a late completion, because no goroutine waits for it: a CQ handler may be
	// notified with a later one, or by QP.FlushDeferred.
	HintDeferred
	// HintCoalesce announces posts by other goroutines: these may run before this one is sent, so
	// that all leave at once.
	HintCoalesce
)

// A Source supplies bytes, for example a file's, that reach this process's memory just before they
// are sent. It supplies the bytes in order.
type Source interface {
	// ReadFull copies the next len(p) bytes to p. It does not wait.
	ReadFull(p []byte) error
}

// An AddressHandle is a datagram's destination: a peer's QP, and the key required there. An
// AddressHandle must not change for as long as a SendWR that names it must not.
type AddressHandle struct {
	Addr netip.Addr
	QPN  uint32 // 24 bits; 0xffffff for all members of the group Addr
	QKey uint32 // if bit 31 is set, the sending QP's own is sent instead (IBA 10.2.5 [IBU-232])
}

// A RecvWR is one buffer for one inbound Send: Buf, or one from Pool, taken when the Send begins to
// arrive. The completion passes the Pool's buffer to the ULP as WC.Buf, to be put back into the
// Pool. A flushed receive has no such buffer.
type RecvWR struct {
	ID   uint64
	Buf  []byte
	Pool *BufferPool // used if Buf is nil
}

// Status is a work request's outcome.
type Status uint8

// Outcomes of a work request.
const (
	WCSuccess  Status = iota
	WCFlushErr        // the QP failed or was closed before the work was done
	WCLocErr          // the work request itself was wrong
	WCRemErr          // the peer refused the work (see QP.Err)
)

// A WC is a work completion.
type WC struct {
	ID          uint64
	QP          *QP
	Op          Opcode
	Status      Status
	Len         uint32 // OpRecv: bytes received
	Buf         []byte // OpRecv of a Send: the buffer of the receive
	Invalidated STag   // OpRecv: our STag invalidated by the peer, or 0
	Solicited   bool   // OpRecv: the Send asked for an event
	// Immediate, for a receive: Immediate Data is in Value. OpRecv with no Buf: only Immediate Data
	// came, and the receive's buffer is unchanged.
	Immediate bool
	// SrcQP, for a UD receive, is the sending QP; its address is in the GRH before the payload.
	SrcQP uint32
	Value uint64 // Immediate Data; for an atomic operation, the value before it
}

// CRCMode is a device's request to the peer for checksums in the sent data, for providers with a
// choice.
type CRCMode uint8

// CRC modes.
const (
	CRCOn     CRCMode = iota // require CRCs: both ends check
	CRCAuto                  // use them when the peer requests them
	CRCOff                   // request none; a peer can still insist (RFC 5044 §7.1)
	CRCStrict                // as CRCOn, and payload is placed only after its segment's CRC check
)

// DeviceConfig configures a software RNIC. The zero value suits most.
type DeviceConfig struct {
	CRC              CRCMode
	MaxIRD, MaxORD   int           // 0: 128
	HandshakeTimeout time.Duration // 0: 5 s as responder, 10 s as initiator
	// Extensions enables Immediate Data and atomics. Nothing negotiates them (RFC 7306): set it
	// only if the peer is known to have them too.
	Extensions    bool
	MaxHandshakes int  // concurrent connection set-ups on one listener; 0: 256
	Markers       bool // iWARP: request MPA markers from the peer

	// BlockThreads makes a goroutine that waits in QP.PollUntil block its OS thread for up to 5 ms
	// instead of parking. The thread then also keeps a processor of Go's scheduler (GOMAXPROCS; at
	// most half of them). BlockThreads suits processes that do little except wait for one reply
	// after another: they get each reply sooner. iWARP only.
	BlockThreads bool

	// Dial makes the TCP connections for Connect, for example through a proxy or from another
	// network namespace; nil: as net.Dialer does.
	Dial func(ctx context.Context, network, addr string) (net.Conn, error)
}

// ConnParams are one side's parameters for a new connection.
type ConnParams struct {
	PrivateData []byte // at most Caps.MaxPrivateData
	IRD, ORD    int    // 0: the device's maximum

	// Provider holds a provider's specific options, its ConnOptions; nil for its defaults.
	Provider any
}

// QPConfig sets a QP's service and sizes.
type QPConfig struct {
	Service          Service // one of Caps.Services
	SendCQ, RecvCQ   *CQ
	SQDepth, RQDepth int

	// Waiting reports whether any goroutine waits for messages from this QP. With it, QP.PollUntil
	// can replace the provider's receive loop. Waiting must take no lock held while posting.
	Waiting func() bool
}

// Errors of the verbs.
var (
	ErrSQFull = errors.New("rnic: send queue is full")
	ErrRQFull = errors.New("rnic: receive queue is full")
	ErrState  = errors.New("rnic: not possible in this state of the QP")
	ErrClosed = errors.New("rnic: closed")

	// ErrConnLost ends a QP after its connection broke, or the peer closed it inside a message or
	// with work outstanding.
	ErrConnLost = errors.New("rnic: connection lost")
)

// Errors for a work request refused at posting.
var (
	errOpcode   = errors.New("rnic: not an opcode of the send queue")
	errTooLong  = errors.New("rnic: a message holds at most 2^32-1 bytes")
	errNoMR     = errors.New("rnic: the work request needs a memory region of the QP's PD")
	errNoInv    = errors.New("rnic: a Send with Invalidate needs an STag")
	errReadSink = errors.New("rnic: the Read's sink is not in a valid memory region with LocalWrite")

	errSource = errors.New("rnic: only an RDMA Write of a QP that takes them can have a Source")

	errNoOperands  = errors.New("rnic: an atomic operation needs its operands")
	errNoExtension = errors.New("rnic: the device has no immediate data, or no atomic operations")
	errUnaligned   = errors.New("rnic: an atomic operation needs a tagged offset that is a multiple of eight")
	errNoCQ        = errors.New("rnic: a QP needs a send CQ and a receive CQ")
)

// A RejectError reports a connection request refused by the peer.
type RejectError struct {
	PrivateData []byte
	IRD, ORD    int // the peer's requirements; 0: not stated
}

func (e *RejectError) Error() string { return "rnic: connection refused by the peer" }

// A PeerError ends a QP because the peer reported a fault: use errors.As on QP.Err.
type PeerError interface {
	error

	// RefusedSTag returns the peer's STag that it refused us; false if the peer refused something
	// else, or did not name the STag.
	RefusedSTag() (stag uint32, ok bool)
}
