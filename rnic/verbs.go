// The verbs: the words that programs use to talk to the RNIC.

package rnic

import (
	"context"
	"errors"
	"net"
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
	OpImmediate   // eight octets that complete a receive of the peer's
	OpImmediateSE // the same, asking for an event
	OpFetchAdd    // the atomic operations
	OpCmpSwap
	OpSwap // whatever is there
)

// A SendWR is one work request for the send queue. Posting copies the SendWR;
// what its slices point at (the SGL array too) stays untouched until its
// completion, or that of a later one of the same QP, has been polled.
type SendWR struct {
	ID  uint64
	Op  Opcode
	SGL [][]byte // Send*, Write: the payload, gathered in order

	RemoteSTag STag   // Write: target; Read: source
	RemoteTO   uint64 // tagged offset there

	Invalidate STag // OpSendInvalidate, OpSendSEInvalidate: the peer's STag

	MR     *MR    // Read: sink; OpLocalInvalidate: what to invalidate
	Offset uint64 // Read: offset from the start of the sink MR
	Length uint32 // Read: octets

	Immediate uint64  // OpImmediate, OpImmediateSE
	Atomic    *Atomic // atomic operations, on the eight octets at RemoteTO, a multiple of eight

	Fence      bool // start only when all earlier RDMA Reads are done
	Unsignaled bool // no completion unless it fails
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
	Len         uint32 // OpRecv: octets received
	Buf         []byte // OpRecv of a Send: the buffer of the receive
	Invalidated STag   // OpRecv: our STag that the peer invalidated, or 0
	Solicited   bool   // OpRecv: the Send asked for an event
	Immediate   bool   // OpRecv: it was Immediate Data, in Value; the buffer is as it was
	Value       uint64 // Immediate Data; of an atomic operation, what was there before
}

// CRCMode says what is asked of the peer about CRCs (RFC 5044 §7.1).
type CRCMode uint8

// CRC modes.
const (
	CRCOn   CRCMode = iota // require CRCs: both ends check
	CRCAuto                // use them when the peer asks for them
	CRCOff                 // ask for none; used all the same when the peer insists (the RFC wants so)
)

// DeviceConfig is how a software RNIC behaves. The zero value is right for most.
type DeviceConfig struct {
	CRC              CRCMode
	Markers          bool          // ask the peer to send markers
	MaxIRD, MaxORD   int           // 0: 128
	HandshakeTimeout time.Duration // 0: 5 s as responder, 10 s as initiator
	Extensions       bool          // speak RFC 7306, which nothing negotiates: only where the peer is known to do so too
	MaxHandshakes    int           // connections in MPA start-up at once on one listener, see Listen; 0: 256

	// Dial makes the TCP connections of Connect, through a proxy, say, or from another
	// network namespace; nil: a net.Dialer.
	Dial func(ctx context.Context, network, addr string) (net.Conn, error)
}

// PrivateDataMax is the most private data that the connection manager carries beside the IRD/ORD block.
const PrivateDataMax = 508

// ConnParams is what one side brings to a new connection.
type ConnParams struct {
	PrivateData []byte
	IRD, ORD    int // 0: the device's maximum

	// Settle is how long Connect holds back the first FPDU after the peer's
	// Reply. A Linux siw responder that is still turning its socket over to FPDUs
	// can miss the wake-up of one that comes at once. 0: 2 ms; negative: none.
	Settle time.Duration

	// RTR has Connect announce the peer-to-peer model and begin with one of these
	// messages, so that the responder may be the first to send (RFC 6581). 0: the
	// client-server model, in which the initiator's ULP speaks first, as in RPC.
	// To Accept it is the kinds that may be chosen when the peer wants that model; 0:
	// any. The cheapest is, and whatever valid message then comes opens the way back.
	RTR RTR
}

// QPConfig sizes a QP.
type QPConfig struct {
	SendCQ, RecvCQ   *CQ
	SQDepth, RQDepth int
}

// Errors of the verbs.
var (
	ErrSQFull = errors.New("rnic: send queue is full")
	ErrRQFull = errors.New("rnic: receive queue is full")
	ErrState  = errors.New("rnic: not possible in this state of the QP")
	ErrClosed = errors.New("rnic: closed")

	// ErrConnLost ends a QP whose TCP connection broke, or was closed by the
	// peer inside of a message or with work outstanding.
	ErrConnLost = errors.New("rnic: connection lost")
)

// Errors of a work request that is refused when it is posted.
var (
	errOpcode   = errors.New("rnic: not an opcode of the send queue")
	errTooLong  = errors.New("rnic: a message holds at most 2^32-1 octets")
	errNoMR     = errors.New("rnic: the work request needs a memory region of the QP's PD")
	errNoInv    = errors.New("rnic: a Send with Invalidate needs an STag")
	errNoORD    = errors.New("rnic: the peer takes no RDMA Reads on this connection")
	errReadSink = errors.New("rnic: the Read's sink is not in a valid memory region with LocalWrite")
)

// A RejectError is a connection request that the peer refused.
type RejectError struct {
	PrivateData []byte
	IRD, ORD    int // what the peer said it needs; 0 when it said nothing
}

func (e *RejectError) Error() string { return "rnic: connection refused by the peer" }
