// The writes, reads and syncs so far, and the reads that they allow.

package sim

import (
	"encoding/binary"
	"sync"
	"time"
)

// A history holds every operation on one file. A write fills one block with its stamp.
type history struct {
	fail  func(format string, args ...any)
	size  int // of a block
	start time.Time

	mu      sync.Mutex
	clock   int // counts events, so that those in one moment have an order
	writes  []*written
	crashes []int
}

// A written is one write of one block.
type written struct {
	block int
	stamp uint32
	begun int
	ended int // 0: not yet, or with an error: it may still come about
	firm  int // the clock value from which no crash can undo it; 0: a crash can
}

// fillBlock makes a block's content after a write with this stamp.
func fillBlock(p []byte, stamp uint32) {
	for i := range p {
		p[i] = byte(stamp >> (8 * (i % 4)))
	}
}

func (h *history) tick() int {
	h.clock++
	return h.clock
}

// begin records the start of a write, and returns it with a new stamp.
func (h *history) begin(block int) *written {
	h.mu.Lock()
	defer h.mu.Unlock()
	x := &written{block: block, stamp: uint32(len(h.writes) + 1), begun: h.tick()}
	h.writes = append(h.writes, x)
	return x
}

// end records that a write has succeeded; stable: on stable storage.
func (h *history) end(x *written, stable bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	x.ended = h.tick()
	if stable {
		x.firm = x.ended
	}
}

// sync records a successful Sync that began at clock value begun, for the writes through one File.
func (h *history) sync(begun int, through []*written) {
	h.mu.Lock()
	defer h.mu.Unlock()
	now := h.tick()
	for _, x := range through {
		if x.ended > 0 && x.ended < begun && x.firm == 0 {
			x.firm = now
		}
	}
}

func (h *history) now() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.tick()
}

func (h *history) crash() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.crashes = append(h.crashes, h.tick())
}

// read compares a block with the history. The block is from a read that began at clock value begun.
// Older data MUST NOT appear once newer data has been acknowledged, unless a crash may have undone
// the newer write.
func (h *history) read(block int, data []byte, begun int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(data)%4 != 0 {
		h.fail("block %d: %d bytes were read", block, len(data))
		return
	}
	last := ^uint32(0)
	for ; len(data) > 0; data = data[4:] {
		if stamp := binary.LittleEndian.Uint32(data); stamp != last {
			h.allowed(block, stamp, begun)
			last = stamp
		}
	}
}

// allowed reports a fault if the stamp cannot be in the block. The caller holds mu.
func (h *history) allowed(block int, stamp uint32, begun int) {
	var x *written // nil: nothing was written there yet
	if stamp > 0 {
		if int(stamp) > len(h.writes) || h.writes[stamp-1].block != block {
			h.fail("block %d holds %x, which nobody has written there", block, stamp)
			return
		}
		x = h.writes[stamp-1]
	}
	for _, y := range h.writes {
		newer := x == nil || x.ended > 0 && y.begun > x.ended
		if y.block != block || !newer || y.ended == 0 || y.ended > begun || h.lost(y, begun) {
			continue
		}
		h.fail("block %d holds write %d, older than write %d, which was acknowledged (synced: %v) before it was read",
			block, stamp, y.stamp, y.firm > 0 && y.firm < begun)
		return
	}
}

// lost reports whether a crash may have undone y before a read that began at clock value begun.
func (h *history) lost(y *written, begun int) bool {
	if y.firm > 0 && y.firm < begun {
		return false
	}
	for _, c := range h.crashes {
		if c > y.begun {
			return true
		}
	}
	return false
}
