// The figures of a server: of each call, and at any time of refusals and repeated calls. The clock
// of calls.

package transport

import (
	"sync/atomic"
	"time"

	"github.com/nfsrdma/nfsrdma/rpcrdma"
	"github.com/nfsrdma/nfsrdma/xdr"
)

// An Observer is told of the connections and calls of a Server. Its methods are
// called on the data path, from many goroutines at once: they must be quick, and
// must not call the Server.
type Observer interface {
	// Connection: one more (+1), or one less (-1).
	Connection(rdma bool, delta int)
	// Call: a procedure has run, and its reply is about to leave.
	Call(s CallStats)
}

// CallStats is what an Observer learns of one call.
type CallStats struct {
	Program *Program
	Proc    *Procedure
	Number  uint32 // of Proc
	RDMA    bool
	Took    time.Duration   // in the procedure; waiting for a worker and the network not included
	In, Out int             // bytes of arguments and of results, items included
	Err     error           // what Run returned, or made of arguments that did not decode
	Offered rpcrdma.Offered // over RDMA: the chunks of the call
	Results []byte          // the encoded results without their items; valid during Call only
}

// A watch takes the figures of one call.
type watch struct {
	start time.Time
	in    int
	res   int // where the results begin
}

func (c *Call) watch() watch {
	return watch{now(), c.args.Remaining() + c.args.ItemBytes(), c.res.Len()}
}

// tell gives the figures to the Observer. The results are all there.
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

// A BudgetUse is one memory budget of a Server: the most bytes that its connections can hold,
// and what they hold.
type BudgetUse struct {
	Name      string // data: that of arguments and results, over RDMA and TCP
	Max, Used int64
	Waiting   int    // connections that wait for bytes of it
	Waits     uint64 // times that one had to
}

// Budgets are the memory budgets at this moment.
func (s *Server) Budgets() []BudgetUse {
	waiting, waits := s.cfg.Budget.Waits()
	return []BudgetUse{{"data", s.cfg.Budget.Total(), s.budgetUsed(), waiting, waits}}
}

// budgetUsed is the bytes of the budget that are held.
func (s *Server) budgetUsed() int64 { return s.cfg.Budget.Total() - s.cfg.Budget.Free() }

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

// Figures are counts of a Server that its Observer does not see.
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

// epoch is where the clock of calls begins: a time since then takes one reading of the monotonic
// clock, where time.Now takes two clocks.
var epoch = time.Now()

// now is the present for measuring how much time passes; its wall clock is that of the program's
// start, carried on.
func now() time.Time { return epoch.Add(time.Since(epoch)) }
