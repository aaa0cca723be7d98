// The decisions of mechanisms for speed, counted for each FS.

package osfs

import (
	"github.com/nfsrdma/nfsrdma/internal/tally"
	"github.com/nfsrdma/nfsrdma/nfsserver"
)

// decisions counts for one FS. All of its calls share the counters: one atomic addition costs
// little beside the system calls of each decision.
type decisions struct {
	coldRead        tally.Counter // won: the ring has read; lost: it could not; passed: there is none
	readAtOnce      tally.Counter // won: ReadInUse has read; lost: it has not; passed: node.inUse backs off
	parallelListing tally.Counter // won: a helper has described entries that were sent; lost: none; passed: no processor for it
}

var _ nfsserver.MechanismCounter = (*FS)(nil)

// Mechanisms returns the decisions since New, by the names cold_read, read_at_once and
// parallel_listing. The table is the caller's. It is for any goroutine, after Close too.
func (f *FS) Mechanisms() tally.Table {
	d := &f.decisions
	return tally.Table{
		"cold_read":        d.coldRead.Counts(),
		"read_at_once":     d.readAtOnce.Counts(),
		"parallel_listing": d.parallelListing.Counts(),
	}
}
