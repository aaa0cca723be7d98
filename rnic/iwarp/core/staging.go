// A batch's staging buffer: memory for payload from a Source.

package core

import (
	"sync"

	"github.com/nfsrdma/nfsrdma/rnic"
)

// stagingBuffers are few and reused at once, so that the processor's cache holds the current one.
// Hence a Source's payload is read into such a buffer just before it is sent, not earlier into
// separate memory.
var stagingBuffers = sync.Pool{New: func() any { return new([stagingBytes]byte) }}

// A stagingBuffer holds the Source payload of the batch being made or sent, followed by bytes read
// ahead in the same call: those for the next FPDUs of the same message.
type stagingBuffer struct {
	mem   *[stagingBytes]byte // nil: holds no bytes
	used  int                 // bytes pointed at by the batch's ranges
	ahead int                 // bytes read ahead, after the used ones; 0 at the end of the message
}

// read returns the next n bytes of src. left limits its requests to src, n included: at most the
// rest of the message. likely is how many of these bytes the batch will probably take: all these
// are read at once.
func (r *stagingBuffer) read(src rnic.Source, n, left, likely int) ([]byte, error) {
	if r.mem == nil {
		r.mem = stagingBuffers.Get().(*[stagingBytes]byte)
	}
	if r.ahead < n {
		// At most the rest of the message, so that bytes read ahead always belong to the current
		// message and its Source.
		want := min(max(n, likely), left, stagingBytes-r.used)
		if err := src.ReadFull(r.mem[r.used+r.ahead : r.used+want]); err != nil {
			return nil, err
		}
		r.ahead = want
	}
	p := r.mem[r.used : r.used+n : r.used+n]
	r.used, r.ahead = r.used+n, r.ahead-n
	return p, nil
}

// clear ends the use of the bytes that ranges pointed at. Bytes read ahead, if the batch filled up
// early, become the first ones of the next batch.
func (r *stagingBuffer) clear() {
	switch {
	case r.mem == nil:
	case r.ahead > 0:
		copy(r.mem[:], r.mem[r.used:r.used+r.ahead])
		r.used = 0
	default:
		stagingBuffers.Put(r.mem)
		*r = stagingBuffer{}
	}
}

// drop is clear at the end of the stream, without bytes read ahead.
func (r *stagingBuffer) drop() {
	r.ahead = 0
	r.clear()
}
