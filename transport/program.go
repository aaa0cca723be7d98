// Programs and procedures: what a server serves, as tables.

package transport

import "github.com/nfsrdma/nfsrdma/xdr/oncrpc"

// A Program is one version of one ONC RPC program (RFC 5531): a table whose
// index is the procedure number. A nil Run means PROC_UNAVAIL.
type Program struct {
	Name            string
	Number, Version uint32
	Procs           []Procedure
	// Lanes are the names of what calls may wait for, each without the others: exported file
	// systems. Programs of one Server that have lanes have the same. Server.NameLane adds to them.
	Lanes []string
	// Authorize decides whether a call's Cred is believed of its Owner and Remote: any
	// AuthStat but AuthOK refuses it. It is asked of every call but those of procedure 0,
	// before replies are taken from the duplicate request cache. It runs where the call
	// arrived, so it never waits. nil: every call is taken.
	Authorize func(c *Call) oncrpc.AuthStat
}

// A Procedure is one row of a Program.
type Procedure struct {
	Name string
	// Run decodes c.Args, does the work and encodes c.Res. The errors that mean
	// something are ErrGarbageArgs (also returned by Call.ArgsErr), ErrSystem and *AuthError;
	// any other becomes SYSTEM_ERR.
	Run func(c *Call) error
	// Inline: Run does not wait, for a disk, a lock or the network, before it calls Call.Busy.
	// Other calls of the connection wait until then. Without it a call counts as busy before Run is
	// called.
	Inline bool
	// Lane returns the index in Program.Lanes of the thing that the call may wait for; -1: nothing
	// in particular. It is called where the call arrived, so it never waits, and leaves c.Args as
	// it is for Run (it reads a copy). Run waits for nothing of another lane. nil: -1.
	Lane func(c *Call) int
	// Busy encodes in c.Res the results that ask the client to come again later: for a call that
	// has done nothing, since the calls of its lane that run do not end. nil: such calls wait on.
	Busy func(c *Call)
	// Idempotent: doing it twice does no harm, so the duplicate request cache leaves it out.
	Idempotent bool
	// NoOverlap: idempotent, but a copy that runs late undoes what was done after the
	// first (WRITE). While such a call waits or runs, copies of it that its client sends
	// over another connection wait for it and get its reply.
	NoOverlap bool
	// ArgItem: the arguments have one item that may travel as Read chunk.
	ArgItem bool
}

// programs finds the Program of a number and version, and the versions served of a number.
type programs map[uint32][]*Program

func newPrograms(list []*Program) programs {
	ps := programs{}
	for _, p := range list {
		ps[p.Number] = append(ps[p.Number], p)
	}
	return ps
}

// find returns the Program, or nil with the lowest and the highest version
// that is served of the program (RFC 5531 §9, PROG_MISMATCH). known tells
// whether the program is served in any version.
func (ps programs) find(number, version uint32) (p *Program, low, high uint32, known bool) {
	low = ^uint32(0)
	for _, p := range ps[number] {
		if p.Version == version {
			return p, 0, 0, true
		}
		low, high, known = min(low, p.Version), max(high, p.Version), true
	}
	return nil, low, high, known
}

// procedure returns row n of the table, or nil when the Program has no such procedure.
func (p *Program) procedure(n uint32) *Procedure {
	if uint64(n) >= uint64(len(p.Procs)) || p.Procs[n].Run == nil {
		return nil
	}
	return &p.Procs[n]
}
