// A server's metrics for each call, its counts of refused and repeated calls, and the clock for
// calls.

package transport

import (
	"sync/atomic"
	"time"

	"github.com/nfsrdma/nfsrdma/internal/clock"
	"github.com/nfsrdma/nfsrdma/rpcrdma"
	"github.com/nfsrdma/nfsrdma/xdr"
)

// An Observer is notified about a Server's connections and calls. Its methods run on the data
// path in many goroutines concurrently: they must be quick, and must not call the Server.
type Observer interface {
	// Connection reports a new connection (+1) or an ended one (-1).
	Connection(rdma bool, delta int)
	// Call reports that a procedure has run, and its reply is about to leave.
	Call(s CallStats)
}

// CallStats describes one call to an Observer.
type CallStats struct {
	Program *Program
	Proc    *Procedure
	Number  uint32 // Proc's number
	RDMA    bool
	Took    time.Duration   // in the procedure, without waiting for a worker or the network
	In, Out int             // bytes of arguments and results, items included
	Err     error           // from Run, or for arguments that failed to decode
	Offered rpcrdma.Offered // over RDMA: the call's chunks
	Results []byte          // encoded results without their items; valid during Call only
}

// A watch collects one call's metrics.
type watch struct {
	start time.Time
	in    int
	res   int // where the results begin
}

func (c *Call) watch() watch {
	return watch{now(), c.args.Remaining() + c.args.ItemBytes(), c.res.Len()}
}

// tell reports the call to the Observer. The results must be complete.
func (w *watch) tell(o Observer, c *Call, err error) {
	s := CallStats{Program: c.prog, Proc: c.proc, Number: c.header.Proc, RDMA: c.RDMA, Took: now().Sub(w.start), In: w.in, Err: err}
	if req := c.via.request(c); req != nil {
		s.Offered = req.Offered()
	}
	if err == nil {
		s.Results = c.res.Bytes()[w.res:]
		s.Out = len(s.Results) + itemBytes(c.res.Items())
	}
	o.Call(s)
}

func itemBytes(items []xdr.Item) (n int) {
	for i := range items {
		n += len(items[i].Data)
	}
	return n
}

// A BudgetUse is the state of a Server's memory budget: its size and the bytes held by
// connections.
type BudgetUse struct {
	Name      string // data: arguments and results, over RDMA and TCP
	Max, Used int64
	Waiting   int    // connections waiting for bytes
	Waits     uint64 // number of such waits so far
}

// Budgets returns the current state of the memory budgets.
func (s *Server) Budgets() []BudgetUse {
	waiting, waits := s.cfg.Budget.Waits()
	return []BudgetUse{{"data", s.cfg.Budget.Total(), s.budgetUsed(), waiting, waits}}
}

// budgetUsed returns the bytes held from the budget.
func (s *Server) budgetUsed() int64 { return s.cfg.Budget.Total() - s.cfg.Budget.Free() }

// A refusal is a reason to refuse a connection, or a call before its procedure.
type refusal int

const (
	refusedHostLimit refusal = iota
	refusedLimit
	refusedDraining
	refusedOwner
	refusedSetUp
	refusedHeader
	refusedAuth
	refusedReplay
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
	refusedReplay:    "gss_replay",
	refusedProgram:   "program_unavailable",
	refusedProcedure: "procedure_unavailable",
	refusedChunks:    "chunks",
}

// refusalCounts counts refusals by reason. The zero value is ready.
type refusalCounts [refusals]atomic.Uint64

func (r *refusalCounts) count(why refusal) { r[why].Add(1) }

// A RefusalCount is the number of connections, or of calls before their procedure ran, refused
// for one reason.
type RefusalCount struct {
	Reason string // words joined by underscores, such as "connections_per_host"
	Count  uint64
}

// RepeatFigures counts repeated calls (duplicate request cache).
type RepeatFigures struct {
	Replayed uint64 // answered with the first call's reply
	Joined   uint64 // came during the first call, and waited for its reply
	Replies  int    // stored now
	Bytes    int    // size of the stored replies
}

// Figures has a Server's counts that its Observer does not see.
type Figures struct {
	Refused    []RefusalCount
	Repeats    RepeatFigures
	Handshakes []HandshakeCount
}

// Figures returns the current counts.
func (s *Server) Figures() Figures {
	f := Figures{Repeats: s.drc.figures(), Handshakes: s.secured.figures()}
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

// now returns the current time for measuring durations.
func now() time.Time { return clock.Now() }
