// Checks of Refs.

package fstest

import "github.com/nfsrdma/nfsrdma/nfsserver"

var refChecks = []check{
	{"refs/not ours", checkBadRefs},
	{"refs/root", checkRootRef},
	{"refs/not given twice", checkReuse},
	{"refs/keep through changes", checkKeep},
}

func checkBadRefs(t *tree) {
	root := t.Root()
	cut, _ := nfsserver.MakeRef(root.Bytes()[:root.Len()-1])
	long, _ := nfsserver.MakeRef(append(append([]byte{}, root.Bytes()...), 0))
	other := append([]byte{}, root.Bytes()...)
	other[len(other)-1] ^= 0x55
	odd, _ := nfsserver.MakeRef(other)
	one, _ := nfsserver.MakeRef([]byte{0})
	for _, r := range []nfsserver.Ref{{}, cut, long, odd, one} {
		t.stale(r)
		_, _, err := t.Lookup(t.me, r, "x")
		t.want(err, "Lookup", nfsserver.ErrStale, errStale)
		for what, mk := range t.makers() {
			t.want(mk(r, "x"), what, nfsserver.ErrStale, errStale)
		}
		t.want(t.Setattr(t.me, r, mode(0)), "Setattr", nfsserver.ErrStale, errStale)
		t.want(t.Sync(r, false), "Sync", nfsserver.ErrStale, errStale)
		t.want(t.Link(t.me, r, t.root, "x"), "Link", nfsserver.ErrStale, errStale)
	}
}

func checkRootRef(t *tree) {
	eq(t, "Root is constant", t.Root(), t.root)
	t.want(t.Rmdir(t.me, t.root, "."), "Rmdir of the root", inval)
	t.ok(t.Setattr(t.me, t.root, mode(0o700)), "Setattr of the root")
	eq(t, "mode", t.attr(t.root).Mode, 0o700)
}

func checkReuse(t *tree) {
	seen := map[nfsserver.Ref]bool{}
	for range 50 {
		r := t.file(t.root, "f")
		if seen[r] {
			t.Fatal("a Ref was given to a second file")
		}
		seen[r] = true
		t.ok(t.Remove(t.me, t.root, "f"), "Remove")
	}
	t.file(t.root, "f")
	for r := range seen {
		t.stale(r)
	}
}

func checkKeep(t *tree) {
	f := t.file(t.root, "f")
	d := t.dir(t.root, "d")
	t.put(f, "kept", 0)
	t.ok(t.Setattr(t.me, f, mode(0)), "Setattr")
	if t.has(NoHardLinks) {
		t.ok(t.Rename(t.me, t.root, "f", d, "g"), "Rename")
	} else {
		t.ok(t.Link(t.me, f, d, "g"), "Link")
		t.ok(t.Remove(t.me, t.root, "f"), "Remove of the first name")
	}
	t.ok(t.Rename(t.me, d, "g", t.root, "h"), "Rename")
	t.ok(t.Rename(t.me, t.root, "d", t.root, "e"), "Rename of the directory")
	eq(t, "the same", t.find(t.root, "h"), f)
	eq(t, "content", t.get(f, 100, 0), "kept")
}
