// The rings of Reads: their counters pass 2^32 with work in them.

package core

import (
	"testing"

	"github.com/nfsrdma/nfsrdma/rnic"
)

// TestReadRingsWrap: the counters of Reads pass 2^32, of ours and of the peer's.
func TestReadRingsWrap(t *testing.T) {
	a, b := newSide(t, rnic.DeviceConfig{}, 4), newSide(t, rnic.DeviceConfig{}, 4)
	join(a, b)
	const at = 1<<32 - 3
	for _, s := range []*side{a, b} {
		r, q := &s.end.work.reads, &s.end.work.irq
		r.head, r.tail = at, at
		q.head, q.built, q.next, q.tail = at, at, at, at
	}
	for range 3 {
		transfers(t, a, b)
		transfers(t, b, a)
	}
}
