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
	LocalWrite  Access = 1 << iota // sink of our own RDMA Reads
	RemoteRead                     // the peer may RDMA Read it
	RemoteWrite                    // the peer may RDMA Write it
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

	Fence      bool // start only when all earlier RDMA Reads are done
	Unsignaled bool // no completion unless it fails
}

// A RecvWR is one buffer for one inbound Send.
type RecvWR struct {
	ID  uint64
	Buf []byte
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
	Invalidated STag   // OpRecv: our STag that the peer invalidated, or 0
	Solicited   bool   // OpRecv: the Send asked for an event
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
	MaxHandshakes    int           // connections that may be in MPA start-up at once on one listener; 0: 256
}

// PrivateDataMax is the most private data that the connection manager carries beside the IRD/ORD block.
const PrivateDataMax = 508

// ConnParams is what one side brings to a new connection.
type ConnParams struct {
	PrivateData []byte
	IRD, ORD    int // 0: the device's maximum
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
)

// A RejectError is a connection request that the peer refused.
type RejectError struct{ PrivateData []byte }

func (e *RejectError) Error() string { return "rnic: connection refused by the peer" }

type (
	Device      struct{}
	PD          struct{}
	MR          struct{}
	CQ          struct{}
	QP          struct{}
	Listener    struct{}
	ConnRequest struct{}
)

// Open returns a software iWARP RNIC.
func Open(cfg DeviceConfig) *Device { panic("stub") }

func (d *Device) AllocPD() *PD { panic("stub") }

// NewCQ returns a completion queue that holds depth completions. Never overflows silently.
func (d *Device) NewCQ(depth int) *CQ { panic("stub") }

// Listen: MPA start-up of each inbound TCP connection runs on its own, with the
// handshake deadline; Accept returns only complete, valid requests.
func (d *Device) Listen(network, addr string) (*Listener, error) { panic("stub") }

// Connect dials addr, does MPA start-up as initiator and brings qp to RTS.
func (d *Device) Connect(ctx context.Context, qp *QP, addr string, p ConnParams) error { panic("stub") }

func (l *Listener) Accept() (*ConnRequest, error) { panic("stub") }
func (l *Listener) Addr() net.Addr                { panic("stub") }
func (l *Listener) Close() error                  { panic("stub") }

func (r *ConnRequest) PrivateData() []byte               { panic("stub") }
func (r *ConnRequest) RemoteAddr() net.Addr              { panic("stub") }
func (r *ConnRequest) IRD() int                          { panic("stub") }
func (r *ConnRequest) ORD() int                          { panic("stub") }
func (r *ConnRequest) Accept(qp *QP, p ConnParams) error { panic("stub") }
func (r *ConnRequest) Reject(privateData []byte) error   { panic("stub") }

// RegMR registers buf: a fresh random STag, base TO chosen by the device.
func (pd *PD) RegMR(buf []byte, access Access) (*MR, error) { panic("stub") }

// AllocMR returns an MR that is invalid until Rereg.
func (pd *PD) AllocMR() (*MR, error) { panic("stub") }

func (pd *PD) CreateQP(cfg QPConfig) (*QP, error) { panic("stub") }

func (mr *MR) STag() STag   { panic("stub") }
func (mr *MR) Base() uint64 { panic("stub") }
func (mr *MR) Len() int     { panic("stub") }

// Rereg makes an invalid MR valid again for another buffer, with a new key. It does not allocate.
func (mr *MR) Rereg(buf []byte, access Access) error { panic("stub") }

// Invalidate returns only when no octet can be placed in, or read from, the MR
// any more by the peer. Invalidating an invalid MR is no error.
func (mr *MR) Invalidate() { panic("stub") }

// Dereg invalidates and gives the STag index back.
func (mr *MR) Dereg() { panic("stub") }

// Poll moves up to len(wcs) completions to wcs.
func (cq *CQ) Poll(wcs []WC) int { panic("stub") }

// SetHandler has f called after completions were added, on the goroutine that
// added them, with no lock held: at most one call at a time per CQ. It must
// poll until the CQ is empty, and must not block. f may post: posts made from
// a handler that the receive loop runs leave in one batch when f returns.
func (cq *CQ) SetHandler(f func()) { panic("stub") }

// Wait blocks until the CQ is not empty, for programs that set no handler.
func (cq *CQ) Wait(ctx context.Context) error { panic("stub") }

// PostSend queues the work requests, all or none, in order. It never blocks.
func (qp *QP) PostSend(wrs ...SendWR) error { panic("stub") }

// PostRecv queues receive buffers; allowed before the QP is connected.
func (qp *QP) PostRecv(wrs ...RecvWR) error { panic("stub") }

// Disconnect ends the connection in good order: accepted work is drained, then FIN.
func (qp *QP) Disconnect(ctx context.Context) error { panic("stub") }

// Close ends the connection at once; posted work is flushed. It returns when the QP's goroutines are gone.
func (qp *QP) Close() error { panic("stub") }

// Done is closed when the QP has left RTS for good and all work has been flushed.
func (qp *QP) Done() <-chan struct{} { panic("stub") }

// Err is why the QP ended: nil, io.EOF (peer closed in good order), *term.Error, *term.PeerError, ...
func (qp *QP) Err() error           { panic("stub") }
func (qp *QP) RemoteAddr() net.Addr { panic("stub") }
func (qp *QP) LocalAddr() net.Addr  { panic("stub") }
func (qp *QP) PrivateData() []byte  { panic("stub") } // the peer's
func (qp *QP) IRD() int             { panic("stub") } // as negotiated
func (qp *QP) ORD() int             { panic("stub") }
