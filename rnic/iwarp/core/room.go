// The room of a batch: memory for payload that comes from a Source.

package core

import (
	"sync"

	"github.com/nfsrdma/nfsrdma/rnic"
)

// roomBytes is all payload that a batch can have: its last FPDU may begin just below batchBytes.
const roomBytes = batchBytes + 64<<10

// rooms are few and used again at once, so that a processor's cache holds the one in use: that is
// why payload of a Source is read there at the last moment, and not to memory of its own before.
var rooms = sync.Pool{New: func() any { return new([roomBytes]byte) }}

// A room holds payload of the batch that is being made or sent and, after it, bytes that its Source
// has been asked for in the same call: those of the FPDUs that follow in the same message.
type room struct {
	mem   *[roomBytes]byte // nil: neither
	used  int              // bytes that ranges of the batch point at
	ahead int              // bytes after them; none where the message ends
}

// read returns the next n bytes of src, of which left may be asked for, n included: the rest of a
// message at most. likely is how many of these the batch takes if nothing comes between: they are
// read at once.
func (r *room) read(src rnic.Source, n, left, likely int) ([]byte, error) {
	if r.mem == nil {
		r.mem = rooms.Get().(*[roomBytes]byte)
	}
	if r.ahead < n {
		// No more than the message has, so that what is ahead is always of the message that is
		// being cut, and of its Source.
		want := min(max(n, likely), left, roomBytes-r.used)
		if err := src.ReadFull(r.mem[r.used+r.ahead : r.used+want]); err != nil {
			return nil, err
		}
		r.ahead = want
	}
	p := r.mem[r.used : r.used+n : r.used+n]
	r.used, r.ahead = r.used+n, r.ahead-n
	return p, nil
}

// clear ends the use of what ranges pointed at. What was read ahead, where the batch was full
// sooner, becomes the first of the next one.
func (r *room) clear() {
	switch {
	case r.mem == nil:
	case r.ahead > 0:
		copy(r.mem[:], r.mem[r.used:r.used+r.ahead])
		r.used = 0
	default:
		rooms.Put(r.mem)
		*r = room{}
	}
}

// drop is clear at the end of the stream.
func (r *room) drop() {
	r.ahead = 0
	r.clear()
}
