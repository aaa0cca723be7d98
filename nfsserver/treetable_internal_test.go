// Room for a tree: how many other trees are closed to make it.

package nfsserver

import (
	"testing"

	"github.com/nfsrdma/nfsrdma/transport"
)

// A gated is an FS whose Close waits for the test.
type gated struct {
	FS
	gate chan struct{}
}

func (gated) Root() Ref      { return Ref{} }
func (gated) Info() Info     { return Info{} }
func (g gated) Close() error { <-g.gate; return nil }

// An allTrees opens any tree for any caller.
type allTrees struct{ gate chan struct{} }

func (allTrees) Mount(Caller, string) (uint64, string, error) { return 0, "", nil }
func (allTrees) May(Caller, uint64) error                     { return nil }
func (a allTrees) Open(Caller, uint64) (FS, error)            { return gated{gate: a.gate}, nil }

// TestBurstClosesOneTree: if several calls need a tree that is not open, one other tree is closed
// for them, however long this takes. Calls for a second tree close a second one.
func TestBurstClosesOneTree(t *testing.T) {
	const most = 4
	gate := make(chan struct{})
	table := newTreeTable(&export{}, &Export{Trees: allTrees{gate}, MaxTrees: most}, &transport.RateLog{})
	for number := range uint64(most) {
		_, n, _, err := table.begin(Caller{}, number)
		if err != nil {
			t.Fatalf("begin %d: %v", number, err)
		}
		<-n.opened
	}
	victims := map[uint64]map[*tree]bool{}
	for _, number := range []uint64{10, 11, 10, 10, 11} {
		_, n, _, err := table.begin(Caller{}, number)
		if err != nil {
			t.Fatalf("begin %d: %v", number, err)
		}
		if victims[number] == nil {
			victims[number] = map[*tree]bool{}
		}
		victims[number][n] = true
	}
	if a, b := len(victims[10]), len(victims[11]); a != 1 || b != 1 {
		t.Errorf("trees closed for two others: %d and %d, want 1 and 1", a, b)
	}
	close(gate)
	if err := table.end(); err != nil {
		t.Errorf("end: %v", err)
	}
}
