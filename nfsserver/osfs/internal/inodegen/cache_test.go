// Cached generations are right for each file that has had an inode number, and their memory is
// released.

package inodegen

import (
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// statOf returns attributes with an inode number and a ctime.
func statOf(ino uint64, ctime time.Time) *unix.Stat_t {
	return &unix.Stat_t{Ino: ino, Ctim: unix.NsecToTimespec(ctime.UnixNano())}
}

// TestGenerationIsOfNumberAndCtime: no generation is found for another file, whether it has the
// same number, slot or ctime as the cached one.
func TestGenerationIsOfNumberAndCtime(t *testing.T) {
	var g Cache
	g.Init(time.Nanosecond)
	defer g.Drop(0, 0)
	asked := time.Now()
	old := asked.Add(-time.Second)
	for ctime, want := range map[time.Time]bool{old: true, asked.Add(-10 * time.Millisecond): false, asked.Add(time.Hour): false} {
		if got := g.Settled(statOf(7, ctime), asked); got != want {
			t.Fatalf("a ctime %v before it was asked for: settled %v, want %v", asked.Sub(ctime), got, want)
		}
	}
	kept := Generation{0xfedcba98, 0x81}
	if !g.Put(statOf(7, old), kept, 0) {
		t.Fatal("the first generation took no segment")
	}
	if got, ok := g.Get(statOf(7, old), 0); !ok || got != kept {
		t.Fatalf("Get: got %+v, %v, want %+v", got, ok, kept)
	}
	if !g.Has(7) {
		t.Fatal("Has: got false, want true")
	}
	const sameSlot = 7 + 1<<(genSlotBits+genSegBits)
	for what, st := range map[string]*unix.Stat_t{
		"a later ctime":                     statOf(7, old.Add(1)),
		"another slot":                      statOf(8, old),
		"another segment":                   statOf(7+genSlots, old),
		"the same slot":                     statOf(sameSlot, old),
		"a number that no tag has room for": statOf(7+1<<(genSlotBits+genSegBits+genTagBits), old),
	} {
		if got, ok := g.Get(st, 0); ok {
			t.Errorf("%s: found %+v", what, got)
		}
		if st.Ino != 7 && g.Has(st.Ino) {
			t.Errorf("%s: number %d is kept", what, st.Ino)
		}
	}
	g.Put(statOf(sameSlot, old), Generation{1, 1}, 0)
	if g.Has(7) {
		t.Error("two numbers have one slot")
	}
}

// TestGenerationsAreGivenBack: unused segments leave the table, and all FSs together stay within
// the bound.
func TestGenerationsAreGivenBack(t *testing.T) {
	var g Cache
	g.Init(time.Nanosecond)
	old := time.Unix(1, 0)
	before := genSegmentsOfAll.Load()
	for i := range uint64(genSegments) + 8 {
		g.Put(statOf(i*genSlots, old), Generation{1, 1}, uint32(i/64))
	}
	if n := genSegmentsOfAll.Load(); n > maxGenSegments || g.Len() != int(n-before) {
		t.Errorf("%d segments, %d of this table", n, g.Len())
	}
	g.Get(statOf(100*genSlots, old), 1000)
	g.Drop(1001, 2)
	if n := g.Len(); n != 1 || !g.Has(100*genSlots) {
		t.Errorf("%d segments after the others were idle", n)
	}
	g.Drop(0, 0)
	if n := genSegmentsOfAll.Load(); n != before {
		t.Errorf("%d segments are still counted, %d before", n, before)
	}
}
