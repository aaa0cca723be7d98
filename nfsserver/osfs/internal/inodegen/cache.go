// A lossy cache for the generations read by listings and look-ups.

// Package inodegen caches inode generations, within one bound for all the process's file systems.
package inodegen

import (
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

// If a handle is inode number and generation (osfs.splitHandle), the attributes lack only the
// generation, and name_to_handle_at(2) costs more than stat(2). A generation is cached under the
// inode's number and ctime. A later file with the same number has a later ctime, its creation time.
// So an entry is right for an inode with the same number and ctime, if that ctime lay in the past
// when the generation was read: see Settled.
//
// The clock may be set back. Then a new file would need a removed one's number and ctime, to the
// nanosecond. Clients would get a stale handle, never another file's.

// A Generation is the part of a handle beside the inode number, as it stands in the handle, and the
// handle's type. The zero value is none.
type Generation struct {
	N    uint32
	Type uint8
}

const (
	genSlotBits = 12 // inode-number bits: the slot in a segment
	genSegBits  = 8  // the next bits: the segment
	genTagBits  = 24 // the next bits: the tag; larger numbers are not cached

	genSegments = 1 << genSegBits
	genSlots    = 1 << genSlotBits

	// maxGenSegments bounds the segments of all the process's FSs, 64 KiB each: 16 MiB, or a
	// million generations.
	maxGenSegments = genSegments

	// A segment is dropped after IdleTicks ticks without use: 10 s.
	IdleTicks = 40
)

// A Cache is a fixed-slot table: a new inode replaces the inode in its slot. Neighbours by number,
// such as files made together, have neighbouring slots. Reading takes no lock.
type Cache struct {
	settle  time.Duration // set once: the least age of a ctime in the past
	count   atomic.Int32  // segment count
	mu      sync.Mutex    // held by writers; innermost
	segment [genSegments]genSegment
}

type genSegment struct {
	used  atomic.Uint32 // the cache's tick at the last use
	slots atomic.Pointer[[genSlots]genSlot]
}

// A genSlot is one inode's entry. A writer sets word to 0, then ctime, then word. So a reader with
// the same word before and after ctime has one entry's values: an equal word after a change means
// the same inode and generation, with either ctime.
type genSlot struct {
	word  atomic.Uint64 // from above: Generation.N, 24 bits of tag, Generation.Type; 0: empty
	ctime atomic.Int64  // nanoseconds
}

// genSegmentsOfAll counts all FSs' segments: the memory is the process's.
var genSegmentsOfAll atomic.Int32

// Init sets the file system's time granularity.
func (g *Cache) Init(granularity time.Duration) {
	// A ctime is read from the kernel's coarse clock, up to a 10 ms tick late, and cut to the
	// granularity.
	g.settle = 2*granularity + 50*time.Millisecond
}

// Settled reports whether the ctime in st lay well before asked. If so, any later file with the
// inode number has another ctime.
func (g *Cache) Settled(st *unix.Stat_t, asked time.Time) bool {
	return st.Ctim.Nano() < asked.Add(-g.settle).UnixNano()
}

// SettlesIn returns the least ctime age for Settled.
func (g *Cache) SettlesIn() time.Duration { return g.settle }

// Len returns the segment count.
func (g *Cache) Len() int { return int(g.count.Load()) }

// at returns an inode number's segment, the slot's index, and the tag for the slot's word. ok is
// false if the number is too large.
func (g *Cache) at(ino uint64) (s *genSegment, slot uint64, tag uint64, ok bool) {
	t := ino >> (genSlotBits + genSegBits)
	return &g.segment[ino>>genSlotBits%genSegments], ino % genSlots, t << 8, t < 1<<genTagBits
}

// genTagMask selects the tag in a word.
const genTagMask = (1<<genTagBits - 1) << 8

// Has reports whether a generation for inode number ino is cached, for any ctime.
func (g *Cache) Has(ino uint64) bool {
	s, i, tag, ok := g.at(ino)
	slots := s.slots.Load()
	if !ok || slots == nil {
		return false
	}
	w := slots[i].word.Load()
	return w != 0 && w&genTagMask == tag
}

// Get returns the generation for the inode with attributes st, if it is cached.
func (g *Cache) Get(st *unix.Stat_t, tick uint32) (Generation, bool) {
	s, i, tag, ok := g.at(st.Ino)
	slots := s.slots.Load()
	if !ok || slots == nil {
		return Generation{}, false
	}
	e := &slots[i]
	w := e.word.Load()
	if w == 0 || w&genTagMask != tag || e.ctime.Load() != st.Ctim.Nano() || e.word.Load() != w {
		return Generation{}, false
	}
	if s.used.Load() != tick { // most readers only load
		s.used.Store(tick)
	}
	return Generation{uint32(w >> 32), uint8(w)}, true
}

// Put caches the generation for the inode with attributes st, which MUST be Settled. It reports
// whether Put took a new segment, which has to be swept.
func (g *Cache) Put(st *unix.Stat_t, gen Generation, tick uint32) (added bool) {
	s, i, tag, ok := g.at(st.Ino)
	if !ok {
		return false
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	slots := s.slots.Load()
	if slots == nil {
		if genSegmentsOfAll.Add(1) > maxGenSegments {
			genSegmentsOfAll.Add(-1)
			return false
		}
		slots, added = new([genSlots]genSlot), true
		s.slots.Store(slots)
		g.count.Add(1)
	}
	s.used.Store(tick)
	e := &slots[i]
	e.word.Store(0)
	e.ctime.Store(st.Ctim.Nano())
	e.word.Store(uint64(gen.N)<<32 | tag | uint64(gen.Type))
	return added
}

// Drop drops the segments unused for idle ticks.
func (g *Cache) Drop(tick, idle uint32) {
	if g.count.Load() == 0 {
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	for i := range g.segment {
		s := &g.segment[i]
		if s.slots.Load() != nil && tick-s.used.Load() >= idle {
			s.slots.Store(nil)
			g.count.Add(-1)
			genSegmentsOfAll.Add(-1)
		}
	}
}
