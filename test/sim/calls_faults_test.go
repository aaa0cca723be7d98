// Disturbances for calls beside the network's: replies that never come or are wrong, and many calls
// that are cancelled together while a slow link takes them.

package sim

import (
	"encoding/binary"
	"math/rand/v2"
	"time"

	"github.com/nfsrdma/nfsrdma/chunks"
	"github.com/nfsrdma/nfsrdma/rnic/iwarp/ddp"
	"github.com/nfsrdma/nfsrdma/rnic/iwarp/rdmap"
	"github.com/nfsrdma/nfsrdma/rpcrdma"
)

// A slow world has many calls queued for seconds on a link that always moves.
const (
	slowCredits = 32
	slowInline  = 8 << 10
	slowLimit   = 3 * time.Second // within which callers give up
)

// slowLink returns the network of a slow world: slow from A to B, with small sockets.
func slowLink(p linkPlan, rng *rand.Rand) linkPlan {
	for i, path := range p.paths {
		*path = *newPathPlan(path.rng)
		p.windows[i] = 2048 + logUniform(rng, 16<<10)
	}
	p.paths[0].rate = 24<<10 + logUniform(rng, 32<<10)
	p.paths[1].rate = 0
	return p
}

// burst makes p a call of a slow world that is given up while it waits to be sent.
func burst(p *plan) {
	p.start, p.args, p.items = p.start%time.Millisecond, slowInline-200-p.args%4096, nil
	p.results, p.item, p.sink, p.end = 0, -1, false, endReply
	p.limit = min(max(p.limit*100, 1), slowLimit)
}

// lose makes svc's server lose or spoil replies, any number of them. Their callers have a time
// limit.
func (w *world) lose(svc *service) {
	for _, p := range svc.plans {
		rng := newRand(w.seed, purposeLoss+uint64(p.xid))
		if p.end != endReply || p.start == 0 || rng.IntN(3) > 0 {
			continue
		}
		p.end = endDrop
		if rng.IntN(2) == 0 {
			p.end = endSpoil
		}
		p.limit = time.Duration(logUniform(rng, 40_000_000))
	}
}

// unofferedLen is the number of bytes that an offer of one segment adds to a header: a count and
// the segment.
const unofferedLen = 20

// spoil changes replies from side so that their header does not answer their call: with a Reply
// chunk that was not offered. The requester drops them (RFC 8166 §4.5 [R8166-149]).
func (w *world) spoil(side int) {
	if w.hosts[1-side].markers {
		return
	}
	plans := w.hosts[side].svc.plans
	inline := min(w.hosts[0].cfg.InlineSize, w.hosts[1].cfg.InlineSize)
	w.link.ends[side].out.tamper = &tamper{reply: side == 1, change: func(ulpdu []byte) []byte {
		h, msg, err := ddp.Parse(ulpdu)
		if err != nil || h.Tagged || h.QN != ddp.QNSend || h.MO > 0 || !h.Last {
			return nil
		}
		if op, err := rdmap.ParseControl(h.Ctrl); err != nil || !op.IsSend() {
			return nil
		}
		in, call, err := classify(msg)
		if err != nil || call || in.Proc != rpcrdma.ProcMsg || in.HasReply || len(msg)-in.Len < 4 || len(msg)+unofferedLen > inline {
			return nil
		}
		p := plans[binary.BigEndian.Uint32(msg[in.Len:])]
		if p == nil || p.end != endSpoil {
			return nil
		}
		w.wire.spoiled[in.XID] = true
		body := msg[in.Len:]
		in.HasReply, in.Reply = true, chunks.Chunk{{Handle: 1, Length: 5}}
		return append(in.Append(h.Append(nil)), body...)
	}}
}

// windowLost reports whether a side's credits are all held by calls that will never be answered.
func (w *world) windowLost() bool {
	w.obs.mu.Lock()
	defer w.obs.mu.Unlock()
	for side := range w.wire.sides {
		if w.lossy && len(w.wire.sides[side].calls) >= w.wire.window(side) {
			return true
		}
	}
	return false
}

// wasSpoiled reports whether the reply to a call was changed.
func (w *world) wasSpoiled(xid uint32) bool {
	w.link.mu.Lock()
	defer w.link.mu.Unlock()
	return w.wire.spoiled[xid]
}

// hasLeft reports whether all bytes of a call have been sent.
func (w *world) hasLeft(h *host, xid uint32) bool {
	w.obs.mu.Lock()
	defer w.obs.mu.Unlock()
	for side := range w.hosts {
		if w.hosts[side] == h && w.wire.sides[side].calls[xid] != nil {
			return true
		}
	}
	return false
}
