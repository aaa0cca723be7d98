// Generations of inodes that listings and look-ups have asked for, so that they ask once.

// Package inodegen keeps the generations of inodes, bounded for all file systems of the process.
package inodegen

import (
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

// Where a handle is inode number and generation (osfs.splitHandle), its generation is all
// that the attributes do not tell, and name_to_handle_at(2) costs more than stat(2). A
// generation is kept under the inode's number and ctime. Another file that is given the
// number is made later, and has the later ctime of that moment, so what is kept is right
// for an inode of the same number and ctime, provided that its ctime lay in the past when
// the generation was asked for: see Settled. (The clock may be set back. Then a new file
// would have to be given the number of one that is gone and its very ctime, to the
// nanosecond, and what clients were told would be a stale handle, never another file's.)

// A Generation is the part of a handle that is not the inode number: as it
// stands in the handle, and the type of the handle. The zero value is none.
type Generation struct {
	N    uint32
	Type uint8
}

const (
	genSlotBits = 12 // of the inode number: the slot of a segment
	genSegBits  = 8  // the bits above them: the segment
	genTagBits  = 24 // the bits above those are kept with the generation; of a larger number none is kept

	genSegments = 1 << genSegBits
	genSlots    = 1 << genSlotBits

	// maxGenSegments bounds the segments of all FSs of the process, 64 KiB each.
	maxGenSegments = genSegments

	// IdleTicks is after how many ticks without use a segment is dropped: 10 s.
	IdleTicks = 40
)

// A Cache is a table of fixed places: an inode takes that of another. Neighbours by
// number, which files made together are, lie together. Reading takes no lock.
type Cache struct {
	settle  time.Duration // set once: how old a ctime must be to lie in the past
	count   atomic.Int32  // segments that there are
	mu      sync.Mutex    // held by who changes the table; nothing else is locked under it
	segment [genSegments]genSegment
}

type genSegment struct {
	used  atomic.Uint32 // the cache's tick when it was last used
	slots atomic.Pointer[[genSlots]genSlot]
}

// A genSlot is what is kept of one inode. The word is 0 while the slot is changed, and
// comes back with another inode or generation, or with the same that also had the other ctime:
// so who reads the same word before and after the ctime has read what belongs together.
type genSlot struct {
	word  atomic.Uint64 // Generation.N, 24 bits of number >> (genSlotBits + genSegBits), Generation.Type; 0: nothing is kept
	ctime atomic.Int64  // nanoseconds
}

// genSegmentsOfAll counts the segments of all FSs.
var genSegmentsOfAll atomic.Int32

// Init takes the granularity of the file system's times.
func (g *Cache) Init(granularity time.Duration) {
	// A ctime is the kernel's coarse clock, up to a tick of 10 ms behind, cut to the granularity.
	g.settle = 2*granularity + 50*time.Millisecond
}

// Settled reports whether a file whose ctime is that of st had it well before asked, so
// that no file which has been given its inode number since can have the same.
func (g *Cache) Settled(st *unix.Stat_t, asked time.Time) bool {
	return st.Ctim.Nano() < asked.Add(-g.settle).UnixNano()
}

// SettlesIn is how old a ctime must be for Settled.
func (g *Cache) SettlesIn() time.Duration { return g.settle }

// Len returns the number of segments that there are.
func (g *Cache) Len() int { return int(g.count.Load()) }

// at returns the segment of an inode number, the slot's index, and the tag that its word has; ok
// is false for a number that is too large.
func (g *Cache) at(ino uint64) (s *genSegment, slot uint64, tag uint64, ok bool) {
	t := ino >> (genSlotBits + genSegBits)
	return &g.segment[ino>>genSlotBits%genSegments], ino % genSlots, t << 8, t < 1<<genTagBits
}

// genTagMask is where the tag stands in a word.
const genTagMask = (1<<genTagBits - 1) << 8

// Has reports whether a generation of that inode number is kept, whatever its ctime.
func (g *Cache) Has(ino uint64) bool {
	s, i, tag, ok := g.at(ino)
	slots := s.slots.Load()
	if !ok || slots == nil {
		return false
	}
	w := slots[i].word.Load()
	return w != 0 && w&genTagMask == tag
}

// Get returns the generation of the inode that has the attributes st, if it is kept.
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
	if s.used.Load() != tick { // not written by each reader
		s.used.Store(tick)
	}
	return Generation{uint32(w >> 32), uint8(w)}, true
}

// Put keeps the generation of the inode that has the attributes st, of which Settled holds.
// It reports whether that took a new segment, which has to be swept.
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

// Drop lets go of the segments that have not been used for idle ticks.
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
