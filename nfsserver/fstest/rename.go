// Checks of Rename.

package fstest

import (
	"strings"

	"github.com/nfsrdma/nfsrdma/nfsserver"
)

var renameChecks = []check{
	{"rename/plain", checkRename},
	{"rename/over", checkRenameOver},
	{"rename/over another sort", checkRenameSorts},
	{"rename/one file", checkRenameSame},
	{"rename/into itself", checkRenameInside},
	{"rename/errors", checkRenameErrors},
}

func checkRename(t *tree) {
	d, e := t.dir(t.root, "d"), t.dir(t.root, "e")
	f := t.file(d, "f")
	t.put(f, "content", 0)
	t.ok(t.Rename(t.me, d, "f", d, "g"), "Rename")
	t.gone(d, "f")
	eq(t, "Ref is kept", t.find(d, "g"), f)
	t.ok(t.Rename(t.me, d, "g", e, "h"), "Rename to another directory")
	t.gone(d, "g")
	eq(t, "Ref is kept", t.find(e, "h"), f)
	eq(t, "content is kept", t.get(f, 100, 0), "content")
	t.ok(t.Rename(t.me, t.root, "d", e, "d"), "Rename of a directory")
	eq(t, "Ref is kept", t.find(e, "d"), d)
	links := t.attr(t.root).Nlink
	t.ok(t.Rename(t.me, t.root, "e", t.root, "x"), "Rename of a full directory")
	eq(t, "links of the parent", t.attr(t.root).Nlink, links)
	eq(t, "below", t.find(t.find(t.root, "x"), "h"), f)
}

func checkRenameOver(t *tree) {
	f, g := t.file(t.root, "f"), t.file(t.root, "g")
	t.put(f, "new", 0)
	t.ok(t.Rename(t.me, t.root, "f", t.root, "g"), "Rename over a file")
	eq(t, "the new", t.find(t.root, "g"), f)
	t.stale(g)
	entries := 4
	if !t.has(NoHardLinks) {
		entries++
		t.ok(t.Link(t.me, f, t.root, "keep"), "Link")
		h := t.file(t.root, "h")
		t.ok(t.Rename(t.me, t.root, "h", t.root, "g"), "Rename over one of two names")
		eq(t, "the other is left", t.find(t.root, "keep"), f)
		eq(t, "links", t.attr(f).Nlink, 1)
		eq(t, "the new", t.find(t.root, "g"), h)
	}
	d, e := t.dir(t.root, "d"), t.dir(t.root, "e")
	t.file(d, "in")
	t.want(t.Rename(t.me, t.root, "e", t.root, "d"), "Rename over a full directory", notEmpty, exist)
	t.ok(t.Rename(t.me, t.root, "d", t.root, "e"), "Rename over an empty directory")
	eq(t, "the new", t.find(t.root, "e"), d)
	t.stale(e)
	eq(t, "names", len(t.names(t.root, 0, false)), entries)
}

func checkRenameSorts(t *tree) {
	t.file(t.root, "f")
	t.dir(t.root, "d")
	t.want(t.Rename(t.me, t.root, "f", t.root, "d"), "file over directory", isDir, exist)
	t.want(t.Rename(t.me, t.root, "d", t.root, "f"), "directory over file", notDir, exist)
	if t.has(NoSymlinks) {
		return
	}
	t.link(t.root, "l", "x")
	t.want(t.Rename(t.me, t.root, "d", t.root, "l"), "directory over symbolic link", notDir, exist)
	t.ok(t.Rename(t.me, t.root, "f", t.root, "l"), "file over symbolic link")
	eq(t, "now a file", t.attr(t.find(t.root, "l")).Type, nfsserver.TypeReg)
}

func checkRenameSame(t *tree) {
	f := t.file(t.root, "f")
	t.ok(t.Rename(t.me, t.root, "f", t.root, "f"), "Rename to itself")
	eq(t, "there", t.find(t.root, "f"), f)
	if !t.has(NoHardLinks) {
		t.ok(t.Link(t.me, f, t.root, "g"), "Link")
		t.ok(t.Rename(t.me, t.root, "f", t.root, "g"), "Rename of one name to the other")
		eq(t, "f stays", t.find(t.root, "f"), f)
		eq(t, "g stays", t.find(t.root, "g"), f)
		eq(t, "links", t.attr(f).Nlink, 2)
	}
	d := t.dir(t.root, "d")
	t.ok(t.Rename(t.me, t.root, "d", t.root, "d"), "Rename of a directory to itself")
	eq(t, "there", t.find(t.root, "d"), d)
}

func checkRenameInside(t *tree) {
	a := t.dir(t.root, "a")
	b := t.dir(a, "b")
	t.want(t.Rename(t.me, t.root, "a", a, "x"), "directory into itself", inval)
	t.want(t.Rename(t.me, t.root, "a", b, "x"), "directory below itself", inval)
	t.want(t.Rename(t.me, a, "b", t.root, "a"), "directory over its parent", notEmpty, exist)
	eq(t, "in place", t.find(t.find(t.root, "a"), "b"), b)
}

func checkRenameErrors(t *tree) {
	f := t.file(t.root, "f")
	d := t.dir(t.root, "d")
	t.want(t.Rename(t.me, t.root, "nothing", t.root, "g"), "Rename of nothing", noEnt)
	t.want(t.Rename(t.me, t.root, "f", t.root, strings.Repeat("n", 256)), "Rename to a long name", nameTooLong)
	t.ok(t.Rmdir(t.me, t.root, "d"), "Rmdir")
	t.want(t.Rename(t.me, t.root, "f", d, "g"), "Rename into what is gone", nfsserver.ErrStale, errStale, noEnt)
	t.want(t.Rename(t.me, d, "g", t.root, "h"), "Rename out of what is gone", nfsserver.ErrStale, errStale, noEnt)
	eq(t, "in place", t.find(t.root, "f"), f)
}
