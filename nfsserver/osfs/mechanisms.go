// Counts the decisions of mechanisms for speed, for each FS.

package osfs

import (
	"github.com/nfsrdma/nfsrdma/internal/tally"
	"github.com/nfsrdma/nfsrdma/nfsserver"
)

// decisions has an FS's counters. All calls share the counters, because one atomic addition costs
// little compared with the system calls of each decision.
//
// coldRead is won if the ring has read, lost if the read failed, and passed if there is no ring.
// readAtOnce is won if ReadInUse has read, lost if it has not, and passed during node.readBackoff.
// parallelListing is won if a helper has described entries that were sent, lost if no such entries
// were sent, and passed without a processor for a helper.
type decisions struct {
	coldRead        tally.Counter
	readAtOnce      tally.Counter
	parallelListing tally.Counter
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
