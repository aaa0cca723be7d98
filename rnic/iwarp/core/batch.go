// A batch: the bytes of many FPDUs, gathered for one system call.

package core

import (
	"sync"

	"github.com/nfsrdma/nfsrdma/rnic"
	"github.com/nfsrdma/nfsrdma/rnic/iwarp/mpa"
)

// Bounds of a batch.
const (
	MaxPieces    = 512       // ranges of one batch, which is what one writev takes less than (IOV_MAX is 1024)
	batchBytes   = 256 << 10 // more would only delay the first byte by the CRCs of the rest
	batchScratch = 24 << 10  // length, headers, pad and CRC of the FPDUs
	smallScratch = 1 << 10   // the same, of a connection with little to send
	fpduScratch  = 64        // the most of it that one FPDU takes
	inlineMax    = 192       // payload up to here is cheaper to copy than to point at
	aheadBytes   = 128 << 10 // payload that is asked of a Source at once, to the end of an FPDU: inside of a system call the kernel may preempt nobody
)

// A batch is a list of byte ranges that leave in order: headers and trailers
// from its scratch memory, payload where the work request has it. It is reused
// for ever; building one allocates nothing.
type batch struct {
	// Built and taken by whoever has the Turn; detach and cut come from others, under the owner's
	// lock. The ULP's memory is pointed at from point until its work request completes, a region's
	// until its pin is gone: the batch owns neither, only its scratch.
	q       *rnic.ProviderQP // set once
	pieces  [][]byte
	at      int      // the first range not all taken
	left    int      // bytes not taken yet
	scratch []byte   // small, or one of largeScratches where that is full
	small   []byte   // set once; ranges point into it until the batch has left, although scratch is another one
	owned   bool     // the last range is of scratch memory
	ends    []uint64 // stream positions at which its FPDUs end
	began   uint64   // stream position of its first byte, an FPDU boundary
	pos     uint64   // stream position of the next byte to be taken
	pins    []pin
	room    room // payload of Sources
}

// A pin is a range of a batch that points into a Memory Region that the peer reads.
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

// largeScratches is of *[batchScratch]byte: a connection has one while a batch of many FPDUs waits
// to be sent, and an idle one has none.
var largeScratches = sync.Pool{New: func() any { return new([batchScratch]byte) }}

// read returns the next n bytes of src in memory of the batch, which may ask for left of them, n
// included. One call of src reads the payload of some FPDUs of that size, as far as there is still
// room for them: not of all, for small calls of others wait for it.
func (b *batch) read(src rnic.Source, n, left int) ([]byte, error) {
	if n == 0 {
		return nil, nil
	}
	fpdus := (min(aheadBytes, batchBytes-b.left) + n - 1) / n
	return b.room.read(src, n, left, fpdus*n)
}

func (b *batch) empty() bool { return b.left == 0 }

// end is the stream position after the last byte of the batch.
func (b *batch) end() uint64 { return b.pos + uint64(b.left) }

// full reports whether another FPDU could be too much.
func (b *batch) full() bool {
	return len(b.pieces)+3 > MaxPieces || b.left >= batchBytes || b.cramped() && !b.enlarge()
}

// cramped reports whether the scratch memory could be too little for another FPDU.
func (b *batch) cramped() bool { return len(b.scratch)+fpduScratch+inlineMax > cap(b.scratch) }

// enlarge goes on in large scratch memory, if it has not done so before. Ranges point into the
// small one, which stays where it is: many requests posted at once leave in one batch, not in one
// that the small memory has room for and another one.
func (b *batch) enlarge() bool {
	if cap(b.scratch) == batchScratch {
		return false
	}
	b.scratch, b.owned = largeScratches.Get().(*[batchScratch]byte)[:0], false
	return true
}

// reset makes an empty batch ready to be filled.
func (b *batch) reset() {
	b.forget()
	b.ends = b.ends[:0]
	b.pins = b.pins[:0]
	b.began = b.pos
	b.owned = false
	b.shrink()
}

// shrink empties the memory that is the batch's own, to which no range points any more, and returns
// what is large to its pool.
func (b *batch) shrink() {
	if cap(b.scratch) == batchScratch {
		largeScratches.Put((*[batchScratch]byte)(b.scratch[:batchScratch]))
	}
	b.scratch = b.small
	b.room.clear()
}

// forget drops all ranges, so that what they point at can be collected.
func (b *batch) forget() {
	clear(b.pieces)
	b.pieces, b.at = b.pieces[:0], 0
}

// own returns n bytes of scratch memory that leave next. Neighbours in the
// scratch share one range: a trailer, and the header after it.
func (b *batch) own(n int) []byte {
	if n == 0 {
		return nil
	}
	at := len(b.scratch)
	b.scratch = b.scratch[:at+n]
	p := b.scratch[at : at+n : at+n]
	b.left += n
	if b.owned {
		last := &b.pieces[len(b.pieces)-1]
		// The last range ends where this begins, so it is made longer.
		*last = b.scratch[at-len(*last) : at+n]
		return p
	}
	b.owned = true
	b.pieces = append(b.pieces, p)
	return p
}

// point adds bytes that are left where they are.
func (b *batch) point(p []byte) {
	if len(p) == 0 {
		return
	}
	b.left += len(p)
	b.owned = false
	b.pieces = append(b.pieces, p)
}

// pointInto is point for memory of mr, which the caller has borrowed.
func (b *batch) pointInto(mr *rnic.MR, p []byte) {
	b.point(p)
	b.q.Pin(mr)
	b.pins = append(b.pins, pin{mr: mr, piece: len(b.pieces) - 1, end: b.end()})
}

// endFPDU marks an FPDU boundary.
func (b *batch) endFPDU() { b.ends = append(b.ends, b.end()) }

// advance notes that TCP has taken n bytes.
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

// detach replaces what is left of ranges in mr by copies, so that its memory can
// be given back while a slow peer still has the bytes to come.
func (b *batch) detach(mr *rnic.MR) {
	// The range stays at its place in the list, so the order of the stream is kept, and what TCP
	// has taken of it stays taken. The copy allocates: it is for regions invalidated under a slow
	// peer, not for steady state.
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

// cut returns a copy of what is left of the FPDU that the stream is inside of,
// if any, and empties the batch.
func (b *batch) cut() []byte {
	var rest []byte
	if n := b.inside(); n > 0 {
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
	b.room.drop()
	b.reset()
	return rest
}

// inside is how many bytes are left of an FPDU that has been begun.
func (b *batch) inside() int {
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

// crcOf adds p to a running CRC when one is wanted.
func crcOf(on bool, crc uint32, p []byte) uint32 {
	if !on {
		return crc
	}
	return mpa.UpdateCRC(crc, p)
}
