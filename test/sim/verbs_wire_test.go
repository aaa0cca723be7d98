// What bare verbs may have on the wire: who speaks first, and what a fence holds back.

package sim

import (
	"fmt"

	"github.com/nfsrdma/nfsrdma/rnic"
	"github.com/nfsrdma/nfsrdma/rnic/iwarp/rdmap"
)

// A verbsWire is the observer's eye for bare verbs.
type verbsWire struct {
	w     *verbsWorld
	spoke bool // A has sent an FPDU
	heard bool // and B has it
}

// sent holds a fenced Send to the Reads before it.
func (v *verbsWire) sent(side int, seg *segment, _ []byte, _ bool) error {
	if err := v.first(side, seg); err != nil {
		return err
	}
	if !seg.op.IsSend() || seg.MO > 0 {
		return nil
	}
	x := v.w.peers[side].sends[seg.MSN-1]
	if n := v.w.obs.reads[side].pending; x.wr.Fence && n > 0 {
		return fmt.Errorf("Send %d is fenced, but %d Reads are outstanding", x.wr.ID, n)
	}
	return nil
}

// first holds A to the RTR that was chosen, and B to silence until A has spoken.
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
	if v.w.rtr&rnic.RTRWrite != 0 { // what B takes for its part is the cheapest
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
