// Stats: what the engine holds and has done, in numbers.

package datapath

import "sync/atomic"

// Stats is the state of an Engine at one moment, and what it has done since New.
type Stats struct {
	// Written data in bytes: not sent yet, being sent, and sent but not committed.
	Dirty, InFlight, Unstable int64

	WriteMemory int64 // bytes of memory that hold written data; at most Config.DirtyMount
	ReadMemory  int64 // bytes of memory that hold read-ahead and Views; at most Config.ReadMemory

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
		WriteMemory: e.written.held(), ReadMemory: e.read.held(),
		ReadAheadFetched: e.fetched.Load(), ReadAheadHits: e.hits.Load(), ReadAheadWaste: e.waste.Load(), ReadMisses: e.misses.Load(),
		Writes: e.writes.Load(), Commits: e.counters.commits.Load(), Rewritten: e.rewritten.Load(), Errors: e.errors.Load(), Waits: e.waits.Load(),
	}
}
