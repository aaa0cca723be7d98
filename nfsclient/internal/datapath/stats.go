// Stats: the engine's present state and counters.

package datapath

import "sync/atomic"

// Stats has the present state of an Engine and its counters since New.
type Stats struct {
	// Written data in bytes: not sent yet, being sent, and sent but not committed.
	Dirty, InFlight, Unstable int64

	// Memory in bytes for written data until it is stable, and for read-ahead, each with its bound.
	WriteMemory, WriteMemoryMost, ReadMemory, ReadMemoryMost int64

	ReadAheadFetched int64 // bytes read ahead
	ReadAheadHits    int64 // bytes of read-ahead copied or lent to readers
	ReadAheadWaste   int64 // bytes of read-ahead dropped unread
	ReadMisses       int64 // bytes that readers waited for

	Writes, Commits int64 // finished WRITEs of extents, finished COMMITs
	Rewritten       int64 // bytes written again after a server restart
	Errors          int64 // failed WRITEs and COMMITs
	Waits           int64 // writers that waited for memory
}

// counters are the counters for Stats.
type counters struct {
	fetched, hits, waste, misses              atomic.Int64
	writes, commits, rewritten, errors, waits atomic.Int64
}

// Stats returns the Engine's state. The values are consistent only while the Engine is idle.
func (e *Engine) Stats() Stats {
	return Stats{
		Dirty: e.bytes[dirty].Load(), InFlight: e.bytes[inFlight].Load(), Unstable: e.bytes[unstable].Load(),
		WriteMemory: e.written.used(), WriteMemoryMost: e.written.total, ReadMemory: e.read.used(), ReadMemoryMost: e.read.total,
		ReadAheadFetched: e.fetched.Load(), ReadAheadHits: e.hits.Load(), ReadAheadWaste: e.waste.Load(), ReadMisses: e.misses.Load(),
		Writes: e.writes.Load(), Commits: e.counters.commits.Load(), Rewritten: e.rewritten.Load(), Errors: e.errors.Load(), Waits: e.waits.Load(),
	}
}

// Since returns the changes after before was taken, with the present state of s.
func (s Stats) Since(before *Stats) Stats {
	s.ReadAheadFetched -= before.ReadAheadFetched
	s.ReadAheadHits -= before.ReadAheadHits
	s.ReadAheadWaste -= before.ReadAheadWaste
	s.ReadMisses -= before.ReadMisses
	s.Writes -= before.Writes
	s.Commits -= before.Commits
	s.Rewritten -= before.Rewritten
	s.Errors -= before.Errors
	s.Waits -= before.Waits
	return s
}
