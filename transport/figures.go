// What a server tells of itself when it is asked: refusals, repeated calls.

package transport

import "sync/atomic"

// A refusal is why a connection, or a call before its procedure, was turned away.
type refusal int

const (
	refusedHostLimit refusal = iota
	refusedLimit
	refusedDraining
	refusedOwner
	refusedSetUp
	refusedHeader
	refusedAuth
	refusedProgram
	refusedProcedure
	refusedChunks
	refusals
)

var refusalNames = [refusals]string{
	refusedHostLimit: "connections_per_host",
	refusedLimit:     "connections",
	refusedDraining:  "draining",
	refusedOwner:     "connection_owner_unknown",
	refusedSetUp:     "connection_setup",
	refusedHeader:    "rpc_header",
	refusedAuth:      "authentication",
	refusedProgram:   "program_unavailable",
	refusedProcedure: "procedure_unavailable",
	refusedChunks:    "chunks",
}

// refusalCounts counts what was turned away. The zero value is ready.
type refusalCounts [refusals]atomic.Uint64

func (r *refusalCounts) count(why refusal) { r[why].Add(1) }

// A RefusalCount is how many connections, or calls before their procedure ran, were turned away
// for one reason.
type RefusalCount struct {
	Reason string // words joined by underscores, such as "connections_per_host"
	Count  uint64
}

// RepeatFigures are the calls that came again (duplicate request cache).
type RepeatFigures struct {
	Replayed uint64 // answered with the reply of the first
	Joined   uint64 // came while the first was running, to wait for its reply
	Replies  int    // that are kept now
	Bytes    int    // of them
}

// Figures are what a Server tells beside what its Observer counts.
type Figures struct {
	Refused []RefusalCount
	Repeats RepeatFigures
}

// Figures returns the figures of this moment.
func (s *Server) Figures() Figures {
	f := Figures{Repeats: s.drc.figures()}
	for why := range s.refused {
		f.Refused = append(f.Refused, RefusalCount{refusalNames[why], s.refused[why].Load()})
	}
	return f
}

func (d *drc) figures() RepeatFigures {
	d.mu.Lock()
	defer d.mu.Unlock()
	return RepeatFigures{Replayed: d.replayed.Load(), Joined: d.joined.Load(), Replies: d.byAge.Len(), Bytes: d.all.size - drcEntrySize*d.byAge.Len()}
}
