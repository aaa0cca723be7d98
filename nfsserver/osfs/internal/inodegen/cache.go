// A lossy cache of the generations that listings and look-ups have read.

// Package inodegen caches the generations of inodes, within one bound for all file systems of the
// process.
package inodegen

import (
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

// If a handle is inode number and generation (osfs.splitHandle), the attributes lack only the
// generation, and name_to_handle_at(2) costs more than stat(2). A generation is cached under the
// inode's number and ctime. A later file of that number has a later ctime, the time of its
// creation. So an entry is right for an inode with the same number and ctime, if that ctime lay in
// the past when the generation was read: see Settled.
//
// The clock may be set back. Then a new file would need the number of a removed one and its ctime,
// to the nanosecond. Clients would get a stale handle, never another file's.

// A Generation is the part of a handle beside the inode number, as it stands in the handle, and the
// type of the handle. The zero value is none.
type Generation struct {
	N    uint32
	Type uint8
}

const (
	genSlotBits = 12 // of the inode number: the slot in a segment
	genSegBits  = 8  // the next bits: the segment
	genTagBits  = 24 // the next bits: the tag; larger numbers are not cached

	genSegments = 1 << genSegBits
	genSlots    = 1 << genSlotBits

	// maxGenSegments bounds the segments of all FSs of the process, 64 KiB each: 16 MiB, or a
	// million generations.
	maxGenSegments = genSegments

	// IdleTicks is the number of ticks without use after which a segment is dropped: 10 s.
	IdleTicks = 40
)

// A Cache is a table of fixed slots: an inode replaces the one in its slot. Neighbours by number,
// such as files made together, lie together. Reading takes no lock.
type Cache struct {
	settle  time.Duration // set once: the least age of a ctime that lies in the past
	count   atomic.Int32  // number of segments
	mu      sync.Mutex    // held by writers; innermost
	segment [genSegments]genSegment
}

type genSegment struct {
	used  atomic.Uint32 // the cache's tick of the last use
	slots atomic.Pointer[[genSlots]genSlot]
}

// A genSlot is the entry of one inode. A writer sets word to 0, then ctime, then word. So a reader
// that reads the same word before and after ctime has values of one entry: an equal word after a
// change means the same inode and generation, with either ctime.
type genSlot struct {
	word  atomic.Uint64 // from above: Generation.N, 24 bits of tag, Generation.Type; 0: empty
	ctime atomic.Int64  // nanoseconds
}

// genSegmentsOfAll counts the segments of all FSs: the memory is the process's.
var genSegmentsOfAll atomic.Int32

// Init sets the granularity of the file system's times.
func (g *Cache) Init(granularity time.Duration) {
	// A ctime is read from the kernel's coarse clock, up to a tick of 10 ms late, and cut to the
	// granularity.
	g.settle = 2*granularity + 50*time.Millisecond
}

// Settled reports whether the ctime in st lay well before asked. A file that got the inode number
// since has another one.
func (g *Cache) Settled(st *unix.Stat_t, asked time.Time) bool {
	return st.Ctim.Nano() < asked.Add(-g.settle).UnixNano()
}

// SettlesIn returns the least age of a ctime for Settled.
func (g *Cache) SettlesIn() time.Duration { return g.settle }

// Len returns the number of segments.
func (g *Cache) Len() int { return int(g.count.Load()) }

// at returns the segment of an inode number, the slot's index, and the tag in its word. ok is false
// for a number that is too large.
func (g *Cache) at(ino uint64) (s *genSegment, slot uint64, tag uint64, ok bool) {
	t := ino >> (genSlotBits + genSegBits)
	return &g.segment[ino>>genSlotBits%genSegments], ino % genSlots, t << 8, t < 1<<genTagBits
}

// genTagMask selects the tag in a word.
const genTagMask = (1<<genTagBits - 1) << 8

// Has reports whether a generation of that inode number is cached, for any ctime.
func (g *Cache) Has(ino uint64) bool {
	s, i, tag, ok := g.at(ino)
	slots := s.slots.Load()
	if !ok || slots == nil {
		return false
	}
	w := slots[i].word.Load()
	return w != 0 && w&genTagMask == tag
}

// Get returns the generation of the inode with attributes st, if it is cached.
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
	if s.used.Load() != tick { // each reader reads it; few write it
		s.used.Store(tick)
	}
	return Generation{uint32(w >> 32), uint8(w)}, true
}

// Put caches the generation of the inode with attributes st, which MUST be Settled. It reports
// whether that took a new segment, which has to be swept.
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

// Drop drops the segments that have not been used for idle ticks.
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
