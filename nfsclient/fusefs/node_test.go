// The table of nodes: counts, names, and removal.

package fusefs

import (
	"slices"
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

// A node lives while the kernel holds lookups of it, or has its file open.
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
	if tab.get(a.id) != nil || tab.find(handleOf("a")) != nil {
		t.Error("the table has a node without lookups and opens")
	}
	if n := len(tab.root.children); n != 0 {
		t.Errorf("the root has %d names, want none", n)
	}
	if b := tab.enter(handleOf("b"), tab.root, "b", 0); b.id == a.id {
		t.Error("an id is used for two handles")
	}
	tab.forget(rootID, 100)
	if tab.get(rootID) == nil {
		t.Error("the root is let go")
	}
}

// A name has one node, and a rename moves it.
func TestNamesFollowRenames(t *testing.T) {
	tab := newTable(handleOf("root"))
	a, b := tab.enter(handleOf("a"), tab.root, "a", 0), tab.enter(handleOf("b"), tab.root, "b", 0)
	d := tab.enter(handleOf("d"), tab.root, "d", 0)
	tab.moved(tab.root, "a", d, "x", 0)
	if c, ok := tab.child(d, "x"); !ok || c.n != a {
		t.Errorf("moved: the new name has node %p, want %p", c.n, a)
	}
	if want := []dirName{{d, "x"}}; !slices.Equal(a.dirNames, want) {
		t.Errorf("moved: names %v, want %v", a.dirNames, want)
	}
	tab.moved(tab.root, "b", d, "x", 0)
	if c, _ := tab.child(d, "x"); c.n != b || len(a.dirNames) != 0 {
		t.Error("the replaced node still has the name")
	}
	// When a directory is forgotten, its names are removed from their nodes.
	tab.forget(d.id, 1)
	if len(b.dirNames) != 0 {
		t.Error("a name in a directory that is gone")
	}
}

// kernelHas is true until the time given in the reply, or until another node gets the name.
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
		if got := tab.enterKnown(tab.root, "name", n); got != want {
			t.Errorf("node %d again: %v, want %v", n.id, got, want)
		}
	}
}

// A stale node is not found under its name again.
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

// A program that tries names without end does not fill memory.
func TestAbsentNamesAreBounded(t *testing.T) {
	tab := newTable(handleOf("root"))
	for i := range 3 * maxAbsent {
		tab.endLookupAbsent(tab.beginLookup(dirName{tab.root, string(rune(i + 1))}), true)
	}
	if n := len(tab.root.children); n > maxAbsent || n != tab.root.absent {
		t.Errorf("%d names, %d counted", n, tab.root.absent)
	}
	for name := range tab.root.children {
		tab.enter(handleOf(name), tab.root, name, 0) // the name exists from now on
	}
	if tab.root.absent != 0 {
		t.Errorf("%d absent names are counted, want 0", tab.root.absent)
	}
}

// A LOOKUP found a name absent before a foreign change was seen. The kernel does not get this
// result, because the change's notice may have been sent before the reply.
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
