// Known names in a directory follow every change, and are dropped if they may be wrong.

package fusefs

import (
	"fmt"
	"testing"
	"time"

	"github.com/nfsrdma/nfsrdma/xdr/nfs3"
)

// A listed name is used only once, and each later change of the name counts.
func TestKnownNamesFollowChanges(t *testing.T) {
	tab := newTable(handleOf("root"))
	dir := tab.root
	entry := func(s string) *dirEntry { return &dirEntry{fh: nfs3.PostOpFH{Present: true, FH: handleOf(s)}} }
	tab.storeListing(dir, &listedNames{whole: true, names: map[string]*dirEntry{"a": entry("a"), "b": entry("b"), "c": entry("c")}})
	want := func(name string, used, absent bool) {
		t.Helper()
		if e, _, gone := tab.listed(dir, name); (e == nil) != used || gone != absent {
			t.Errorf("%s: entry %v, absent %v", name, e, gone)
		}
	}
	want("a", false, false)
	want("x", true, true)
	old, _, _ := tab.listed(dir, "b")
	tab.removed(dir, "b")
	if tab.enterListed(old, dir, "b", 0) != nil {
		t.Error("a name that was removed meanwhile is entered")
	}
	a := tab.enter(handleOf("a"), dir, "a", 0)
	want("a", true, false)
	tab.forget(a.id, 1) // a's attributes may have changed before a was forgotten
	want("a", true, false)
	want("b", true, true)
	tab.enter(handleOf("x"), dir, "x", 0)
	want("x", true, false)
	tab.moved(dir, "c", dir, "d", 0)
	want("c", true, true)
	want("d", true, false)
	dir.content++
	want("d", true, false)
	want("y", true, false) // asks the server, because another client may have made y
	dir.content--
	want("y", true, true)
	// a node that was referenced during a listing may have changed when the kernel forgets it
	e := tab.enter(handleOf("e"), dir, "e", 0)
	listing := &listedNames{names: make(map[string]*dirEntry)}
	if tab.dropListings(dir); !tab.continueListing(dir, listing, time.Hour) {
		t.Error("the directory is not listed again")
	}
	listing.whole, listing.names["e"] = true, entry("e")
	tab.storeListing(dir, listing)
	want("e", false, false)
	tab.forget(e.id, 1)
	want("e", true, false)
	tab.dropListings(dir)
	tab.storeListing(dir, &listedNames{whole: true, forgot: listing.forgot, names: map[string]*dirEntry{"e": entry("e")}})
	want("e", true, false) // e is neither a listed nor an absent name
	tab.dropListings(dir)
	want("y", true, false)
	if tab.knownNames != 0 || len(tab.knownDirs) != 0 {
		t.Errorf("%d names of %d directories are left", tab.knownNames, len(tab.knownDirs))
	}
}

// The known names are bounded, in one directory and in all together.
func TestKnownNamesAreBounded(t *testing.T) {
	tab := newTable(handleOf("root"))
	tab.storeListing(tab.root, &listedNames{whole: true, names: map[string]*dirEntry{}})
	for i := range maxKnown + 10 {
		name := fmt.Sprint(i)
		tab.forget(tab.enter(handleOf(name), tab.root, name, 0).id, 1)
	}
	if tab.root.listed != nil || tab.knownNames != 0 {
		t.Errorf("%d names of one directory", tab.knownNames)
	}
	names := make(map[string]*dirEntry)
	for i := range maxKnown / 3 {
		names[fmt.Sprint(i)] = nil
	}
	for i := range 10 {
		d := tab.enter(handleOf(fmt.Sprint("d", i)), tab.root, fmt.Sprint("d", i), 0)
		tab.storeListing(d, &listedNames{names: names})
	}
	if tab.knownNames > maxKnown || len(tab.knownDirs) > 3 {
		t.Errorf("%d names of %d directories", tab.knownNames, len(tab.knownDirs))
	}
}
