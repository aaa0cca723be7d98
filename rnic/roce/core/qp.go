// A queue pair: its state, and posting work to it.

package core

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/nfsrdma/nfsrdma/rnic"
	"github.com/nfsrdma/nfsrdma/rnic/roce/packet"
)

// QPNs and PSNs have 24 bits.
const (
	maxPSN = 1<<24 - 1

	// MulticastQPN is the destination QPN of packets to a group (IBA 9.6 [IBU-183]).
	MulticastQPN = 1<<24 - 1

	// GSI is the QPN of the general services, used for connection management; GSIQKey is its
	// Q_Key.
	GSI     = 1
	GSIQKey = 0x80010000
)

// nextPSN returns the PSN after psn (IBA 9.8.2.1.1 [IBU-045], 9.8.2.2.1 [IBU-069]).
func nextPSN(psn uint32) uint32 { return (psn + 1) & maxPSN }

// MaxMessage is the largest message, in bytes (9.8.2 table 54 [reconstructed] message size
// [IBU-036]).
const MaxMessage = 1 << 31

// Config has a QP's constant parameters.
type Config struct {
	Service packet.Service // RC, UC or UD
	Num     uint32         // the QPN, which Port.Add validates
	Depth   int            // of the send queue, in work requests
	PortMTU int            // UD: the largest payload, one of the path MTUs; 0: 4096
	Owner   any            // the QP's owner, for the caller of Port.Receive
}

// A QP runs the protocol of one queue pair. Its methods are safe for concurrent use, except the
// sending methods: see the package comment.
type QP struct {
	// set once
	q       *rnic.ProviderQP
	service packet.Service
	num     uint32
	portMTU int
	owner   any

	moved atomic.Uint64 // see Moved

	mu    sync.Mutex
	state State // guarded by mu, as are all fields below; see become
	cause error // the reason for ERR
	attrs Attrs
	sq    rnic.SendQueue[progress]
	out   sending
	in    receiving
	req   requesting // RC
	res   responding // RC
	count Counters
}

// Errors returned by New and Post.
var (
	ErrService   = errors.New("roce: the service is not one of RC, UC and UD")
	ErrOperation = errors.New("roce: the service has no such operation")
	ErrTooLong   = errors.New("roce: a message holds at most 2^31 bytes")
	ErrMasked    = errors.New("roce: an atomic operation has no masks")
	ErrNoORD     = errors.New("roce: the peer takes no RDMA Reads on this connection")
	ErrNoAH      = errors.New("roce: a message of a UD QP needs an address handle")
)

// New returns a QP in RESET that runs q's protocol.
func New(q *rnic.ProviderQP, cfg Config) (*QP, error) {
	if changes[cfg.Service] == nil {
		return nil, fmt.Errorf("%w: %v", ErrService, cfg.Service)
	}
	if cfg.PortMTU == 0 {
		cfg.PortMTU = MaxMTU
	}
	if !ValidMTU(cfg.PortMTU) {
		return nil, fmt.Errorf("%w: port MTU %d", ErrValue, cfg.PortMTU)
	}
	qp := &QP{q: q, service: cfg.Service, num: cfg.Num, portMTU: cfg.PortMTU, owner: cfg.Owner}
	qp.sq.Init(q, cfg.Depth, &sendChunks)
	return qp, nil
}

// Num returns the QPN.
func (qp *QP) Num() uint32 { return qp.num }

// Service returns the transport service.
func (qp *QP) Service() packet.Service { return qp.service }

// Owner is Config.Owner.
func (qp *QP) Owner() any { return qp.owner }

// Moved returns the progress of posted work in bytes. RC counts bytes acknowledged by the peer and
// data received for this side's Reads; UC and UD count bytes taken by the network. Partial packets
// count as full ones.
func (qp *QP) Moved() uint64 { return qp.moved.Load() }

// Counters returns the outcome of the QP's received packets.
func (qp *QP) Counters() Counters {
	qp.mu.Lock()
	defer qp.mu.Unlock()
	return qp.count
}

// operation reports whether a service has an operation (IBA 9.8 intro [IBU-001], 9.8.2 table 54
// [reconstructed] operations [IBU-035]). A local invalidation sends nothing.
func operation(s packet.Service, op rnic.Opcode) bool {
	switch op {
	case rnic.OpSend, rnic.OpSendSE, rnic.OpSendImmediate, rnic.OpSendSEImmediate:
		return true
	case rnic.OpWrite, rnic.OpWriteImmediate, rnic.OpWriteSEImmediate, rnic.OpLocalInvalidate:
		return s != packet.UD
	case rnic.OpSendInvalidate, rnic.OpSendSEInvalidate, rnic.OpRead, rnic.OpReadInvalidate, rnic.OpFetchAdd, rnic.OpCmpSwap:
		return s == packet.RC
	}
	return false
}

// Post queues work requests in order, all or none. Only a QP ready to send takes them.
func (qp *QP) Post(wrs []rnic.Posted) error {
	for i := range wrs {
		wr := &wrs[i]
		switch {
		case !operation(qp.service, wr.Op):
			return fmt.Errorf("%w: %v, %v", ErrOperation, qp.service, wr.Op)
		case wr.Bytes > MaxMessage:
			return ErrTooLong
		case wr.Op.IsAtomic() && !plainAtomic(wr):
			return ErrMasked
		// IBA 9.8.3 [IBU-125].
		case qp.service == packet.UD && (wr.AH == nil || !wr.AH.Addr.IsValid() || wr.AH.QPN > MulticastQPN):
			return ErrNoAH
		}
	}
	qp.mu.Lock()
	defer qp.mu.Unlock()
	if err := qp.sq.Room(len(wrs)); err != nil {
		return err
	}
	for i := range wrs {
		if returnsData(wrs[i].Op) && qp.attrs.MaxReads == 0 {
			return ErrNoORD
		}
	}
	for i := range wrs {
		e := qp.sq.At(qp.sq.Push(&wrs[i]))
		e.P = progress{}
		if e.MR != nil && returnsData(e.Op) {
			e.P.sink = e.MR.STag()
		}
	}
	return nil
}

// ClosePosts makes Post refuse further work; work posted earlier still completes.
func (qp *QP) ClosePosts() {
	qp.mu.Lock()
	defer qp.mu.Unlock()
	qp.sq.Close()
}

// Probe checks whether the peer is still alive: it posts an RDMA Write without data and without a
// completion. The Write needs no memory, and the peer acknowledges it. If work is outstanding, an
// answer is due anyway, so Probe posts nothing. RC only.
func (qp *QP) Probe() {
	qp.mu.Lock()
	defer qp.mu.Unlock()
	qp.probePeer()
}

// probePeer is Probe. The caller holds mu.
func (qp *QP) probePeer() {
	if qp.service != packet.RC || qp.state != RTS || !qp.sq.Empty() || qp.sq.Room(1) != nil {
		return
	}
	e := qp.sq.At(qp.sq.Push(&rnic.Posted{SendWR: rnic.SendWR{Op: rnic.OpWrite}}))
	e.P, e.Internal = progress{}, true
}

// Drained reports whether all posted work is complete and all answers owed to the peer have been
// built.
func (qp *QP) Drained() bool {
	qp.mu.Lock()
	defer qp.mu.Unlock()
	return qp.sq.Empty() && qp.res.head == qp.res.tail
}

// Outstanding reports whether posted work is incomplete. A QP in SQD without outstanding work is
// drained.
func (qp *QP) Outstanding() bool {
	qp.mu.Lock()
	defer qp.mu.Unlock()
	return !qp.sq.Empty()
}
