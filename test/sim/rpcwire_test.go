// RPC-over-RDMA on the wire: current calls, the memory that they advertise, and credits.

package sim

import (
	"encoding/binary"
	"fmt"

	"github.com/nfsrdma/nfsrdma/chunks"
	"github.com/nfsrdma/nfsrdma/rnic/iwarp/rdmap"
	"github.com/nfsrdma/nfsrdma/rpcrdma"
)

// A wireCall is a sent call.
type wireCall struct {
	read, write []chunks.Segment
	come        bool // the responder has it
	replied     bool // the reply has been sent
}

// A requester is one side's calls. The observer's mu guards it.
type requester struct {
	calls   map[uint32]*wireCall // without their reply
	replied int                  // replies that have arrived
	credits int                  // asked for
	most    int                  // calls at once
}

// rpcWire checks both directions.
type rpcWire struct {
	sides [2]requester
	inval [2]bool // a reply by this side may invalidate

	spoiled map[uint32]bool // replies that are no longer valid; guarded by the link's mu
}

func newRPCWire(credits [2]int, inval [2]bool) *rpcWire {
	w := &rpcWire{inval: inval, spoiled: map[uint32]bool{}}
	for i := range w.sides {
		w.sides[i] = requester{calls: map[uint32]*wireCall{}, credits: credits[i]}
	}
	return w
}

// window returns the number of calls that a side may have in flight: one until it knows the grant.
func (w *rpcWire) window(side int) int {
	if w.sides[side].replied == 0 {
		return 1
	}
	return min(w.sides[side].credits, w.sides[1-side].credits)
}

func (w *rpcWire) sent(side int, seg *segment, msg []byte, whole bool) error {
	switch {
	case seg.op == rdmap.OpWrite && len(seg.data) > 0:
		return w.advertised(1-side, seg.STag, seg.TO, uint64(len(seg.data)), true)
	case seg.op == rdmap.OpReadRequest:
		q, err := rdmap.ParseReadRequest(seg.data)
		if err != nil {
			return err
		}
		return w.advertised(1-side, q.SrcSTag, q.SrcTO, uint64(q.Size), false)
	case !whole:
		return nil
	}
	h, call, err := classify(msg)
	if err != nil {
		return err
	}
	if h.Credits == 0 || h.Credits > uint32(w.sides[side].credits) {
		return fmt.Errorf("message with %d credits", h.Credits)
	}
	if call {
		return w.call(&w.sides[side], w.window(side), h)
	}
	k := w.sides[1-side].calls[h.XID]
	switch {
	case k == nil || !k.come:
		return fmt.Errorf("reply to a call that is not there: XID %x", h.XID)
	case k.replied:
		return fmt.Errorf("second reply to XID %x", h.XID)
	case seg.op.Invalidates() && (!w.inval[side] || !k.offers(seg.Inv)):
		return fmt.Errorf("reply invalidates %x, which its call did not offer for that", seg.Inv)
	}
	k.replied = true
	return nil
}

// call records a call that is sent.
func (w *rpcWire) call(r *requester, window int, h *rpcrdma.Header) error {
	if r.calls[h.XID] != nil {
		return fmt.Errorf("XID %x is in use", h.XID)
	}
	k := &wireCall{}
	for _, s := range h.Read {
		k.read = append(k.read, s.Segment)
	}
	for _, c := range h.Write {
		k.write = append(k.write, c...)
	}
	k.write = append(k.write, h.Reply...)
	r.calls[h.XID] = k
	r.most = max(r.most, len(r.calls))
	if len(r.calls) > window {
		return fmt.Errorf("%d calls under way with %d credits", len(r.calls), window)
	}
	return nil
}

func (k *wireCall) offers(stag uint32) bool {
	for _, s := range append(k.read[:len(k.read):len(k.read)], k.write...) {
		if s.Handle == stag {
			return true
		}
	}
	return false
}

// advertised compares a range of a requester's memory with the ranges in its calls.
func (w *rpcWire) advertised(side int, stag uint32, to, n uint64, write bool) error {
	for _, k := range w.sides[side].calls {
		if !k.come || k.replied {
			continue
		}
		segs := k.read
		if write {
			segs = k.write
		}
		for _, s := range segs {
			if s.Handle == stag && to >= s.Offset && to-s.Offset <= uint64(s.Length) && n <= uint64(s.Length)-(to-s.Offset) {
				return nil
			}
		}
	}
	return fmt.Errorf("%d bytes at %x %x are not of a call under way (write %v)", n, stag, to, write)
}

func (w *rpcWire) arrived(side int, seg *segment, msg []byte, whole bool) error {
	if !whole {
		return nil
	}
	h, call, err := classify(msg)
	if err != nil {
		return err
	}
	if call {
		w.sides[side].calls[h.XID].come = true
		return nil
	}
	if w.spoiled[h.XID] { // the requester drops it, and the call keeps its credit
		return nil
	}
	delete(w.sides[1-side].calls, h.XID)
	w.sides[1-side].replied++
	return nil
}

// classify parses a message and distinguishes a call from a reply.
func classify(msg []byte) (*rpcrdma.Header, bool, error) {
	h := &rpcrdma.Header{}
	if err := h.Parse(msg); err != nil {
		return nil, false, err
	}
	switch body := msg[h.Len:]; {
	case h.Proc == rpcrdma.ProcError:
		return h, false, nil
	case h.Proc == rpcrdma.ProcNoMsg:
		return h, len(h.Read) > 0, nil
	case len(body) < 8:
		return nil, false, fmt.Errorf("message of %d bytes", len(body))
	default:
		return h, binary.BigEndian.Uint32(body[4:]) == 0, nil
	}
}
