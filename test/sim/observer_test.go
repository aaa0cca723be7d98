// The observer: the bytes on the wire, and which of them the RFCs and the current calls allow.

package sim

import (
	"fmt"
	"sync"

	"github.com/nfsrdma/nfsrdma/rnic/iwarp/rdmap"
	"github.com/nfsrdma/nfsrdma/rnic/iwarp/term"
)

// An observer sees the bytes in both directions where they are sent and where they arrive. A ulp,
// if there is one, checks the segments.
type observer struct {
	mu      sync.Mutex
	streams [2]struct{ out, in stream } // by sender: as sent, as arrived
	reads   [2]readQueue                // by reader
	ulp     ulp
	fail    func(format string, args ...any)
	trace   func(format string, args ...any)
	blind   bool // something was wrong: later bytes cannot be checked
}

// A ulp checks the upper layer's use of the segments. Calls are in order.
type ulp interface {
	sent(side int, seg *segment, msg []byte, whole bool) error
	arrived(side int, seg *segment, msg []byte, whole bool) error
}

func newObserver(fail func(string, ...any)) *observer {
	o := &observer{fail: fail, trace: func(string, ...any) {}}
	for side := range o.streams {
		s, t := &o.streams[side], &o.streams[1-side]
		s.out.from, s.in.from = side, side
		s.out.other, s.in.other = &t.out, &t.in
	}
	return o
}

// close ends the checks: later bytes were changed on purpose.
func (o *observer) close() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.blind = true
}

// sent checks bytes that side hands to the network.
func (o *observer) sent(side int, b []byte) {
	if o == nil { // no observer
		return
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.blind {
		return
	}
	s := &o.streams[side].out
	err := s.feed(b, func(seg *segment) error {
		o.trace("%c sends   %v last %v stag %x to %x, %d bytes", 'A'+side, seg.op, seg.Last, seg.STag, seg.TO, len(seg.data))
		if err := o.check(side, seg); err != nil {
			return err
		}
		if o.ulp == nil {
			return nil
		}
		var msg []byte
		whole := false
		if seg.op.IsSend() {
			msg, whole = s.message(seg)
		}
		return o.ulp.sent(side, seg, msg, whole)
	})
	if err != nil {
		o.blind = true
		o.fail("on the wire, from %c: %v", 'A'+side, err)
	}
}

// arrived checks bytes from side that the other side has read.
func (o *observer) arrived(side int, b []byte) {
	if o == nil {
		return
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.blind {
		return
	}
	s := &o.streams[side].in
	err := s.feed(b, func(seg *segment) error {
		o.trace("%c's has come: %v last %v", 'A'+side, seg.op, seg.Last)
		switch seg.op {
		case rdmap.OpReadRequest:
			o.reads[side].come++
		case rdmap.OpReadResponse:
			o.reads[1-side].answered(seg)
		}
		if o.ulp == nil {
			return nil
		}
		var msg []byte
		whole := false
		if seg.op.IsSend() {
			msg, whole = s.message(seg)
		}
		return o.ulp.arrived(side, seg, msg, whole)
	})
	if err != nil {
		o.blind = true
		o.fail("as it arrives, from %c: %v", 'A'+side, err)
	}
}

// check checks a segment from side against the rules that hold for any upper layer.
func (o *observer) check(side int, seg *segment) error {
	switch seg.op {
	case rdmap.OpReadRequest:
		q, err := rdmap.ParseReadRequest(seg.data)
		if err != nil {
			return err
		}
		limit := o.streams[1-side].out.frame.Enhanced.IRD
		return o.reads[side].asked(q, int(limit))
	case rdmap.OpReadResponse:
		return o.reads[1-side].answer(seg)
	case rdmap.OpTerminate:
		_, err := term.Parse(seg.data, false)
		return err
	}
	return nil
}

// A readQueue is the RDMA Reads of one side, in order.
type readQueue struct {
	asks    []rdmap.ReadRequest // not answered in full, as the other side sends
	come    int                 // number of asks that have arrived there
	done    uint32              // bytes of the response to asks[0] that have been sent
	pending int                 // not answered in full, as the reader sees it
}

func (r *readQueue) asked(q rdmap.ReadRequest, limit int) error {
	r.asks = append(r.asks, q)
	if r.pending++; r.pending > limit {
		return fmt.Errorf("%d RDMA Reads where %d are allowed", r.pending, limit)
	}
	return nil
}

// answer compares a segment of a Read Response with the oldest Read that has arrived.
func (r *readQueue) answer(seg *segment) error {
	if r.come == 0 {
		return fmt.Errorf("RDMA Read Response that nobody asked for")
	}
	q := &r.asks[0]
	n := uint32(len(seg.data))
	if seg.STag != q.SinkSTag || seg.TO != q.SinkTO+uint64(r.done) || r.done+n > q.Size || seg.Last != (r.done+n == q.Size) {
		return fmt.Errorf("RDMA Read Response to %x %x, %d bytes, last %v: not what %+v asked for after %d",
			seg.STag, seg.TO, n, seg.Last, *q, r.done)
	}
	r.done += n
	if seg.Last {
		r.asks, r.come, r.done = r.asks[1:], r.come-1, 0
	}
	return nil
}

func (r *readQueue) answered(seg *segment) {
	if seg.Last {
		r.pending--
	}
}
