// Checks of names: create, look up, link, remove.

package fstest

import (
	"fmt"
	"strings"
	"testing"

	"github.com/nfsrdma/nfsrdma/nfsserver"
)

var nameChecks = []check{
	{"names/lookup", checkLookup},
	{"names/make what exists", checkExists},
	{"names/make in what is no directory", checkNotDirs},
	{"names/long and odd", checkOddNames},
	{"names/remove", checkRemove},
	{"names/rmdir", checkRmdir},
	{"names/link", checkLink},
	{"names/dot-dot", checkDotDot},
	{"names/symlinks are not followed", checkNoFollow},
	{"names/deep", checkDeep},
}

// allocs returns the mean number of allocations of f.
func allocs(f func()) float64 { return testing.AllocsPerRun(100, f) }

// makers make one object of each type.
func (t *tree) makers() map[string]func(dir nfsserver.Ref, name string) error {
	list := map[string]func(dir nfsserver.Ref, name string) error{
		"Create": func(d nfsserver.Ref, n string) error { _, _, err := t.Create(t.me, d, n, mode(0o600)); return err },
		"Mkdir":  func(d nfsserver.Ref, n string) error { _, _, err := t.Mkdir(t.me, d, n, mode(0o700)); return err },
		"Symlink": func(d nfsserver.Ref, n string) error {
			_, _, err := t.Symlink(t.me, d, n, "x", mode(0o777))
			return err
		},
		"Mknod": func(d nfsserver.Ref, n string) error {
			_, _, err := t.Mknod(t.me, d, n, nfsserver.TypeFIFO, nfsserver.Rdev{}, mode(0o600))
			return err
		},
	}
	if t.has(NoSymlinks) {
		delete(list, "Symlink")
	}
	if t.has(NoSpecialFiles) {
		delete(list, "Mknod")
	}
	return list
}

func checkLookup(t *tree) {
	d := t.dir(t.root, "d")
	f := t.file(d, "f")
	eq(t, "f", t.find(d, "f"), f)
	eq(t, "d", t.find(t.root, "d"), d)
	t.gone(d, "g")
	t.gone(d, "F")
	t.gone(t.root, "f")
	_, _, err := t.Lookup(t.me, f, "x")
	t.want(err, "Lookup in a file", notDir)
	_, _, err = t.Lookup(t.me, f, "..")
	t.want(err, "Lookup of .. in a file", notDir)
	if !t.has(NoSymlinks) {
		_, _, err = t.Lookup(t.me, t.link(d, "l", "."), "f")
		t.want(err, "Lookup in a symbolic link", notDir)
	}
	_, _, err = t.Lookup(t.me, d, strings.Repeat("n", 256))
	t.want(err, "Lookup of a long name", nameTooLong, noEnt)
	eq(t, ". of d", t.find(d, "."), d)
}

func checkExists(t *tree) {
	names := []string{"f", "d", ".", ".."}
	t.file(t.root, "f")
	t.dir(t.root, "d")
	if !t.has(NoSymlinks) {
		t.link(t.root, "l", "nowhere")
		names = append(names, "l")
	}
	for what, mk := range t.makers() {
		for _, name := range names {
			t.want(mk(t.root, name), what+" of what exists, "+name, exist)
		}
	}
	f := t.find(t.root, "f")
	for _, name := range names {
		t.want(t.Link(t.me, f, t.root, name), "Link to what exists, "+name, exist)
	}
	t.gone(t.root, "nowhere")
}

func checkNotDirs(t *tree) {
	f, entries := t.file(t.root, "f"), 3
	for what, mk := range t.makers() {
		t.want(mk(f, "x"), what+" in a file", notDir)
	}
	if !t.has(NoSymlinks) {
		l := t.link(t.root, "l", ".")
		entries++
		for what, mk := range t.makers() {
			t.want(mk(l, "x"), what+" in a symbolic link", notDir)
		}
	}
	t.want(t.Link(t.me, f, f, "x"), "Link in a file", notDir)
	t.want(t.Remove(t.me, f, "x"), "Remove in a file", notDir)
	t.want(t.Rmdir(t.me, f, "x"), "Rmdir in a file", notDir)
	t.want(t.Rename(t.me, f, "x", t.root, "y"), "Rename out of a file", notDir)
	t.want(t.Rename(t.me, t.root, "f", f, "y"), "Rename into a file", notDir)
	_, err := t.ReadDir(t.me, f, 0, false, func(*nfsserver.Dirent) bool { return true })
	t.want(err, "ReadDir of a file", notDir)
	eq(t, "nothing came of it", len(t.names(t.root, 0, false)), entries)
}

func checkOddNames(t *tree) {
	odd := []string{" ", "...", "-", "\\", "a\nb", "\x01", "\xff\xfe", "é", "..x", strings.Repeat("n", 255)}
	for _, name := range odd {
		r := t.file(t.root, name)
		eq(t, "found", t.find(t.root, name), r)
	}
	eq(t, "all listed", len(t.names(t.root, 0, true)), len(odd)+2)
	for _, name := range odd {
		t.ok(t.Remove(t.me, t.root, name), "Remove")
	}
	for what, mk := range t.makers() {
		t.want(mk(t.root, strings.Repeat("n", 256)), what+" of a long name", nameTooLong)
	}
}

func checkRemove(t *tree) {
	d := t.dir(t.root, "d")
	f := t.file(t.root, "f")
	t.want(t.Remove(t.me, t.root, "d"), "Remove of a directory", isDir, perm)
	t.want(t.Remove(t.me, t.root, "nothing"), "Remove of nothing", noEnt)
	t.ok(t.Remove(t.me, t.root, "f"), "Remove")
	t.gone(t.root, "f")
	t.stale(f)
	if !t.has(NoSymlinks) {
		l := t.link(t.root, "l", "d")
		t.ok(t.Remove(t.me, t.root, "l"), "Remove of a symbolic link")
		t.stale(l)
		eq(t, "its target is left", t.find(t.root, "d"), d)
	}
	t.want(t.Remove(t.me, t.root, "f"), "Remove again", noEnt)
	_, err := t.ReadAt(t.me, f, make([]byte, 1), 0)
	t.want(err, "read of what is gone", nfsserver.ErrStale, errStale)
	_, err = t.WriteAt(t.me, f, make([]byte, 1), 0)
	t.want(err, "write of what is gone", nfsserver.ErrStale, errStale)
}

func checkRmdir(t *tree) {
	d := t.dir(t.root, "d")
	t.file(d, "f")
	t.want(t.Rmdir(t.me, t.root, "d"), "Rmdir of a full directory", notEmpty, exist)
	t.want(t.Rmdir(t.me, d, "f"), "Rmdir of a file", notDir)
	t.want(t.Rmdir(t.me, t.root, "nothing"), "Rmdir of nothing", noEnt)
	t.want(t.Rmdir(t.me, t.root, "."), "Rmdir of .", inval)
	t.want(t.Rmdir(t.me, d, ".."), "Rmdir of ..", notEmpty, inval, exist)
	t.ok(t.Remove(t.me, d, "f"), "Remove")
	t.ok(t.Rmdir(t.me, t.root, "d"), "Rmdir")
	t.gone(t.root, "d")
	t.stale(d)
	for what, mk := range t.makers() {
		t.want(mk(d, "x"), what+" in a directory that is gone", nfsserver.ErrStale, errStale, noEnt)
	}
	_, err := t.ReadDir(t.me, d, 0, false, func(*nfsserver.Dirent) bool { return true })
	t.want(err, "ReadDir of a directory that is gone", nfsserver.ErrStale, errStale)
}

func checkLink(t *tree) {
	if t.has(NoHardLinks) || t.has(NoSymlinks) {
		return
	}
	d, f := t.dir(t.root, "d"), t.file(t.root, "f")
	l := t.link(t.root, "l", "f")
	t.ok(t.Link(t.me, f, d, "g"), "Link")
	eq(t, "the same file", t.find(d, "g"), f)
	t.ok(t.Link(t.me, l, d, "m"), "Link of a symbolic link")
	eq(t, "the link itself, not its target", t.find(d, "m"), l)
	t.want(t.Link(t.me, d, t.root, "e"), "Link of a directory", perm)
	t.want(t.Link(t.me, f, d, strings.Repeat("n", 256)), "Link to a long name", nameTooLong)
	t.ok(t.Remove(t.me, t.root, "f"), "Remove")
	t.put(f, "alive", 0)
	t.ok(t.Remove(t.me, d, "g"), "Remove")
	t.stale(f)
	t.want(t.Link(t.me, f, d, "h"), "Link of what is gone", nfsserver.ErrStale, errStale)
}

func checkDotDot(t *tree) {
	a := t.dir(t.root, "a")
	b := t.dir(a, "b")
	eq(t, "..", t.find(b, ".."), a)
	eq(t, ".. below the root", t.find(a, ".."), t.root)
	eq(t, ".. of the root", t.find(t.root, ".."), t.root)
	t.ok(t.Rename(t.me, a, "b", t.root, "c"), "Rename")
	eq(t, ".. after a move", t.find(b, ".."), t.root)
}

// checkNoFollow: the FS follows no symbolic link.
func checkNoFollow(t *tree) {
	if t.has(NoSymlinks) {
		return
	}
	for _, target := range []string{"/", "/etc", "..", "../..", "d", ".", "/proc/self/root"} {
		l := t.link(t.root, "l", target)
		eq(t, "found is the link", t.find(t.root, "l"), l)
		eq(t, "type", t.attr(l).Type, nfsserver.TypeSymlink)
		_, _, err := t.Lookup(t.me, l, "passwd")
		t.want(err, "Lookup through a symbolic link to "+target, notDir)
		_, err = t.ReadDir(t.me, l, 0, false, func(*nfsserver.Dirent) bool { return true })
		t.want(err, "ReadDir of a symbolic link to "+target, notDir)
		t.want(t.Rmdir(t.me, t.root, "l"), "Rmdir of a symbolic link", notDir)
		t.ok(t.Remove(t.me, t.root, "l"), "Remove")
	}
}

func checkDeep(t *tree) {
	d := t.root
	for i := range 60 {
		d = t.dir(d, fmt.Sprintf("directory-%d", i))
	}
	t.put(t.file(d, "f"), "bottom", 0)
	for range 60 {
		d = t.find(d, "..")
	}
	eq(t, "up again", d, t.root)
}
