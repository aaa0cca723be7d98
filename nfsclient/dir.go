// Listing directories: READDIRPLUS by pages, or READDIR if the server lacks it.

package nfsclient

import (
	"context"
	"errors"
	"hash/maphash"
	"io/fs"
	"iter"
	"slices"
	"strings"

	"github.com/nfsrdma/nfsrdma/xdr/nfs3"
)

// Bytes of a listing's page. The first page is small because most directories are small.
const (
	firstPage = 32 << 10
	nextPage  = 256 << 10
)

// A DirEntry is one name in a directory; it implements fs.DirEntry.
type DirEntry struct {
	f    *FS
	ctx  context.Context
	dir  nfs3.FH
	name string
	id   uint64
	node Node // Attr.Type is 0 if the listing had no attributes
}

// Name returns the entry's name.
func (e *DirEntry) Name() string { return e.name }

// Fileid returns the object's number.
func (e *DirEntry) Fileid() uint64 { return e.id }

// Node returns handle and attributes. It asks the server if the listing had no attributes.
func (e *DirEntry) Node() (Node, error) {
	if e.node.Attr.Type == 0 || e.node.FH.Len() == 0 {
		n, err := e.f.lookup(e.ctx, e.dir, e.name)
		if err != nil {
			return Node{}, err
		}
		e.node = n
	}
	return e.node, nil
}

// IsDir reports whether the entry is a directory.
func (e *DirEntry) IsDir() bool { return e.Type() == fs.ModeDir }

// Type returns the type bits of the mode. Type may ask the server; after an error it returns
// ModeIrregular.
func (e *DirEntry) Type() fs.FileMode {
	n, err := e.Node()
	if err != nil {
		return fs.ModeIrregular
	}
	return GoMode(n.Attr.Type, 0).Type()
}

// Info describes the object.
func (e *DirEntry) Info() (fs.FileInfo, error) {
	n, err := e.Node()
	if err != nil {
		return nil, pathError("stat", e.name, err)
	}
	return &FileInfo{name: e.name, Node: n}, nil
}

func (e *DirEntry) String() string { return fs.FormatDirEntry(e) }

// Entries lists a directory page by page in the server's order, without "." and "..". An error ends
// the listing. The loop may end early.
func (f *FS) Entries(ctx context.Context, name string) iter.Seq2[*DirEntry, error] {
	return f.entries(ctx, name, false)
}

// Names is Entries by READDIR: entries have only a name and a number, and ask the server for the
// rest. So the server reads no unused attributes.
func (f *FS) Names(ctx context.Context, name string) iter.Seq2[*DirEntry, error] {
	return f.entries(ctx, name, true)
}

// entries lists name; plain uses READDIR only.
func (f *FS) entries(ctx context.Context, name string, plain bool) iter.Seq2[*DirEntry, error] {
	return func(yield func(*DirEntry, error) bool) {
		n, err := f.walk(ctx, name, true)
		if err != nil {
			yield(nil, pathError("readdir", name, err))
			return
		}
		l := &lister{f: f, ctx: ctx, dir: n.FH, plain: plain}
		for !l.at.EOF {
			page, err := l.page()
			if err != nil {
				yield(nil, pathError("readdir", name, err))
				return
			}
			for i := range page {
				if !yield(&page[i], nil) {
					return
				}
			}
		}
	}
}

// ReadDir lists a directory sorted by name.
func (f *FS) ReadDir(ctx context.Context, name string) ([]*DirEntry, error) {
	var list []*DirEntry
	for e, err := range f.Entries(ctx, name) {
		if err != nil {
			return list, err
		}
		list = append(list, e)
	}
	slices.SortFunc(list, func(a, b *DirEntry) int { return strings.Compare(a.name, b.name) })
	return list, nil
}

// A lister is a listing in progress; it belongs to one goroutine.
type lister struct {
	f     *FS
	ctx   context.Context
	dir   nfs3.FH
	plain bool    // by READDIR: requested, or the server lacks READDIRPLUS
	at    DirPage // the last page

	// A repeated cookie means a loop. Each cookie is compared with a mark, which moves after 1, 2,
	// 4, 8 … pages. So any loop is found without keeping all cookies.
	loopMark     uint64
	pages, moved int

	// Hashes of the listed names, for restarting a listing.
	seen     map[uint64]struct{}
	seed     maphash.Seed
	restarts int
}

// Bounds for restarting a listing: names with hashes, and restarts.
const (
	maxSeen     = 1 << 16
	maxRestarts = 8
)

// page fetches the next entries. If the server rejects its own cookie the listing restarts and
// skips the names already listed (RFC 1813 §3.3.16). A listing with too many names for a restart
// fails with ErrBadCookie.
func (l *lister) page() ([]DirEntry, error) {
	page, err := l.fetch()
	for errors.Is(err, nfs3.ErrBadCookie) && l.at.Cookie != 0 && l.restarts < maxRestarts && len(l.seen) < maxSeen {
		l.restarts++
		l.at, l.pages, l.moved, l.loopMark = DirPage{}, 0, 0, 0
		page, err = l.fetch()
	}
	if err != nil {
		return nil, err
	}
	for i := range page {
		if strings.ContainsAny(page[i].name, "/\x00") || page[i].name == "" {
			return nil, errBadName
		}
	}
	return slices.DeleteFunc(page, func(e DirEntry) bool { return e.name == "." || e.name == ".." || l.alreadyListed(e.name) }), nil
}

// alreadyListed reports whether a name was listed before a restart, and records it.
func (l *lister) alreadyListed(name string) bool {
	if len(l.seen) >= maxSeen {
		return false
	}
	if l.seen == nil {
		l.seen, l.seed = make(map[uint64]struct{}), maphash.MakeSeed()
	}
	h := maphash.String(l.seed, name)
	_, known := l.seen[h]
	l.seen[h] = struct{}{}
	return known && l.restarts > 0
}

// fetch reads one page.
func (l *lister) fetch() (page []DirEntry, err error) {
	size := uint32(nextPage)
	if l.at.Cookie == 0 {
		size = firstPage
	}
	before := l.at.Cookie
	if !l.plain {
		page, err = l.plus(size)
		l.plain = errors.Is(err, nfs3.ErrNotSupp)
	}
	if l.plain {
		page, err = l.readdir(size)
	}
	if err != nil {
		return nil, err
	}
	// Entries that lead back to an earlier cookie would loop forever.
	if !l.at.EOF && (l.at.Cookie == before || l.pages > 0 && l.at.Cookie == l.loopMark) {
		return nil, errNoForward
	}
	if l.pages++; l.pages >= 2*l.moved {
		l.loopMark, l.moved = l.at.Cookie, l.pages
	}
	return page, nil
}

// entry makes an entry without attributes.
func (l *lister) entry(id uint64, name []byte) DirEntry {
	return DirEntry{f: l.f, ctx: l.ctx, dir: l.dir, name: string(name), id: id}
}

// plus reads one page by READDIRPLUS, up to size bytes, and advances l.at.
func (l *lister) plus(size uint32) (page []DirEntry, err error) {
	next, err := l.f.c.Readdirplus(l.ctx, l.dir, l.at, size, size, func(n *nfs3.EntryPlus) {
		e := l.entry(n.Fileid, n.Name)
		if n.Attr.Present && n.FH.Present {
			e.node = Node{FH: n.FH.FH, Attr: n.Attr.Attr}
		}
		page = append(page, e)
	})
	if err != nil {
		return nil, err
	}
	l.at = next
	return page, nil
}

// readdir reads one page by READDIR, up to size bytes, and advances l.at.
func (l *lister) readdir(size uint32) (page []DirEntry, err error) {
	next, err := l.f.c.Readdir(l.ctx, l.dir, l.at, size, func(n *nfs3.Entry) {
		page = append(page, l.entry(n.Fileid, n.Name))
	})
	if err != nil {
		return nil, err
	}
	l.at = next
	return page, nil
}
