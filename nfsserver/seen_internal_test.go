// The table of logged pairs: each pair is known once it has been seen, from many goroutines, and
// the table never grows.

package nfsserver

import (
	"encoding/binary"
	"sync"
	"sync/atomic"
	"testing"
)

func TestSeenTable(t *testing.T) {
	var table seenTable
	var first atomic.Int32
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for i := range uint32(20) {
				if table.first([16]byte{15: byte(i % 4)}, i/4) {
					first.Add(1)
				}
			}
		})
	}
	all.Wait()
	if n := first.Load(); n != 20 {
		t.Errorf("%d of 20 pairs are new", n)
	}
	var addr [16]byte
	for i := range uint32(100_000) { // more pairs than fit: the newest is known nevertheless
		binary.BigEndian.PutUint32(addr[:], i)
		if table.first(addr, 1); table.first(addr, 1) {
			t.Fatalf("pair %d is new twice", i)
		}
	}
	if n := testing.AllocsPerRun(100, func() { table.first(addr, 1) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
