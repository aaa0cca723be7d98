// Checks of ReadDir.

package fstest

import (
	"fmt"
	"slices"

	"github.com/nfsrdma/nfsrdma/nfsserver"
)

var dirChecks = []check{
	{"readdir/empty", checkEmptyDir},
	{"readdir/entries", checkEntries},
	{"readdir/pages", checkPages},
	{"readdir/removal while reading", checkRemovalWhileReading},
	{"readdir/adding while reading", checkAddingWhileReading},
	{"readdir/two readers", checkTwoReaders},
	{"readdir/cookies stay good", checkCookies},
}

func checkEmptyDir(t *tree) {
	for _, d := range []nfsserver.Ref{t.root, t.dir(t.root, "d")} {
		t.ok(t.Rename(t.me, t.root, "d", t.root, "e"), "Rename")
		t.ok(t.Rename(t.me, t.root, "e", t.root, "d"), "Rename")
		names := t.names(d, 0, false)
		eq(t, "dots", slices.Contains(names, ".") && slices.Contains(names, ".."), true)
	}
	eq(t, "entries", len(t.names(t.find(t.root, "d"), 0, true)), 2)
}

func checkEntries(t *tree) {
	want := map[string]nfsserver.Ref{"f": t.file(t.root, "f"), "d": t.dir(t.root, "d"), ".": t.root}
	if !t.has(NoSymlinks) {
		want["l"] = t.link(t.root, "l", "f")
	}
	for _, plus := range []bool{false, true} {
		seen := map[string]bool{}
		eof, err := t.ReadDir(t.me, t.root, 0, plus, func(de *nfsserver.Dirent) bool {
			name := string(de.Name)
			seen[name] = true
			if r, ok := want[name]; ok && de.HasAttr {
				eq(t, name+": Ref", de.Ref, r)
			}
			eq(t, name+": a fileid", de.Fileid != 0, true)
			eq(t, name+": a cookie", de.Cookie != 0, true)
			if de.HasAttr {
				eq(t, name+": fileid", de.Fileid, de.Attr.Fileid)
			}
			return true
		})
		t.ok(err, "ReadDir")
		eq(t, "eof", eof, true)
		eq(t, "entries", len(seen), len(want)+1)
	}
	ids := map[string]uint64{}
	_, err := t.ReadDir(t.me, t.root, 0, false, func(de *nfsserver.Dirent) bool { ids[string(de.Name)] = de.Fileid; return true })
	t.ok(err, "ReadDir")
	for name, r := range want {
		eq(t, name+": fileid is that of the object", ids[name], t.attr(r).Fileid)
	}
	eq(t, "fileid of .. in the root", ids[".."], t.attr(t.root).Fileid)
}

// fill makes n files in dir and returns all its names, sorted.
func (t *tree) fill(dir nfsserver.Ref, n int) []string {
	names := []string{".", ".."}
	for i := range n {
		names = append(names, fmt.Sprintf("file-with-a-name-%05d", i))
		t.file(dir, names[len(names)-1])
	}
	slices.Sort(names)
	return names
}

func sorted(s []string) []string { slices.Sort(s); return s }

func checkPages(t *tree) {
	d := t.dir(t.root, "d")
	all := t.fill(d, 300)
	for _, page := range []int{1, 2, 3, 100, 301, 302, 303, 0} {
		for _, plus := range []bool{false, true} {
			if got := sorted(t.names(d, page, plus)); !slices.Equal(got, all) {
				t.Errorf("pages of %d: %d names, want %d, each once", page, len(got), len(all))
			}
		}
	}
}

// page reads n names after the cookie.
func (t *tree) page(d nfsserver.Ref, cookie uint64, n int) (names []string, next uint64, eof bool) {
	t.Helper()
	next = cookie
	eof, err := t.ReadDir(t.me, d, cookie, false, func(de *nfsserver.Dirent) bool {
		if len(names) == n {
			return false
		}
		names, next = append(names, string(de.Name)), de.Cookie
		return true
	})
	t.ok(err, "ReadDir")
	return names, next, eof
}

func checkRemovalWhileReading(t *tree) {
	d := t.dir(t.root, "d")
	all := t.fill(d, 500)
	var got []string
	for cookie, eof := uint64(0), false; !eof; {
		var names []string
		names, cookie, eof = t.page(d, cookie, 7)
		got = append(got, names...)
		for _, name := range names {
			if name[0] != '.' {
				t.ok(t.Remove(t.me, d, name), "Remove")
			}
		}
	}
	if got = sorted(got); !slices.Equal(got, all) {
		t.Errorf("%d names were seen, want %d, each once", len(got), len(all))
	}
	eq(t, "left", len(t.names(d, 0, false)), 2)
}

func checkAddingWhileReading(t *tree) {
	d := t.dir(t.root, "d")
	all := t.fill(d, 300)
	seen := map[string]int{}
	for cookie, eof, i := uint64(0), false, 0; !eof && i < 10000; i++ {
		var names []string
		names, cookie, eof = t.page(d, cookie, 11)
		for _, name := range names {
			seen[name]++
		}
		if i < 50 {
			t.file(d, fmt.Sprintf("new-%d", i))
		}
	}
	for _, name := range all {
		eq(t, "times seen: "+name, seen[name], 1)
	}
}

func checkTwoReaders(t *tree) {
	d := t.dir(t.root, "d")
	all := t.fill(d, 200)
	var got [2][]string
	var cookie [2]uint64
	var eof [2]bool
	for i := 0; !eof[0] || !eof[1]; i++ {
		k := i % 2
		if eof[k] {
			continue
		}
		var names []string
		names, cookie[k], eof[k] = t.page(d, cookie[k], 3+4*k)
		got[k] = append(got[k], names...)
	}
	for k := range got {
		eq(t, "each name once", slices.Equal(sorted(got[k]), all), true)
	}
}

func checkCookies(t *tree) {
	d := t.dir(t.root, "d")
	t.fill(d, 100)
	first, cookie, _ := t.page(d, 0, 50)
	rest, _, eof := t.page(d, cookie, 1000)
	eq(t, "eof", eof, true)
	again, _, _ := t.page(d, cookie, 1000)
	eq(t, "the same again", slices.Equal(rest, again), true)
	eq(t, "in all", len(first)+len(rest), 102)
	last, end, eof := t.page(d, cookie, len(rest))
	for !eof && len(last) > 0 {
		last, end, eof = t.page(d, end, 1000)
	}
	none, _, eof := t.page(d, end, 10)
	eq(t, "nothing after the end", len(none), 0)
	eq(t, "eof after the end", eof, true)
}
