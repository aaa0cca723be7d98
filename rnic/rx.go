// The receiver: octets in, FPDUs found, checked and placed.

package rnic

import (
	"errors"
	"fmt"
	"io"
	"sync"

	"github.com/nfsrdma/nfsrdma/rnic/ddp"
	"github.com/nfsrdma/nfsrdma/rnic/mpa"
	"github.com/nfsrdma/nfsrdma/rnic/rdmap"
	"github.com/nfsrdma/nfsrdma/rnic/term"
)

// Sizes of the receive buffer: it begins small, for there may be many idle QPs,
// and doubles whenever a read fills it.
const (
	rxBufMin = 16 << 10
	rxBufMax = 256 << 10
)

// A receiver is the inbound half of a QP. Only the receive loop runs it; mu is
// held while octets are placed, so that stop can end placement for good.
type receiver struct {
	// set once
	qp      *QP
	crc     bool
	markers *mpa.MarkerReceiver // not nil: we asked for markers

	// owned by the receive loop
	buf  []byte
	r, w int // buf[r:w] has not been parsed

	mu      sync.Mutex
	stopped bool // guarded by mu, as is all that follows
	begun   bool // a valid FPDU has arrived
	sendMSN uint32
	readMSN uint32

	// the Send that is being received
	open   bool
	op     rdmap.Opcode
	recv   RecvWR
	placed uint32

	// the Read whose response is being received
	read     *sendEntry
	readDone uint32

	mr *MR // the last one written to
}

func (r *receiver) init(qp *QP) {
	r.qp = qp
	r.sendMSN, r.readMSN = 1, 1
}

// fill reads once. io.EOF comes only on an FPDU boundary.
func (r *receiver) fill(l link) error {
	r.makeRoom()
	n, err := l.read(r.buf[r.w:])
	r.w += n
	if err == nil {
		return nil
	}
	if err == io.EOF && r.r == r.w {
		return io.EOF
	}
	if err == io.EOF {
		err = io.ErrUnexpectedEOF // inside of an FPDU (RFC 5044 §8 code 1)
	}
	return fmt.Errorf("%w: %w", ErrConnLost, err)
}

// makeRoom moves a begun FPDU to the front when it could be cut off by the end
// of the buffer, and grows a buffer that the last read filled.
func (r *receiver) makeRoom() {
	switch {
	case r.w == len(r.buf) && len(r.buf) < rxBufMax:
		b := make([]byte, max(2*len(r.buf), rxBufMin))
		r.w = copy(b, r.buf[r.r:r.w])
		r.buf, r.r = b, 0
	case r.r == r.w:
		r.r, r.w = 0, 0
	case len(r.buf)-r.r < mpa.MaxFPDU:
		r.w = copy(r.buf, r.buf[r.r:r.w])
		r.r = 0
	}
}

// consume parses and places every whole FPDU that the buffer has. The error is
// a *streamFault or one that needs no Terminate.
func (r *receiver) consume() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	defer func() {
		if r.stopped { // after the end, input is discarded
			r.r, r.w = 0, 0
		}
	}()
	for !r.stopped {
		ulpdu, n, err := r.next()
		if err != nil {
			return r.fault(err, nil)
		}
		if n == 0 {
			return nil
		}
		r.r += n
		if err := r.segment(ulpdu); err != nil {
			r.stopped = true // nothing behind an error is placed (R5041-109)
			return r.fault(err, ulpdu)
		}
		if !r.begun {
			r.begun = true
			r.qp.ungate()
		}
	}
	return nil
}

func (r *receiver) next() ([]byte, int, error) {
	if r.markers != nil {
		return r.markers.Parse(r.buf[r.r:r.w], r.crc)
	}
	return mpa.ParseFPDU(r.buf[r.r:r.w], r.crc)
}

// fault dresses an error for the peer (RFC 5040 §4.8; which headers go back is in
// its table of inclusions, R5040-086).
func (r *receiver) fault(err error, ulpdu []byte) error {
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
	f.term.HasSegLen, f.term.SegLen = true, uint16(len(ulpdu))
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
	r.buf = make([]byte, max(rxBufMin, len(s.early)))
	r.w = copy(r.buf, s.early)
}
