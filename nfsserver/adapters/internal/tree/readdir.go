// Directory listings, in an order that depends on names alone, so that positions stay valid.

package tree

import (
	"cmp"
	"container/list"
	"slices"
	"sync"
	"syscall"

	"github.com/nfsrdma/nfsrdma/nfsserver"
	"github.com/nfsrdma/nfsrdma/nfsserver/adapters/internal/pathtree"
)

const (
	cookieDot = 1 + iota
	cookieDotDot
	cookieFirst

	// Bounds of the listings in memory.
	maxListings    = 32
	maxListedNames = 1 << 18
)

// An entry is a name in a listing.
type entry struct {
	cookie uint64
	name   string
}

// A listing has the names in a directory, sorted by cookie.
type listing struct {
	dir     pathtree.ID
	entries []entry
}

// listings are the last listings. A listing that begins reads its directory again, so each one in
// memory is at least as new as the start of every listing that continues with it.
type listings struct {
	mu    sync.Mutex // guards the rest
	byDir map[pathtree.ID]*list.Element
	order *list.List // of *listing, the last used first
	names int        // in all listings
}

func (l *listings) init() { l.byDir, l.order = make(map[pathtree.ID]*list.Element), list.New() }

// get returns a directory's listing, or nil.
func (l *listings) get(dir pathtree.ID) *listing {
	l.mu.Lock()
	defer l.mu.Unlock()
	e := l.byDir[dir]
	if e == nil {
		return nil
	}
	l.order.MoveToFront(e)
	return e.Value.(*listing)
}

// put replaces a directory's listing.
func (l *listings) put(x *listing) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if e := l.byDir[x.dir]; e != nil {
		l.remove(e)
	}
	l.byDir[x.dir] = l.order.PushFront(x)
	l.names += len(x.entries)
	for l.order.Len() > 1 && (l.order.Len() > maxListings || l.names > maxListedNames) {
		l.remove(l.order.Back())
	}
}

func (l *listings) remove(e *list.Element) {
	x := l.order.Remove(e).(*listing)
	delete(l.byDir, x.dir)
	l.names -= len(x.entries)
}

// read reads a directory. A name's cookie does not depend on other names, except where two
// hashes begin with the same 63 bits.
func (f *FS) read(o *object) (*listing, error) {
	names, err := f.b.List(o.path)
	if err != nil {
		return nil, err
	}
	x := &listing{dir: o.id, entries: make([]entry, 0, len(names))}
	known := make(map[string]bool, len(names))
	for _, name := range names {
		if name != "" && len(name) <= nameMax && !known[name] {
			known[name] = true
			x.entries = append(x.entries, entry{max(f.table.Mark(name), cookieFirst), name})
		}
	}
	slices.SortFunc(x.entries, func(a, b entry) int {
		return cmp.Or(cmp.Compare(a.cookie, b.cookie), cmp.Compare(a.name, b.name))
	})
	for i := 1; i < len(x.entries); i++ {
		x.entries[i].cookie = max(x.entries[i].cookie, x.entries[i-1].cookie+1)
	}
	if !f.kind.Fixed {
		f.table.Prune(o.id, func(name string) bool { return known[name] })
	}
	f.lists.put(x)
	return x, nil
}

// after returns the entries after a cookie.
func (x *listing) after(cookie uint64) []entry {
	i, found := slices.BinarySearchFunc(x.entries, cookie, func(e entry, c uint64) int { return cmp.Compare(e.cookie, c) })
	if found {
		i++
	}
	return x.entries[i:]
}

// ReadDir emits the entries in cookie order.
func (f *FS) ReadDir(c nfsserver.Cred, r nfsserver.Ref, cookie uint64, plus bool, emit func(*nfsserver.Dirent) bool) (bool, error) {
	f.names.RLock()
	defer f.names.RUnlock()
	o, err := f.getDir(&c, &r, nfsserver.MayRead)
	if err != nil {
		return false, err
	}
	x := f.lists.get(o.id)
	if x == nil || cookie == 0 {
		if x, err = f.read(&o); err != nil {
			return false, err
		}
	}
	plus = plus && o.rights().May(&c, nfsserver.MayExec)
	var de nfsserver.Dirent
	for i, name := range []string{".", ".."} {
		de = nfsserver.Dirent{Name: append(de.Name[:0], name...), Cookie: uint64(i + 1)}
		if cookie >= de.Cookie {
			continue
		}
		if f.describeDots(&o, &de, plus); !emit(&de) {
			return false, nil
		}
	}
	for _, e := range x.after(cookie) {
		de = nfsserver.Dirent{Name: append(de.Name[:0], e.name...), Cookie: e.cookie}
		if f.describe(&o, &de, plus) && !emit(&de) {
			return false, nil
		}
	}
	return true, nil
}

// describe fills in an entry in directory d. ok is false if the name is gone since the listing.
func (f *FS) describe(d *object, de *nfsserver.Dirent, plus bool) (ok bool) {
	name := string(de.Name)
	id, _ := f.table.Child(d.id, name)
	de.Fileid = id.Fileid()
	if !plus {
		return true
	}
	o, err := f.in(d, name)
	if err == nil {
		de.Ref, err = f.ref(o.id)
	}
	if err == nil {
		de.HasAttr, de.Attr, de.Fileid = true, o.attr, o.attr.Fileid
	}
	return err != syscall.ENOENT //nolint:errorlint // returned by in itself
}

// describeDots fills in "." or ".." for directory d.
func (f *FS) describeDots(d *object, de *nfsserver.Dirent, plus bool) {
	id := d.id
	if de.Cookie == cookieDotDot {
		if p, err := f.table.Parent(id); err == nil {
			id = p
		}
	}
	de.Fileid = id.Fileid()
	if r, err := f.ref(id); plus && err == nil {
		if o, err := f.get(&r); err == nil {
			de.HasAttr, de.Ref, de.Attr = true, r, o.attr
		}
	}
}

// Lookup finds a name.
func (f *FS) Lookup(c nfsserver.Cred, r nfsserver.Ref, name string) (nfsserver.Ref, nfsserver.Attr, error) {
	f.names.RLock()
	defer f.names.RUnlock()
	o, err := f.getDir(&c, &r, nfsserver.MayExec)
	if err != nil {
		return nfsserver.Ref{}, nfsserver.Attr{}, err
	}
	switch name {
	case ".":
	case "..":
		id, err := f.table.Parent(o.id)
		if err != nil {
			return nfsserver.Ref{}, nfsserver.Attr{}, nfsserver.ErrBusy
		}
		if r, err = f.ref(id); err != nil {
			return nfsserver.Ref{}, nfsserver.Attr{}, err
		}
		if o, err = f.get(&r); err != nil {
			return nfsserver.Ref{}, nfsserver.Attr{}, err
		}
		return r, o.attr, nil
	default:
		if o, err = f.in(&o, string([]byte(name))); err != nil { // the caller reuses name
			return nfsserver.Ref{}, nfsserver.Attr{}, err
		}
	}
	ref, err := f.ref(o.id)
	return ref, o.attr, err
}
