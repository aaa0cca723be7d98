// Cookies in large directories.

package juicefs

import (
	"fmt"
	"os"
	"testing"

	"github.com/juicedata/juicefs/pkg/meta"
	"github.com/nfsrdma/nfsrdma/nfsserver"
)

// names returns the number of names in the large directory: a million with NFSRDMA_FULL=1.
func names() int {
	if os.Getenv("NFSRDMA_FULL") != "" {
		return 1000000
	}
	return 10000
}

// A lister reads a directory page by page.
type lister struct {
	t      *testing.T
	dir    nfsserver.Ref
	cookie uint64
	seen   map[string]int
}

// page reads up to n names, and returns them and whether they were the last.
func (l *lister) page(f *FS, n int, plus bool) (names []string, eof bool) {
	l.t.Helper()
	eof, err := f.ReadDir(me, l.dir, l.cookie, plus, func(de *nfsserver.Dirent) bool {
		if len(names) == n {
			return false
		}
		if de.Cookie <= l.cookie || de.Cookie >= 1<<62 {
			l.t.Errorf("cookie %#x after %#x", de.Cookie, l.cookie)
		}
		if plus && !de.HasAttr && de.Name[0] != '.' {
			l.t.Errorf("%s has no attributes", de.Name)
		}
		l.cookie = de.Cookie
		names = append(names, string(de.Name))
		return true
	})
	if err != nil {
		l.t.Fatalf("ReadDir: %v", err)
	}
	for _, name := range names {
		l.seen[name]++
	}
	return names, eof
}

// TestLargeDirectory: a listing continues over removals, additions and a restart, and has each
// remaining name once.
func TestLargeDirectory(t *testing.T) {
	l := Local{Dir: newDir(t), UID: me.UID, GID: me.GID}
	f := reopen(t, l)
	dir, _, err := f.Mkdir(me, f.Root(), "d", &nfsserver.SetAttr{})
	if err != nil {
		t.Fatalf("Mkdir: %v", err)
	}
	n := names()
	for i := range n {
		create(t, f, dir, fmt.Sprint("name-", i))
	}
	ls := &lister{t: t, dir: dir, seen: map[string]int{}}
	removed, added := 0, 0
	// change removes one name on the page, which the lister has seen, and makes a new one
	change := func(page []string) {
		for _, name := range page {
			if name[0] != '.' {
				if err := f.Remove(me, dir, name); err != nil {
					t.Fatalf("Remove: %v", err)
				}
				removed++
				break
			}
		}
		create(t, f, dir, fmt.Sprint("new-", added))
		added++
	}
	for i, eof := 0, false; !eof; i++ {
		var page []string
		page, eof = ls.page(f, n/20, i%2 == 0)
		change(page)
		if i == 10 {
			closeFS(t, f)
			f = reopen(t, l)
		}
	}
	defer closeFS(t, f)
	for i := range n {
		if name := fmt.Sprint("name-", i); ls.seen[name] != 1 {
			t.Errorf("%s was seen %d times", name, ls.seen[name])
		}
	}
	for name, times := range ls.seen {
		if times != 1 {
			t.Errorf("%s was seen %d times", name, times)
		}
	}
	again := &lister{t: t, dir: dir, seen: map[string]int{}}
	for eof := false; !eof; {
		_, eof = again.page(f, n, false)
	}
	if got, want := len(again.seen), n-removed+added+2; got != want {
		t.Errorf("%d names are left, want %d", got, want)
	}
}

// TestSameHash: names with the same hash have different cookies, in the order of the names. A name
// that comes twice has one cookie.
func TestSameHash(t *testing.T) {
	var l listing
	for _, name := range []string{"c", "a", "b", "a"} {
		l.entries = append(l.entries, entry{cookie: 5 << rankBits, at: uint32(len(l.names)), size: uint8(len(name))})
		l.names = append(l.names, name...)
	}
	l.entries = append(l.entries, entry{cookie: 6 << rankBits})
	l.sort()
	for i, want := range []struct {
		name   string
		cookie uint64
	}{{"a", 40}, {"b", 41}, {"c", 42}, {"", 48}} {
		if e := &l.entries[i]; string(l.name(e)) != want.name || e.cookie != want.cookie {
			t.Errorf("entry %d is %q at %d, want %q at %d", i, l.name(e), e.cookie, want.name, want.cookie)
		}
	}
	if rest := l.after(40); len(rest) != 3 || rest[0].cookie != 41 {
		t.Errorf("after the first come %v", rest)
	}
	if rest := l.after(43); len(rest) != 1 {
		t.Errorf("after one that is gone come %v", rest)
	}
}

// TestUnmarkedChanges: another client of the volume makes and removes names, but the directory's
// times do not change. JuiceFS leaves times unchanged that are far in the future.
func TestUnmarkedChanges(t *testing.T) {
	f := openNew(t, Local{})
	defer closeFS(t, f)
	future := nfsserver.Now()
	future.Sec += 1000 * 86400
	create(t, f, f.Root(), "a")
	if err := f.Setattr(me, f.Root(), &nfsserver.SetAttr{Mask: nfsserver.SetMtime, Mtime: future}); err != nil {
		t.Fatalf("Setattr: %v", err)
	}
	names := func(want string) {
		t.Helper()
		l := &lister{t: t, dir: f.Root(), seen: map[string]int{}}
		l.page(f, 10, false)
		if len(l.seen) != 3 || l.seen[want] != 1 {
			t.Errorf("%v are listed, want %s beside . and ..", l.seen, want)
		}
	}
	names("a")
	var ino meta.Ino
	if no := f.m.Mknod(system, f.root, "b", meta.TypeFile, 0o644, 0, 0, "", &ino, &meta.Attr{}); no != 0 {
		t.Fatal(no)
	}
	if no := f.m.Unlink(system, f.root, "a"); no != 0 {
		t.Fatal(no)
	}
	names("b")
}

// TestReplacedWhileListed: if a name gets another object during a listing, the listing has the
// name's present object.
func TestReplacedWhileListed(t *testing.T) {
	f := openNew(t, Local{})
	defer closeFS(t, f)
	create(t, f, f.Root(), "kept")
	create(t, f, f.Root(), "removed")
	l := &lister{t: t, dir: f.Root(), seen: map[string]int{}}
	l.page(f, 2, true) // skips "." and ".."
	r, _ := create(t, f, f.Root(), "new")
	if err := f.Rename(me, f.Root(), "new", f.Root(), "kept"); err != nil {
		t.Fatalf("Rename: %v", err)
	}
	if err := f.Remove(me, f.Root(), "removed"); err != nil {
		t.Fatalf("Remove: %v", err)
	}
	ino, _, _ := f.parse(&r)
	var got []nfsserver.Dirent
	_, err := f.ReadDir(me, f.Root(), l.cookie, true, func(de *nfsserver.Dirent) bool {
		got = append(got, *de)
		return true
	})
	if err != nil || len(got) != 1 {
		t.Fatalf("the rest of the listing is %+v, %v, want one entry", got, err)
	}
	if name := string(got[0].Name); name != "kept" || !got[0].HasAttr {
		t.Errorf("the entry is %q, attributes %v, want kept with attributes", name, got[0].HasAttr)
	}
	if got[0].Ref != r || got[0].Fileid != uint64(ino) {
		t.Errorf("the entry is of %v, %d, want %v, %d", got[0].Ref, got[0].Fileid, r, ino)
	}
}

// TestListingsAreForgotten: the cache of listings is bounded.
func TestListingsAreForgotten(t *testing.T) {
	var s listings
	for i := range 10 {
		k := s.cached(rootIno + 1 + 1<<uint(i))
		s.put(rootIno+1+1<<uint(i), k, &listing{entries: make([]entry, cachedNames/4)})
	}
	if len(s.of) > 4 || s.names > cachedNames {
		t.Errorf("%d listings with %d names are kept", len(s.of), s.names)
	}
	if s.of[rootIno+1+1<<9] == nil {
		t.Error("the last one is not kept")
	}
	if s.order.Len() != len(s.of) {
		t.Errorf("%d are in order, %d are kept", s.order.Len(), len(s.of))
	}
	// A million small listings: if each eviction scanned all of them, this would take an hour.
	for ino := range meta.Ino(1 << 20) {
		s.put(ino, s.cached(ino), new(listing))
	}
	if most := cachedNames / listingCost; len(s.of) > most {
		t.Errorf("%d small listings are kept, want at most %d", len(s.of), most)
	}
	if first, last := s.of[0] != nil, s.of[1<<20-1] != nil; first || !last {
		t.Errorf("kept: the first listing %v, the last %v, want only the last", first, last)
	}
}
