// READDIRPLUS with few queries: one for a whole directory where that is cheaper. Attributes are
// those at the time of each call.

package juicefs

import (
	"fmt"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/juicedata/juicefs/pkg/meta"
	"github.com/nfsrdma/nfsrdma/nfsserver"
)

// A countedDir is a metadata client that also counts reads of directories.
type countedDir struct {
	counted
	reads, plus atomic.Int64
}

func (c *countedDir) Readdir(ctx meta.Context, ino meta.Ino, plus uint8, entries *[]*meta.Entry) syscall.Errno {
	if plus != 0 {
		c.plus.Add(1)
	} else {
		c.reads.Add(1)
	}
	return c.Meta.Readdir(ctx, ino, plus, entries)
}

// plusPage reads a page with at most n names and their attributes.
func plusPage(t *testing.T, f *FS, dir nfsserver.Ref, cookie uint64, n int) (page map[string]nfsserver.Dirent, last uint64, eof bool) {
	t.Helper()
	page = map[string]nfsserver.Dirent{}
	eof, err := f.ReadDir(me, dir, cookie, true, func(de *nfsserver.Dirent) bool {
		if len(page) == n {
			return false
		}
		page[string(de.Name)] = *de
		last = de.Cookie
		return true
	})
	if err != nil {
		t.Fatalf("ReadDir: %v", err)
	}
	return page, last, eof
}

// TestAttributesOfAllAtOnce: for a reply with most of a directory, one query returns all
// attributes. These equal GETATTR's at that time.
func TestAttributesOfAllAtOnce(t *testing.T) {
	f := openNew(t, Local{})
	defer closeFS(t, f)
	dir, _, err := f.Mkdir(me, f.Root(), "d", &nfsserver.SetAttr{Mask: nfsserver.SetMode, Mode: 0o755})
	if err != nil {
		t.Fatalf("Mkdir: %v", err)
	}
	const n = 400
	refs := map[string]nfsserver.Ref{}
	for i := range n {
		name := fmt.Sprint("f", i)
		refs[name], _ = create(t, f, dir, name)
	}
	if err := f.Link(me, refs["f3"], dir, "link"); err != nil {
		t.Fatalf("Link: %v", err)
	}
	refs["link"] = refs["f3"]
	c := &countedDir{counted: counted{Meta: f.m}}
	f.m, f.files.m = c, c
	check := func(page map[string]nfsserver.Dirent) {
		t.Helper()
		for name, r := range refs {
			de, ok := page[name]
			if !ok || !de.HasAttr {
				t.Errorf("%s: in the page %v, with attributes %v, want both", name, ok, de.HasAttr)
			}
			if is := attrOf(t, f, r); de.Attr != is || de.Ref != r {
				t.Errorf("%s is %v, %+v, want %v, %+v", name, de.Ref, de.Attr, r, is)
			}
		}
	}
	for round := range 3 {
		put(t, f, refs["f7"], []byte("hello"), uint64(round)) // the data is not committed
		if err := f.Setattr(me, refs["f8"], &nfsserver.SetAttr{Mask: nfsserver.SetMode, Mode: 0o600 + uint32(round)}); err != nil {
			t.Fatalf("Setattr: %v", err)
		}
		gets, plus := c.gets.Load(), c.plus.Load()
		page, _, eof := plusPage(t, f, dir, 0, n+10)
		gets, plus = c.gets.Load()-gets, c.plus.Load()-plus
		if !eof || len(page) != n+3 {
			t.Fatalf("%d names, %v", len(page), eof)
		}
		if plus != 1 || gets > n/eachCosts+2*ahead {
			t.Errorf("asked %d times for all attributes, and %d times for those of one", plus, gets)
		}
		check(page)
	}
}

// TestAttributesOfFew: small replies do not read the whole directory, and have the attributes at
// the time of the call.
func TestAttributesOfFew(t *testing.T) {
	f := openNew(t, Local{})
	defer closeFS(t, f)
	const n = 300
	refs := map[string]nfsserver.Ref{}
	for i := range n {
		name := fmt.Sprint("f", i)
		refs[name], _ = create(t, f, f.Root(), name)
	}
	c := &countedDir{counted: counted{Meta: f.m}}
	f.m, f.files.m = c, c
	seen, cookie := 0, uint64(0)
	for eof := false; !eof; {
		for name, r := range refs { // changes a file that may be on the next page
			if err := f.Setattr(me, r, &nfsserver.SetAttr{Mask: nfsserver.SetMode, Mode: 0o600 + uint32(seen)&7}); err != nil {
				t.Fatalf("Setattr: %v", err)
			}
			delete(refs, name)
			break
		}
		var page map[string]nfsserver.Dirent
		page, cookie, eof = plusPage(t, f, f.Root(), cookie, 20)
		for name, de := range page {
			if name[0] == '.' {
				continue
			}
			seen++
			if is := attrOf(t, f, de.Ref); de.Attr != is {
				t.Errorf("%s is %+v, want %+v", name, de.Attr, is)
			}
		}
	}
	if plus := c.plus.Load(); seen != n || plus > 0 {
		t.Errorf("%d names, and all attributes were asked for %d times", seen, plus)
	}
}
