// Stats: what the engine holds and has done, in numbers.

package datapath

import "sync/atomic"

// Stats is the state of an Engine at one moment, and what it has done since New.
type Stats struct {
	// Written data in bytes: not sent yet, being sent, and sent but not committed.
	Dirty, InFlight, Unstable int64

	// Bytes of memory that hold written data until it is stable, and those that hold read-ahead;
	// and the most that they can be.
	WriteMemory, WriteMemoryMost, ReadMemory, ReadMemoryMost int64

	ReadAheadFetched int64 // bytes that were read ahead
	ReadAheadHits    int64 // bytes given to readers from these
	ReadAheadWaste   int64 // bytes of these that were dropped with no reader
	ReadMisses       int64 // bytes that readers had to ask the server for

	Writes, Commits int64 // WRITEs of an extent, and COMMITs, that have returned
	Rewritten       int64 // bytes that were written again, for the server had restarted
	Errors          int64 // WRITEs and COMMITs that have failed
	Waits           int64 // writers that had to wait for memory
}

// counters are the sums of Stats.
type counters struct {
	fetched, hits, waste, misses              atomic.Int64
	writes, commits, rewritten, errors, waits atomic.Int64
}

// Stats returns the state of the Engine. Its numbers are of the same moment only
// while nothing goes on.
func (e *Engine) Stats() Stats {
	return Stats{
		Dirty: e.bytes[dirty].Load(), InFlight: e.bytes[inFlight].Load(), Unstable: e.bytes[unstable].Load(),
		WriteMemory: e.written.held(), WriteMemoryMost: e.written.total, ReadMemory: e.read.held(), ReadMemoryMost: e.read.total,
		ReadAheadFetched: e.fetched.Load(), ReadAheadHits: e.hits.Load(), ReadAheadWaste: e.waste.Load(), ReadMisses: e.misses.Load(),
		Writes: e.writes.Load(), Commits: e.counters.commits.Load(), Rewritten: e.rewritten.Load(), Errors: e.errors.Load(), Waits: e.waits.Load(),
	}
}

// Since is what has been done after before was taken, with what is held at the moment of s.
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
