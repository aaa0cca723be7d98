// Batches: the bytes of many FPDUs, gathered for one system call.

package core

import (
	"sync"

	"github.com/nfsrdma/nfsrdma/rnic"
	"github.com/nfsrdma/nfsrdma/rnic/iwarp/mpa"
)

// A batch is a list of byte ranges that leave in order: headers and trailers from its scratch
// memory, payload in the work request's memory. The batch is reused, so building it allocates
// nothing.
type batch struct {
	// The Turn's holder builds and sends the batch; other goroutines call detach and takePartial,
	// under the owner's lock. Ranges point into the ULP's memory until their work request
	// completes, or into a region until its pin is gone: the batch owns neither memory, only its
	// scratch.
	q       *rnic.ProviderQP // set once
	pieces  [][]byte
	at      int    // the first range not completely taken
	left    int    // bytes not yet taken
	scratch []byte // small, or one of largeScratches when small is full
	// small is set once; ranges point into it until the batch has left, even after scratch was
	// replaced.
	small   []byte
	owned   bool     // the last range is scratch memory
	ends    []uint64 // stream positions at its FPDUs' ends
	began   uint64   // its first byte's stream position, an FPDU boundary
	pos     uint64   // the next untaken byte's stream position
	pins    []pin
	staging stagingBuffer // payload of Sources
}

// A pin is a range of a batch that points into a Memory Region read by the peer.
type pin struct {
	mr    *rnic.MR
	piece int
	end   uint64 // stream position where the range ends
}

func (b *batch) init(q *rnic.ProviderQP) {
	b.q = q
	b.pieces = make([][]byte, 0, 16) // grows to MaxPieces
	b.small = make([]byte, 0, smallScratch)
	b.scratch = b.small
}

// largeScratches holds *[batchScratch]byte: a connection takes one while a batch of many FPDUs
// waits to be sent; idle connections hold no large scratch.
var largeScratches = sync.Pool{New: func() any { return new([batchScratch]byte) }}

// read returns the next n bytes of src in the batch's memory; left is the rest of the message in
// bytes, n included, and limits the request to src. One call to src reads several FPDUs' payload, n
// bytes each, as far as the batch has room. aheadBytes limits that, because other connections'
// small calls wait meanwhile.
func (b *batch) read(src rnic.Source, n, left int) ([]byte, error) {
	if n == 0 {
		return nil, nil
	}
	fpdus := (min(aheadBytes, batchBytes-b.left) + n - 1) / n
	return b.staging.read(src, n, left, fpdus*n)
}

func (b *batch) empty() bool { return b.left == 0 }

// end returns the stream position after the last byte of the batch.
func (b *batch) end() uint64 { return b.pos + uint64(b.left) }

// full reports whether another FPDU could exceed the batch.
func (b *batch) full() bool {
	return len(b.pieces)+3 > MaxPieces || b.left >= batchBytes || b.cramped() && !b.enlarge()
}

// cramped reports whether another FPDU could exceed the scratch memory.
func (b *batch) cramped() bool { return len(b.scratch)+fpduScratch+inlineMax > cap(b.scratch) }

// enlarge continues in large scratch memory, unless the batch uses such memory already. Earlier
// ranges keep pointing into the small scratch. Thus requests posted at once leave in one batch, not
// in two.
func (b *batch) enlarge() bool {
	if cap(b.scratch) == batchScratch {
		return false
	}
	b.scratch, b.owned = largeScratches.Get().(*[batchScratch]byte)[:0], false
	return true
}

// reset empties the batch for reuse.
func (b *batch) reset() {
	b.forget()
	b.ends = b.ends[:0]
	b.pins = b.pins[:0]
	b.began = b.pos
	b.owned = false
	b.shrink()
}

// shrink empties the batch's own memory, to which no range points any more, and returns large
// memory to its pool.
func (b *batch) shrink() {
	if cap(b.scratch) == batchScratch {
		largeScratches.Put((*[batchScratch]byte)(b.scratch[:batchScratch]))
	}
	b.scratch = b.small
	b.staging.clear()
}

// forget drops all ranges and releases the memory they point at.
func (b *batch) forget() {
	clear(b.pieces)
	b.pieces, b.at = b.pieces[:0], 0
}

// addScratch returns n bytes of scratch memory that leave next. Adjacent scratch shares one range:
// a trailer, and the header after it.
func (b *batch) addScratch(n int) []byte {
	if n == 0 {
		return nil
	}
	at := len(b.scratch)
	b.scratch = b.scratch[:at+n]
	p := b.scratch[at : at+n : at+n]
	b.left += n
	if b.owned {
		last := &b.pieces[len(b.pieces)-1]
		// The last range ends where the new bytes begin, so that range is extended.
		*last = b.scratch[at-len(*last) : at+n]
		return p
	}
	b.owned = true
	b.pieces = append(b.pieces, p)
	return p
}

// addRange adds bytes without copying them.
func (b *batch) addRange(p []byte) {
	if len(p) == 0 {
		return
	}
	b.left += len(p)
	b.owned = false
	b.pieces = append(b.pieces, p)
}

// addPinned is addRange for memory of mr, which the caller has borrowed.
func (b *batch) addPinned(mr *rnic.MR, p []byte) {
	b.addRange(p)
	b.q.Pin(mr)
	b.pins = append(b.pins, pin{mr: mr, piece: len(b.pieces) - 1, end: b.end()})
}

// endFPDU marks an FPDU boundary.
func (b *batch) endFPDU() { b.ends = append(b.ends, b.end()) }

// advance records that TCP has taken n bytes.
func (b *batch) advance(n int) {
	b.left -= n
	b.pos += uint64(n)
	for n > 0 {
		p := &b.pieces[b.at]
		if n < len(*p) {
			*p = (*p)[n:]
			break
		}
		n -= len(*p)
		b.at++
	}
	b.unpin(b.pos)
	if b.left == 0 {
		b.forget()
		b.shrink()
	}
}

// unpin releases the Memory Regions of ranges that end at or before pos.
func (b *batch) unpin(pos uint64) {
	n := 0
	for n < len(b.pins) && b.pins[n].end <= pos {
		b.q.Unpin(b.pins[n].mr)
		n++
	}
	if n > 0 {
		m := copy(b.pins, b.pins[n:])
		clear(b.pins[m:])
		b.pins = b.pins[:m]
	}
}

// detach replaces the remaining ranges in mr by copies, so that its memory can be given back while
// the bytes wait for a slow peer.
func (b *batch) detach(mr *rnic.MR) {
	// The range keeps its place in the list, so the stream order is kept, and bytes taken by TCP
	// stay taken. The copy allocates: it serves regions invalidated under a slow peer, not the
	// steady state.
	for i := 0; i < len(b.pins); i++ {
		pin := b.pins[i]
		if pin.mr != mr {
			continue
		}
		p := &b.pieces[pin.piece]
		*p = append([]byte(nil), *p...)
		b.q.Unpin(mr)
		b.pins = append(b.pins[:i], b.pins[i+1:]...)
		i--
	}
}

// takePartial returns a copy of the rest of a partly sent FPDU, if any, and empties the batch.
func (b *batch) takePartial() []byte {
	var rest []byte
	if n := b.partialLeft(); n > 0 {
		for _, p := range b.pieces[b.at:] {
			p = p[:min(len(p), n-len(rest))]
			rest = append(rest, p...)
			if len(rest) == n {
				break
			}
		}
	}
	b.unpin(b.end())
	b.left = 0
	b.staging.drop()
	b.reset()
	return rest
}

// partialLeft returns the number of unsent bytes in a partly sent FPDU.
func (b *batch) partialLeft() int {
	if b.left == 0 || b.pos == b.began {
		return 0
	}
	for _, e := range b.ends {
		if e == b.pos {
			return 0
		}
		if e > b.pos {
			return int(e - b.pos)
		}
	}
	return 0
}

// crcOf adds p to a running CRC if CRCs are on.
func crcOf(on bool, crc uint32, p []byte) uint32 {
	if !on {
		return crc
	}
	return mpa.UpdateCRC(crc, p)
}
