// Stats: what the engine holds and has done, in numbers.

package datapath

// Stats is the state of an Engine at one moment, and what it has done since New.
type Stats struct {
	// Written data in bytes: not sent yet, being sent, and sent but not committed.
	Dirty, InFlight, Unstable int64

	WriteMemory int64 // bytes of memory that hold written data; at most Config.DirtyMount
	ReadMemory  int64 // bytes of memory that hold read-ahead and Views; at most Config.ReadMemory

	ReadAheadFetched int64 // bytes that were read ahead
	ReadAheadHits    int64 // bytes given to readers from these
	ReadAheadWaste   int64 // bytes of these that were dropped with no reader
	ReadMisses       int64 // bytes that readers had to wait for

	Writes, Commits int64 // calls that have returned
	Rewritten       int64 // bytes that were written again, for the server had restarted
	Errors          int64 // WRITEs and COMMITs that have failed
	Waits           int64 // writers that had to wait for memory
}

// Stats returns the state of the Engine.
func (e *Engine) Stats() Stats { return Stats{} }
