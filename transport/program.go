// Programs and procedures: tables for a server.

package transport

import "github.com/nfsrdma/nfsrdma/xdr/oncrpc"

// A Program is one version of an ONC RPC program (RFC 5531): a table indexed by procedure number.
// A nil Run means PROC_UNAVAIL.
type Program struct {
	Name            string
	Number, Version uint32
	Procs           []Procedure
	// Lanes are the names of things that calls may wait for independently: exported file systems.
	// All Programs with lanes in a Server have equal lanes. Server.NameLane adds lanes.
	Lanes []string
	// Authorize decides whether to accept a call's Cred, given its Owner and Remote: any AuthStat
	// but AuthOK refuses it. Authorize is called for every procedure but 0, before the duplicate
	// request cache is used. It runs on the receiving goroutine and must not wait. nil: all calls
	// are accepted.
	Authorize func(c *Call) oncrpc.AuthStat
}

// A Procedure is a Program's row.
type Procedure struct {
	Name string
	// Run decodes c.Args, does the work and encodes c.Res. The meaningful errors are
	// ErrGarbageArgs (also returned by Call.ArgsErr), ErrSystem and *AuthError; any other becomes
	// SYSTEM_ERR.
	Run func(c *Call) error
	// Inline: Run does not wait for a disk, a lock or the network before it calls Call.Busy. Other
	// calls of the connection wait until Run calls Busy or returns. Without Inline a call counts as
	// busy before Run.
	Inline bool
	// Lane returns the call's lane, an index in Program.Lanes: the call may wait for this file
	// system, and Run MUST NOT wait for another. -1: for none. Lane runs on the receiving
	// goroutine and must not wait. It decodes a copy of c.Args, because Run needs c.Args
	// unchanged. nil: -1 for all calls.
	Lane func(c *Call) int
	// Busy encodes results in c.Res that make the client retry later, for a call that has done
	// nothing because the running calls in its lane do not end. nil: such calls keep waiting.
	Busy func(c *Call)
	// Idempotent: executing a call twice is harmless, so the duplicate request cache ignores it.
	Idempotent bool
	// NoOverlap: idempotent, but a late copy would undo later operations (WRITE). While such a
	// call waits or runs, its copies over other connections wait for it and get its reply.
	NoOverlap bool
	// ArgItem: the arguments have one item that may travel as a Read chunk.
	ArgItem bool
}

// programs finds a Program by number and version, and a number's versions.
type programs map[uint32][]*Program

func newPrograms(list []*Program) programs {
	ps := programs{}
	for _, p := range list {
		ps[p.Number] = append(ps[p.Number], p)
	}
	return ps
}

// find returns the Program, or nil with the program's lowest and highest version (RFC 5531 §9,
// PROG_MISMATCH). known reports whether the program has any version.
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

// procedure returns the table's row n, or nil if the Program has no such procedure.
func (p *Program) procedure(n uint32) *Procedure {
	if uint64(n) >= uint64(len(p.Procs)) || p.Procs[n].Run == nil {
		return nil
	}
	return &p.Procs[n]
}
