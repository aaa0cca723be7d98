// The verbs: the words that programs use to talk to the RNIC.

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

// Access is what a Memory Region may be used for.
type Access uint8

// Access rights, to be or'ed.
const (
	LocalWrite   Access = 1 << iota // sink of our own RDMA Reads
	RemoteRead                      // the peer may RDMA Read it
	RemoteWrite                     // the peer may RDMA Write it
	RemoteAtomic                    // the peer may do atomic operations on it
)

// Opcode is what a work request asks for.
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

	// Those of RFC 7306, where DeviceConfig.Extensions is set here and at the peer.
	OpImmediate   // eight bytes that complete a receive of the peer's
	OpImmediateSE // the same, asking for an event
	OpFetchAdd    // the atomic operations
	OpCmpSwap
	OpSwap // whatever is there

	// Those of InfiniBand, where Caps.ImmediateData is set: four bytes go along with the message,
	// the low ones of Immediate. The peer finds them in the WC of the receive that the message
	// completes.
	OpSendImmediate
	OpSendSEImmediate
	OpWriteImmediate // takes a receive of the peer's, and leaves its buffer as it was
	OpWriteSEImmediate

	OpRecvWrite // in a WC only: a receive completed by an RDMA Write with Immediate Data
)

// IsAtomic reports one of the atomic operations, IsImmediate one of the two kinds of Immediate
// Data.
func (op Opcode) IsAtomic() bool    { return op == OpFetchAdd || op == OpCmpSwap || op == OpSwap }
func (op Opcode) IsImmediate() bool { return op == OpImmediate || op == OpImmediateSE }

// CarriesImmediate reports one of the operations with four bytes of Immediate Data.
func (op Opcode) CarriesImmediate() bool { return op >= OpSendImmediate && op <= OpWriteSEImmediate }

// An Atomic is the operands of an atomic operation on eight bytes of the peer's memory,
// an integer in that machine's byte order (RFC 7306 §5.1).
type Atomic struct {
	Data uint64 // OpFetchAdd: what is added; else what is swapped in

	// Mask: OpFetchAdd: the top bits of fields that are added each for itself, 0 for one
	// field of 64 bits. OpCmpSwap: the bits that are swapped.
	Mask uint64

	// OpCmpSwap: the swap is made if the bits of CompareMask are as in Compare.
	Compare, CompareMask uint64
}

// A SendWR is one work request for the send queue. Posting copies the SendWR;
// what its slices point at (the SGL array too) stays untouched until its
// completion, or that of a later one of the same QP, has been polled.
type SendWR struct {
	ID  uint64
	Op  Opcode
	SGL [][]byte // Send*, Write: the payload, gathered in order

	// Source, if not nil, has the payload of a Write, and SGL memory that stands for it, whose
	// content the provider may overwrite with it or leave alone. Several Writes that follow each
	// other may have the same. It stays untouched as long as SGL.
	Source Source

	RemoteSTag STag   // Write: target; Read: source
	RemoteTO   uint64 // tagged offset there

	Invalidate STag // OpSendInvalidate, OpSendSEInvalidate: the peer's STag

	MR     *MR    // Read: sink; OpLocalInvalidate: what to invalidate
	Offset uint64 // Read: offset from the start of the sink MR
	Length uint32 // Read: bytes

	Immediate uint64  // OpImmediate, OpImmediateSE; the low 32 bits where CarriesImmediate
	Atomic    *Atomic // atomic operations, on the eight bytes at RemoteTO, a multiple of eight

	AH *AddressHandle // where a message of a UD QP goes; no other service looks at it

	Fence      bool // start only when all earlier RDMA Reads are done
	Unsignaled bool // no completion unless it fails
	Deferred   bool // nobody waits for the completion: a CQ handler may be told of it with a later one, or by QP.Prompt
	Together   bool // others are about to post as well: they may be let run before it is sent, so that all of it leaves at once
}

// A Source has bytes that come to this process's memory at the last moment, when they are about to
// be sent, such as those of a file. They leave it in order.
type Source interface {
	// ReadFull copies the next len(p) bytes to p. It does not wait.
	ReadFull(p []byte) error
}

// An AddressHandle is the destination of a datagram: a QP of a peer's, and the key that
// it asks for. It stays untouched as long as the SendWR that names it.
type AddressHandle struct {
	Addr netip.Addr
	QPN  uint32 // 24 bits; 0xffffff for those that have joined the group Addr
	QKey uint32 // with bit 31 set, the sending QP's own is sent in its place (IBA 10.2.5 [IBU-232])
}

// A RecvWR is one buffer for one inbound Send: Buf, or one of Pool, taken when the Send
// begins to arrive. That one is the ULP's with WC.Buf, to be put back into the
// Pool; a receive that is flushed has none.
type RecvWR struct {
	ID   uint64
	Buf  []byte
	Pool *BufferPool // where Buf is nil
}

// Status is how a work request ended.
type Status uint8

// The ends of a work request.
const (
	WCSuccess  Status = iota
	WCFlushErr        // the QP failed or was closed before the work was done
	WCLocErr          // the work request itself was wrong
	WCRemErr          // the peer refused it (see QP.Err)
)

// A WC is a work completion.
type WC struct {
	ID          uint64
	QP          *QP
	Op          Opcode
	Status      Status
	Len         uint32 // OpRecv: bytes received
	Buf         []byte // OpRecv of a Send: the buffer of the receive
	Invalidated STag   // OpRecv: our STag that the peer invalidated, or 0
	Solicited   bool   // OpRecv: the Send asked for an event
	Immediate   bool   // a receive: Immediate Data is in Value. OpRecv with no Buf: nothing else came, the buffer is as it was
	SrcQP       uint32 // a receive of UD: the QP that sent it; its address is in the GRH in front of the payload
	Value       uint64 // Immediate Data; of an atomic operation, what was there before
}

// CRCMode is what is asked of the peer about checksums of what is sent, for providers that leave a
// choice.
type CRCMode uint8

// CRC modes.
const (
	CRCOn     CRCMode = iota // require CRCs: both ends check
	CRCAuto                  // use them when the peer asks for them
	CRCOff                   // ask for none; used all the same when the peer insists (RFC 5044 §7.1 wants so)
	CRCStrict                // as CRCOn, and no byte of payload is placed before the CRC of its segment has been checked
)

// DeviceConfig is how a software RNIC behaves. The zero value is right for most.
type DeviceConfig struct {
	CRC              CRCMode
	MaxIRD, MaxORD   int           // 0: 128
	HandshakeTimeout time.Duration // 0: 5 s as responder, 10 s as initiator
	Extensions       bool          // Immediate Data and atomics, which nothing negotiates (RFC 7306): only where the peer is known to have them too
	MaxHandshakes    int           // connections in start-up at once on one listener; 0: 256
	Markers          bool          // iWARP: ask the peer to send MPA markers

	// KeepThreads has who waits in QP.Drive keep his thread for up to 5 ms, and one of the
	// processors of Go's scheduler with it (GOMAXPROCS; at most half of them), in place of parking
	// the goroutine. It is for processes that do little but wait for one answer after the other,
	// which they have sooner. iWARP only.
	KeepThreads bool

	// Dial makes the TCP connections of Connect, through a proxy, say, or from another
	// network namespace; nil: as net.Dialer does.
	Dial func(ctx context.Context, network, addr string) (net.Conn, error)
}

// ConnParams is what one side brings to a new connection.
type ConnParams struct {
	PrivateData []byte // at most Caps.MaxPrivateData
	IRD, ORD    int    // 0: the device's maximum

	// Provider is what only one provider knows, as its ConnOptions; nil for its defaults.
	Provider any
}

// QPConfig is the service and the sizes of a QP.
type QPConfig struct {
	Service          Service // Caps.Services lists what there is
	SendCQ, RecvCQ   *CQ
	SQDepth, RQDepth int

	// Waiting reports whether anybody waits for what comes on this QP. With it, QP.Drive can take
	// the place of the provider's receive loop. It takes no lock that is held while posting.
	Waiting func() bool
}

// Errors of the verbs.
var (
	ErrSQFull = errors.New("rnic: send queue is full")
	ErrRQFull = errors.New("rnic: receive queue is full")
	ErrState  = errors.New("rnic: not possible in this state of the QP")
	ErrClosed = errors.New("rnic: closed")

	// ErrConnLost ends a QP whose connection broke, or was closed by the
	// peer inside of a message or with work outstanding.
	ErrConnLost = errors.New("rnic: connection lost")
)

// Errors of a work request that is refused when it is posted.
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

// A RejectError is a connection request that the peer refused.
type RejectError struct {
	PrivateData []byte
	IRD, ORD    int // what the peer said it needs; 0 when it said nothing
}

func (e *RejectError) Error() string { return "rnic: connection refused by the peer" }

// A PeerError is the end of a QP because the peer said so: QP.Err can be asked for it with
// errors.As.
type PeerError interface {
	error

	// RefusedSTag is the STag of the peer's whose use by us it refused; false when it
	// refused something else, or did not say what.
	RefusedSTag() (stag uint32, ok bool)
}
