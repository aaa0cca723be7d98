// Bare verbs on the wire: the side that sends first, and the work that a fence holds back.

package sim

import (
	"bytes"
	"fmt"

	"github.com/nfsrdma/nfsrdma/rnic/iwarp"
	"github.com/nfsrdma/nfsrdma/rnic/iwarp/rdmap"
)

// A verbsWire checks the segments of bare verbs.
type verbsWire struct {
	w     *verbsWorld
	spoke bool // A has sent an FPDU
	heard bool // B has received an FPDU
}

// sent compares Sends and Reads with the posted work, and a fenced Send with the Reads before it.
func (v *verbsWire) sent(side int, seg *segment, msg []byte, whole bool) error {
	if err := v.first(side, seg); err != nil {
		return err
	}
	if seg.op == rdmap.OpReadRequest {
		return v.read(side, seg)
	}
	if !seg.op.IsSend() {
		return nil
	}
	p := v.w.peers[side]
	if int(seg.MSN) > len(p.sends) {
		return fmt.Errorf("Send %d of %d", seg.MSN, len(p.sends))
	}
	x := p.sends[seg.MSN-1]
	if n := v.w.obs.reads[side].pending; x.wr.Fence && n > 0 && seg.MO == 0 {
		return fmt.Errorf("Send %d is fenced, but %d Reads are outstanding", x.wr.ID, n)
	}
	if seg.Inv != uint32(x.wr.Invalidate) || whole && !bytes.Equal(msg, x.data) {
		return fmt.Errorf("Send %d is not what was posted: %v of %d bytes", x.wr.ID, seg.op, len(msg))
	}
	return nil
}

// read compares a Read Request with the posted work.
func (v *verbsWire) read(side int, seg *segment) error {
	q, err := rdmap.ParseReadRequest(seg.data)
	if err != nil {
		return err
	}
	p, n := v.w.peers[side], int(seg.MSN)-1
	if side == 0 && v.w.rtr == iwarp.RTRRead { // the first is not the program's
		n--
	}
	if n < 0 {
		return nil
	}
	if n >= len(p.reads) {
		return fmt.Errorf("Read %d of %d", n+1, len(p.reads))
	}
	wr := &p.reads[n].wr
	want := rdmap.ReadRequest{SinkSTag: uint32(wr.MR.STag()), SinkTO: wr.MR.Base() + wr.Offset, Size: wr.Length,
		SrcSTag: uint32(wr.RemoteSTag), SrcTO: wr.RemoteTO}
	if q != want {
		return fmt.Errorf("Read %d is not what was posted: %+v, want %+v", wr.ID, q, want)
	}
	return nil
}

// first checks that A begins with the chosen RTR, and that B sends nothing before A has sent.
func (v *verbsWire) first(side int, seg *segment) error {
	if side == 1 {
		if !v.heard {
			return fmt.Errorf("%v before anything has come", seg.op)
		}
		return nil
	}
	was := v.spoke
	v.spoke = true
	if was || v.w.rtr == 0 {
		return nil
	}
	if v.w.rtr&iwarp.RTRWrite != 0 { // B chooses the cheapest RTR that A offers
		if seg.op != rdmap.OpWrite || len(seg.data) > 0 {
			return fmt.Errorf("%v of %d bytes where a Write is the RTR", seg.op, len(seg.data))
		}
		return nil
	}
	q, err := rdmap.ParseReadRequest(seg.data)
	if seg.op != rdmap.OpReadRequest || err != nil || q.Size > 0 {
		return fmt.Errorf("%v of %+v where a Read is the RTR: %v", seg.op, q, err)
	}
	return nil
}

func (v *verbsWire) arrived(side int, _ *segment, _ []byte, _ bool) error {
	v.heard = v.heard || side == 0
	return nil
}
