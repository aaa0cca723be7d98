// What a server tells of its work to who wants to count it.

package transport

import (
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
