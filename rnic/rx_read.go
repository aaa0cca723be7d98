// Reading from the link: how much, and into which memory.

package rnic

import (
	"encoding/binary"
	"fmt"
	"io"
	"sync"

	"github.com/nfsrdma/nfsrdma/rnic/iwarp/mpa"
)

// Sizes of the receive buffer. A QP has one only while there is input, for there may be
// many idle QPs: a small one or, once its input has filled that, a large one. It is
// given back when the QP has to wait for more and there is nothing in it.
const (
	rxBufMin = 16 << 10
	rxBufMax = 256 << 10
)

type (
	rxSmall [rxBufMin]byte
	rxBuf   [rxBufMax]byte
)

var (
	rxSmalls = sync.Pool{New: func() any { return new(rxSmall) }}
	rxBufs   = sync.Pool{New: func() any { return new(rxBuf) }}
)

// takeSmall gives the QP a small buffer; it has none.
func (r *receiver) takeSmall() {
	r.small = rxSmalls.Get().(*rxSmall)
	r.buf = r.small[:]
}

// fill reads once. io.EOF comes only on an FPDU boundary.
func (r *receiver) fill(l link) error {
	n, err := l.read(r)
	n -= r.land.add(n)
	r.w += n
	if err == nil {
		r.busy = r.busy || r.w == len(r.buf)
		return nil
	}
	if err == io.EOF && r.r == r.w && !r.land.open {
		return io.EOF
	}
	if err == io.EOF {
		err = io.ErrUnexpectedEOF // inside of an FPDU (RFC 5044 §8 code 1)
	}
	return fmt.Errorf("%w: %w", ErrConnLost, err)
}

// aim says where the octets go that a read gets: first into head, and those behind
// into rest. Between aim and release the memory is held, so head stays valid; the
// read must not wait meanwhile. When ok is false there is nothing to read for.
func (r *receiver) aim() (head, rest []byte, ok bool) {
	if r.buf == nil {
		r.takeSmall()
	}
	if r.land.open && r.land.left() > 0 {
		head, ok = r.hold()
		return head, r.buf[:bulkTail], ok
	}
	r.makeRoom()
	rest = r.buf[r.w:]
	if r.bulk && r.w-r.r < headMax {
		rest = rest[:min(len(rest), bulkTail)]
	}
	return nil, rest, true
}

// release ends what aim began. idle: there was no input, and the link is going to wait for it.
func (r *receiver) release(idle bool) {
	if r.land.held {
		r.letGo()
	}
	if idle && r.r == r.w {
		r.giveBack()
	}
}

// missing is how many octets it takes until there is anything to do: those that
// make the next FPDU whole, as far as that is known.
func (r *receiver) missing() int {
	have := r.w - r.r
	switch {
	case r.land.open:
		return r.land.left() + r.land.trailer - have
	case have < mpa.LengthLen || r.markers != nil:
		return 1
	}
	return mpa.FPDULen(int(binary.BigEndian.Uint16(r.buf[r.r:]))) - have
}

// makeRoom moves a begun FPDU to the front when it could be cut off by the end
// of the buffer, and takes a large buffer when the small one has been filled.
func (r *receiver) makeRoom() {
	switch {
	case r.busy && r.wide == nil:
		r.wide = rxBufs.Get().(*rxBuf)
		r.w = copy(r.wide[:], r.buf[r.r:r.w])
		r.buf, r.r = r.wide[:], 0
		rxSmalls.Put(r.small)
		r.small = nil
	case r.r == r.w:
		r.r, r.w = 0, 0
	case len(r.buf)-r.r < mpa.MaxFPDU:
		r.w = copy(r.buf, r.buf[r.r:r.w])
		r.r = 0
	}
}

// giveBack returns the buffer, which is empty, to its pool.
func (r *receiver) giveBack() {
	if r.wide != nil {
		rxBufs.Put(r.wide)
	}
	if r.small != nil {
		rxSmalls.Put(r.small)
	}
	r.small, r.wide, r.buf = nil, nil, nil
	r.r, r.w = 0, 0
}

// quit returns what the receiver holds when the stream has ended: its buffer, and that of a
// message that is not whole, whose receive was flushed.
func (r *receiver) quit() {
	r.giveBack()
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.open && r.recv.Pool != nil {
		r.recv.Pool.Put(r.recv.Buf)
	}
	r.open, r.recv = false, RecvWR{}
}
