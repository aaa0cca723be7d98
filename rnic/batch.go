// A batch: the octets of many FPDUs, gathered for one system call.

package rnic

import (
	"syscall"
	"unsafe"

	"github.com/nfsrdma/nfsrdma/rnic/iwarp/mpa"
)

// Bounds of a batch.
const (
	batchIovecs  = 512
	batchOctets  = 256 << 10 // more would only delay the first octet by the CRCs of the rest
	batchScratch = 24 << 10  // length, headers, pad and CRC of the FPDUs
	fpduScratch  = 64        // the most of it that one FPDU takes
	inlineMax    = 192       // payload up to here is cheaper to copy than to point at
)

// A batch is a list of octet ranges that leave in order: headers and trailers
// from its scratch memory, payload where the work request has it. It is reused
// for ever; building one allocates nothing.
type batch struct {
	iov     []syscall.Iovec
	at      int // the first range not all taken
	left    int // octets not taken yet
	scratch []byte
	owned   bool     // the last range is of scratch memory
	record  bool     // TCP is to begin a segment behind it
	ends    []uint64 // stream positions at which its FPDUs end
	began   uint64   // stream position of its first octet, an FPDU boundary
	pos     uint64   // stream position of the next octet to be taken
	refs    []mrRef
}

// An mrRef is a range of a batch that points into a Memory Region that the peer reads.
type mrRef struct {
	mr  *MR
	iov int
	end uint64 // stream position where the range ends
}

func (b *batch) init() {
	b.iov = make([]syscall.Iovec, 0, 16) // grows to batchIovecs
	b.scratch = make([]byte, 0, 1<<10)
}

func (b *batch) empty() bool { return b.left == 0 }

// end is the stream position behind the last octet of the batch.
func (b *batch) end() uint64 { return b.pos + uint64(b.left) }

// full says whether another FPDU could be too much.
func (b *batch) full() bool {
	return len(b.iov)+3 > batchIovecs || b.left >= batchOctets ||
		len(b.scratch)+fpduScratch+inlineMax > cap(b.scratch)
}

// reset makes an empty batch ready to be filled.
func (b *batch) reset() {
	b.forget()
	b.ends = b.ends[:0]
	b.refs = b.refs[:0]
	b.began = b.pos
	b.owned = false
	if cap(b.scratch) < batchScratch && len(b.scratch)+fpduScratch+inlineMax > cap(b.scratch) {
		b.scratch = make([]byte, 0, batchScratch)
	}
	b.scratch = b.scratch[:0]
}

// forget drops all ranges, so that what they point at can be collected.
func (b *batch) forget() {
	clear(b.iov)
	b.iov, b.at = b.iov[:0], 0
}

// own returns n octets of scratch memory that leave next. Neighbours in the
// scratch share one range: a trailer, and the header behind it.
func (b *batch) own(n int) []byte {
	if n == 0 {
		return nil
	}
	at := len(b.scratch)
	b.scratch = b.scratch[:at+n]
	p := b.scratch[at : at+n : at+n]
	b.left += n
	if b.owned {
		b.iov[len(b.iov)-1].Len += uint64(n)
		return p
	}
	b.owned = true
	b.add(p)
	return p
}

// point adds octets that are left where they are.
func (b *batch) point(p []byte) {
	if len(p) == 0 {
		return
	}
	b.left += len(p)
	b.owned = false
	b.add(p)
}

func (b *batch) add(p []byte) {
	b.iov = append(b.iov, syscall.Iovec{Base: &p[0], Len: uint64(len(p))})
}

// endFPDU marks an FPDU boundary.
func (b *batch) endFPDU() { b.ends = append(b.ends, b.end()) }

// advance notes that the kernel has taken n octets.
func (b *batch) advance(n int) {
	b.left -= n
	b.pos += uint64(n)
	for n > 0 {
		v := &b.iov[b.at]
		if uint64(n) < v.Len {
			v.Base = (*byte)(unsafe.Add(unsafe.Pointer(v.Base), n))
			v.Len -= uint64(n)
			break
		}
		n -= int(v.Len)
		b.at++
	}
	b.drop(b.pos)
	if b.left == 0 {
		b.forget()
	}
}

// drop lets go of the Memory Regions of ranges that end at or before pos.
func (b *batch) drop(pos uint64) {
	n := 0
	for n < len(b.refs) && b.refs[n].end <= pos {
		b.refs[n].mr.txRefs.Add(-1)
		n++
	}
	if n > 0 {
		m := copy(b.refs, b.refs[n:])
		clear(b.refs[m:])
		b.refs = b.refs[:m]
	}
}

// copyTo copies what is left, as far as p has room, and says how much that is.
func (b *batch) copyTo(p []byte) (n int) {
	for _, v := range b.iov[b.at:] {
		n += copy(p[n:], unsafe.Slice(v.Base, v.Len))
	}
	return n
}

// letGo replaces what is left of ranges in mr by copies, so that its memory can
// be given back while a slow peer still has the octets to come.
func (b *batch) letGo(mr *MR) {
	for i := 0; i < len(b.refs); i++ {
		ref := b.refs[i]
		if ref.mr != mr {
			continue
		}
		v := &b.iov[ref.iov]
		p := append([]byte(nil), unsafe.Slice(v.Base, v.Len)...)
		v.Base = &p[0]
		mr.txRefs.Add(-1)
		b.refs = append(b.refs[:i], b.refs[i+1:]...)
		i--
	}
}

// cut returns a copy of what is left of the FPDU that the stream is inside of,
// if any, and empties the batch.
func (b *batch) cut() []byte {
	var rest []byte
	if n := b.inside(); n > 0 {
		for _, v := range b.iov[b.at:] {
			rest = append(rest, unsafe.Slice(v.Base, min(v.Len, n-uint64(len(rest))))...)
			if uint64(len(rest)) == n {
				break
			}
		}
	}
	b.drop(b.end())
	b.left = 0
	b.reset()
	return rest
}

// inside returns how many octets of a begun FPDU are left.
func (b *batch) inside() uint64 {
	if b.left == 0 || b.pos == b.began {
		return 0
	}
	for _, e := range b.ends {
		if e == b.pos {
			return 0
		}
		if e > b.pos {
			return e - b.pos
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
