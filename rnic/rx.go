// The receiver: octets in, FPDUs found, checked and placed.

package rnic

import (
	"errors"
	"sync"
	"sync/atomic"

	"github.com/nfsrdma/nfsrdma/rnic/iwarp/ddp"
	"github.com/nfsrdma/nfsrdma/rnic/iwarp/mpa"
	"github.com/nfsrdma/nfsrdma/rnic/iwarp/rdmap"
	"github.com/nfsrdma/nfsrdma/rnic/iwarp/term"
)

// A receiver is the inbound half of a QP. Only the receive loop runs it; mu is
// held while octets are placed, so that stop can end placement for good.
type receiver struct {
	// set once
	qp      *QP
	crc     bool
	markers *mpa.MarkerReceiver // not nil: we asked for markers
	direct  bool                // large payload is read straight to where it belongs

	// owned by the receive loop
	buf   []byte
	r, w  int      // buf[r:w] has not been parsed
	small *rxSmall // not nil: buf is this one
	wide  *rxBuf   // the same; neither: buf is nil, for nothing has come that is not used
	busy  bool     // a read filled the small buffer, so take a large one when there is input
	bulk  bool     // the last payload was read directly; another one is likely to follow
	land  landing  // the segment whose payload is on its way to its memory

	mu        sync.Mutex
	stopped   bool // guarded by mu, as is all that follows
	begun     bool // a valid FPDU has arrived
	sendMSN   uint32
	readMSN   uint32
	atomicMSN uint32

	// the Send that is being received
	open   bool
	op     rdmap.Opcode
	recv   RecvWR
	placed uint32

	// the Read whose response is being received
	read     *sendEntry
	readDone uint32
	pulled   atomic.Uint64 // bytes of all Read Responses

	mr *MR // the last one written to
}

func (r *receiver) init(qp *QP) {
	r.qp = qp
	r.sendMSN, r.readMSN, r.atomicMSN = 1, 1, 1
}

// consume parses and places every whole FPDU that the buffer has. The error is
// a *streamFault or one that needs no Terminate.
func (r *receiver) consume() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	defer func() {
		if r.stopped { // after the end, input is discarded
			r.r, r.w, r.land = 0, 0, landing{}
		}
	}()
	for !r.stopped {
		if r.land.open {
			if whole, err := r.landed(); err != nil || !whole {
				return err
			}
			continue
		}
		ulpdu, n, err := r.next()
		if err != nil {
			return r.fault(err, nil, 0)
		}
		if n == 0 {
			return r.takeOff()
		}
		r.r += n
		r.bulk = false
		if err := r.segment(ulpdu, len(ulpdu)); err != nil {
			return r.fault(err, ulpdu, len(ulpdu)) // nothing behind an error is placed (R5041-109)
		}
		r.begin()
	}
	return nil
}

// begin notes that a valid FPDU has come.
func (r *receiver) begin() {
	if !r.begun {
		r.begun = true
		r.qp.ungate()
	}
}

func (r *receiver) next() ([]byte, int, error) {
	if r.markers != nil {
		return r.markers.Parse(r.buf[r.r:r.w], r.crc)
	}
	return mpa.ParseFPDU(r.buf[r.r:r.w], r.crc)
}

// fault dresses an error for the peer (RFC 5040 §4.8; which headers go back is in
// its table of inclusions, R5040-086). length is the ULPDU's, of which ulpdu may be the beginning.
func (r *receiver) fault(err error, ulpdu []byte, length int) error {
	r.stopped = true
	var e *term.Error
	if !errors.As(err, &e) {
		return err
	}
	f := &streamFault{err: err, term: term.Terminate{Code: e.Code}}
	hdr := ddp.Terminated(ulpdu)
	if e.Code.Layer == term.LayerLLP || e.Code == term.DDPLocal || hdr == nil {
		return f
	}
	f.term.HasSegLen, f.term.SegLen = true, uint16(length)
	f.term.DDP = append([]byte(nil), hdr...)
	isRead := rdmap.Opcode(ulpdu[1]&0x0f) == rdmap.OpReadRequest
	if e.Code.Layer == term.LayerRDMAP && e.Code.EType == 1 && isRead { // R5040-083
		f.term.RDMA = append([]byte(nil), ulpdu[ddp.UntaggedLen:]...)
	}
	return f
}

// stop ends placement: when it returns no octet is placed any more.
func (r *receiver) stop() {
	r.mu.Lock()
	r.stopped = true
	r.mu.Unlock()
}

// start sets the receiver up for a connection.
func (r *receiver) start(s *session) {
	r.crc = s.crc
	if s.recvMarks {
		r.markers = new(mpa.MarkerReceiver)
	}
	r.direct = !s.crc && !s.recvMarks && r.qp.link != nil && r.qp.link.inline()
	if len(s.early) > 0 { // less than a start-up frame may have
		r.takeSmall()
		r.w = copy(r.buf, s.early)
	}
}
