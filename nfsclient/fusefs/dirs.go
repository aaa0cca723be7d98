// Listing directories: READDIRPLUS pages, which fill the name and attribute caches too.

package fusefs

import (
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/hanwen/go-fuse/v2/fuse"

	"github.com/nfsrdma/nfsrdma/nfsclient"
	"github.com/nfsrdma/nfsrdma/xdr/nfs3"
)

// Page sizes in bytes. The first is small: servers may lock the directory while they fill a page,
// and most directories are small.
const (
	firstPage = 32 << 10
	nextPage  = 128 << 10
)

// A listing is the read state of an open directory. Offsets are the server's cookies.
type listing struct {
	mu      sync.Mutex // guards all
	page    []dirEntry
	at      nfsclient.DirPage // the end of page, where the next page begins
	from    uint64            // the cookie before page's first entry
	sent    stamp             // when page was requested
	content uint64            // n.content at sent: different now if others have changed names
	names   uint64            // n.names at sent: different now if we have changed names
}

// A dirEntry is one entry of a page.
type dirEntry struct {
	name   string
	cookie uint64
	fileid uint64
	attr   nfs3.PostOpAttr
	fh     nfs3.PostOpFH
}

// OpenDir opens a directory. The kernel may keep its cached listing if the directory is unchanged
// and the listing's attributes are young enough. Otherwise one new listing refreshes all attributes
// at once.
func (f *fileSystem) OpenDir(cancel <-chan struct{}, in *fuse.OpenIn, out *fuse.OpenOut) fuse.Status {
	r := f.begin(opOpendir, cancel, &in.Caller)
	defer r.end()
	n := f.table.get(in.NodeId)
	if n == nil {
		return staleNode
	}
	if err := r.fresh(n); err != nil {
		return f.status(err)
	}
	if err := r.may(n, nfs3.AccessRead); err != nil {
		return f.status(err)
	}
	if err := f.table.openFile(r, n); err != nil {
		return f.status(err)
	}
	out.Fh = f.add(&handle{n: n, who: r.who, list: &listing{}})
	if f.regs.max > 0 {
		out.OpenFlags = fuse.FOPEN_CACHE_DIR
		n.mu.Lock()
		if n.pages == n.content && time.Since(n.fetched) < f.regs.min {
			out.OpenFlags |= fuse.FOPEN_KEEP_CACHE
		}
		n.mu.Unlock()
	}
	return fuse.OK
}

// ReleaseDir closes a directory.
func (f *fileSystem) ReleaseDir(in *fuse.ReleaseIn) {
	r := f.begin(opReleasedir, nil, &in.Caller)
	defer r.end()
	if h := f.handles.remove(in.Fh); h != nil {
		f.closed(r, h.n, h.who)
	}
}

// ReadDir lists names only.
func (f *fileSystem) ReadDir(cancel <-chan struct{}, in *fuse.ReadIn, out *fuse.DirEntryList) fuse.Status {
	r := f.begin(opReaddir, cancel, &in.Caller)
	defer r.end()
	return r.list(in, func(_ *handle, e *dirEntry) bool { return out.AddDirEntry(e.dirent(f)) })
}

// ReadDirPlus lists names with their nodes and attributes.
func (f *fileSystem) ReadDirPlus(cancel <-chan struct{}, in *fuse.ReadIn, out *fuse.DirEntryList) fuse.Status {
	r := f.begin(opReaddirplus, cancel, &in.Caller)
	defer r.end()
	if n := f.table.get(in.NodeId); n != nil {
		r.fetchSearchACL(n)
	}
	return r.list(in, func(h *handle, e *dirEntry) bool {
		entry := out.AddDirLookupEntry(e.dirent(f))
		if entry != nil {
			f.fillPlus(entry, h, e)
		}
		return entry != nil
	})
}

// dirent converts an entry to the kernel's form.
func (e *dirEntry) dirent(f *fileSystem) fuse.DirEntry {
	d := fuse.DirEntry{Name: e.name, Ino: e.fileid, Off: e.cookie}
	if e.attr.Present {
		d.Mode, d.Ino = typeBits[min(e.attr.Attr.Type, nfs3.TypeFIFO)], f.inode(&e.attr.Attr)
	}
	return d
}

// fillPlus adds an entry's node and attributes to the reply. If we have changed names since the
// page was read, the entry stays a plain name (node 0), which the kernel looks up on use. If
// another client has changed names, as the page's own attributes may show, the node gets timeout 0.
// Then too the kernel looks up the name on use, and it also drops a cached negative entry, which it
// keeps for a plain name.
func (f *fileSystem) fillPlus(out *fuse.EntryOut, h *handle, e *dirEntry) {
	l := h.list
	if !e.fh.Present || !e.attr.Present || e.name == "." || e.name == ".." {
		return
	}
	h.n.mu.Lock()
	ours, others := h.n.names != l.names, h.n.content != l.content
	h.n.mu.Unlock()
	if ours {
		return
	}
	n := f.table.enter(e.fh.FH, h.n, e.name, l.content)
	f.learn(n, l.sent, &e.attr.Attr)
	f.fillEntry(out, h.n, e.name, n)
	if others {
		out.SetEntryTimeout(0)
	}
}

// list passes entries after the offset to add until add has no more room.
func (r *request) list(in *fuse.ReadIn, add func(*handle, *dirEntry) bool) fuse.Status {
	f := r.fs
	h := f.handles.get(in.Fh)
	if h == nil || h.list == nil {
		return fuse.EBADF
	}
	l := h.list
	l.mu.Lock()
	defer l.mu.Unlock()
	at, err := r.position(h, in.Offset)
	for err == nil && at == len(l.page) && !l.at.EOF {
		at, err = 0, r.fetch(h, l.at)
	}
	if err != nil {
		return f.status(err)
	}
	for i := at; i < len(l.page); i++ {
		if e := &l.page[i]; !add(h, e) {
			break
		}
	}
	return fuse.OK
}

// position returns the index of the entry after the one with this cookie. If the current page lacks
// that entry, position fetches the right page.
func (r *request) position(h *handle, cookie uint64) (int, error) {
	l := h.list
	if cookie == 0 { // a rewind: read the present names
		return 0, r.fetch(h, nfsclient.DirPage{})
	}
	if cookie == l.from && l.page != nil {
		return 0, nil
	}
	for i := range l.page {
		if l.page[i].cookie == cookie {
			return i + 1, nil
		}
	}
	err := r.fetch(h, nfsclient.DirPage{Cookie: cookie, Verf: l.at.Verf})
	if isStatus(err, nfs3.ErrBadCookie) {
		return r.search(h, cookie)
	}
	return 0, err
}

// search reads the directory from its start for an entry with this cookie. The server rejects a
// changed directory's old cookies, but may number the entries as before.
func (r *request) search(h *handle, cookie uint64) (int, error) {
	l := h.list
	for next := (nfsclient.DirPage{}); ; next = l.at {
		if err := r.fetch(h, next); err != nil {
			return 0, err
		}
		for i := range l.page {
			if l.page[i].cookie == cookie {
				return i + 1, nil
			}
		}
		if l.at.EOF {
			return len(l.page), nil
		}
	}
}

// fetch reads the page after the position at.
func (r *request) fetch(h *handle, at nfsclient.DirPage) error {
	f, l, n := r.fs, h.list, h.n
	n.mu.Lock()
	l.content, l.names = n.content, n.names
	n.mu.Unlock()
	l.page, l.from, l.sent = l.page[:0], at.Cookie, f.stamp()
	size := uint32(nextPage)
	if at.Cookie == 0 {
		size = firstPage
	}
	next, err := r.readPage(l, n, at, size)
	if err != nil {
		l.page, l.at = nil, at
		return f.stale(n, err)
	}
	if !next.EOF && next.Cookie == at.Cookie {
		return syscall.ELOOP // as the kernel's client for a listing without progress
	}
	for i := range l.page {
		if e := l.page[i].name; e == "" || strings.ContainsAny(e, "/\x00") {
			return syscall.EIO
		}
	}
	l.at = next
	f.learnPost(n, l.sent, &next.Attr)
	if at.Cookie == 0 {
		n.mu.Lock()
		n.fetched, n.pages = l.sent.at, l.content
		n.mu.Unlock()
	}
	return nil
}

// readPage sends one READDIRPLUS, or one READDIR if the server or the options require it.
func (r *request) readPage(l *listing, n *node, at nfsclient.DirPage, size uint32) (nfsclient.DirPage, error) {
	f := r.fs
	if !f.useReaddir.Load() {
		next, err := r.who.client.Readdirplus(r, n.fh, at, size, size, func(e *nfs3.EntryPlus) {
			l.page = append(l.page, dirEntry{string(e.Name), e.Cookie, e.Fileid, e.Attr, e.FH})
		})
		if !isStatus(err, nfs3.ErrNotSupp) {
			return next, err
		}
		f.useReaddir.Store(true)
	}
	return r.who.client.Readdir(r, n.fh, at, size, func(e *nfs3.Entry) {
		l.page = append(l.page, dirEntry{name: string(e.Name), cookie: e.Cookie, fileid: e.Fileid})
	})
}
