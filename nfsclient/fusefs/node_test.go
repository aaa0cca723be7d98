// The table of nodes: counts, names, and what is let go.

package fusefs

import (
	"testing"
	"time"

	"github.com/nfsrdma/nfsrdma/xdr/nfs3"
)

func handleOf(s string) nfs3.FH {
	fh, err := nfs3.MakeFH([]byte(s))
	if err != nil {
		panic(err)
	}
	return fh
}

// TestNodesLiveWhileReferenced: by the kernel's lookups or by an open file.
func TestNodesLiveWhileReferenced(t *testing.T) {
	tab := newTable(handleOf("root"))
	a := tab.enter(handleOf("a"), tab.root, "a", 0)
	if again := tab.enter(handleOf("a"), tab.root, "link", 0); again != a || len(a.dirNames) != 2 {
		t.Error("two names of one handle are two nodes")
	}
	tab.forget(a.id, 1)
	if tab.get(a.id) != a {
		t.Error("let go while one lookup is left")
	}
	tab.open(a)
	tab.forget(a.id, 1)
	if tab.get(a.id) != a {
		t.Error("let go while open")
	}
	tab.close(a)
	if tab.get(a.id) != nil || tab.find(handleOf("a")) != nil || len(tab.root.children) != 0 {
		t.Error("kept though nobody holds it")
	}
	if b := tab.enter(handleOf("b"), tab.root, "b", 0); b.id == a.id {
		t.Error("an id is used for two handles")
	}
	tab.forget(rootID, 100)
	if tab.get(rootID) == nil {
		t.Error("the root is let go")
	}
}

// TestNamesFollowRenames: a name has one node, and a rename takes it along.
func TestNamesFollowRenames(t *testing.T) {
	tab := newTable(handleOf("root"))
	a, b := tab.enter(handleOf("a"), tab.root, "a", 0), tab.enter(handleOf("b"), tab.root, "b", 0)
	d := tab.enter(handleOf("d"), tab.root, "d", 0)
	tab.moved(tab.root, "a", d, "x", 0)
	if c, ok := tab.child(d, "x"); !ok || c.n != a || len(a.dirNames) != 1 || a.dirNames[0] != (dirName{d, "x"}) {
		t.Errorf("moved: %v", a.dirNames)
	}
	tab.moved(tab.root, "b", d, "x", 0)
	if c, _ := tab.child(d, "x"); c.n != b || len(a.dirNames) != 0 {
		t.Error("the replaced node still has the name")
	}
	// A directory that is let go takes its names from their nodes.
	tab.forget(d.id, 1)
	if len(b.dirNames) != 0 {
		t.Error("a name in a directory that is gone")
	}
}

// TestNamesAreBelieved: the kernel believes a name until the time in the reply, or until another
// node has it.
func TestNamesAreBelieved(t *testing.T) {
	tab := newTable(handleOf("root"))
	a := tab.enter(handleOf("a"), tab.root, "name", 0)
	for until, want := range map[time.Duration]bool{-time.Hour: false, time.Hour: true} {
		tab.show(tab.root, "name", time.Now().Add(until))
		if got := tab.kernelHas(tab.root, "name"); got != want {
			t.Errorf("until %v from now: believed %v, want %v", until, got, want)
		}
	}
	b := tab.enter(handleOf("b"), tab.root, "name", 0)
	for n, want := range map[*node]bool{a: false, b: true} {
		if got := tab.again(tab.root, "name", n); got != want {
			t.Errorf("node %d again: %v, want %v", n.id, got, want)
		}
	}
}

// TestStaleNodesAreFoundNoMore: a handle that the server does not know is not met under its name
// again.
func TestStaleNodesAreFoundNoMore(t *testing.T) {
	tab := newTable(handleOf("root"))
	a := tab.enter(handleOf("a"), tab.root, "a", 0)
	tab.disown(a)
	if _, ok := tab.child(tab.root, "a"); ok || tab.find(a.fh) != nil {
		t.Error("it is found")
	}
	b := tab.enter(handleOf("a"), tab.root, "a", 0)
	tab.forget(a.id, 1)
	if tab.find(b.fh) != b || tab.get(b.id) != b {
		t.Error("its end takes its successor along")
	}
}

// TestAbsentNamesAreBounded: a program that tries names without end fills no memory.
func TestAbsentNamesAreBounded(t *testing.T) {
	tab := newTable(handleOf("root"))
	for i := range 3 * maxAbsent {
		tab.endLookupAbsent(tab.beginLookup(dirName{tab.root, string(rune(i + 1))}), true)
	}
	if n := len(tab.root.children); n > maxAbsent || n != tab.root.absent {
		t.Errorf("%d names, %d counted", n, tab.root.absent)
	}
	for name := range tab.root.children {
		tab.enter(handleOf(name), tab.root, name, 0) // it is there now
	}
	if tab.root.absent != 0 {
		t.Errorf("%d absent names are counted, want 0", tab.root.absent)
	}
}

// TestAbsentBeforeAChange: the kernel is not given an absent name whose LOOKUP began before another
// client's change of the directory was seen, since the notice of that may have gone before.
func TestAbsentBeforeAChange(t *testing.T) {
	tab := newTable(handleOf("root"))
	early := tab.beginLookup(dirName{tab.root, "name"})
	tab.root.content++
	tab.endLookupAbsent(early, true)
	if tab.isAbsent(tab.root, "name") {
		t.Error("a name of before the change counts as absent")
	}
	tab.endLookupAbsent(tab.beginLookup(dirName{tab.root, "name"}), true)
	if !tab.isAbsent(tab.root, "name") {
		t.Error("a name of after the change does not count as absent")
	}
}
