// Directory names from listings or from our own creates: lookups of them need no call.
//
// In a directory made by us, all names are ours. In others, one READDIRPLUS after several LOOKUPs
// fetches hundreds of entries, because a program checking one file mostly checks all.
//
// These names are valid until another client changes the directory, like names from LOOKUP. A name
// missing from a whole listing counts as absent only for absentFor after the directory's attributes
// arrived.

package fusefs

import (
	"maps"
	"syscall"
	"time"

	"github.com/hanwen/go-fuse/v2/fuse"

	"github.com/nfsrdma/nfsrdma/nfsclient"
	"github.com/nfsrdma/nfsrdma/xdr/nfs3"
)

// Bounds of known names.
const (
	maxKnown  = 1 << 16     // names of all directories together
	absentFor = time.Second // after the directory's attributes arrived
	lookupRun = 4           // LOOKUPs in a directory before it is listed
)

// A listedNames has the names of one directory. The table's lock guards it.
type listedNames struct {
	content uint64 // the directory's content number for which this is valid
	whole   bool   // the directory has no other names
	forgot  uint64 // the directory's forgot count when the listing began
	// names maps each existing name to its entry in the listing. The entry is nil if it was used or
	// may be outdated.
	names map[string]*dirEntry

	sent stamp             // when the first page was requested
	at   nfsclient.DirPage // the end of the last page
	used int               // entries looked up since the last page
}

// storeListing stores the names of dir. It drops k if the kernel has forgotten a child since the
// listing began: we may have changed that child, and its node no longer shows this. If the table
// has too many names, storeListing first drops those of other directories.
func (t *table) storeListing(dir *node, k *listedNames) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if k.forgot != dir.forgot {
		return
	}
	t.dropListing(dir)
	if t.knownNames+len(k.names) > maxKnown {
		for d := range t.knownDirs {
			t.dropListing(d)
		}
	}
	t.knownDirs[dir] = true
	t.knownNames += len(k.names)
	dir.listed = k
}

// dropListing drops the names of dir. The caller holds t.mu.
func (t *table) dropListing(dir *node) {
	if dir.listed != nil {
		t.knownNames -= len(dir.listed.names)
		dir.listed = nil
		delete(t.knownDirs, dir)
	}
}

// dropListings drops the names of directories after a call with unknown effect.
func (t *table) dropListings(dirs ...*node) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, dir := range dirs {
		t.dropListing(dir)
	}
}

// exists notes that the name exists, and drops its used or outdated entry. The caller holds t.mu.
func (t *table) exists(dir *node, name string) {
	k := dir.listed
	if k == nil {
		return
	}
	if _, ok := k.names[name]; !ok {
		if t.knownNames >= maxKnown {
			t.dropListing(dir)
			return
		}
		t.knownNames++
	}
	k.names[name] = nil
}

// vanished notes that the name no longer exists. The caller holds t.mu.
func (t *table) vanished(dir *node, name string) {
	if k := dir.listed; k != nil {
		if _, ok := k.names[name]; ok {
			t.knownNames--
			delete(k.names, name)
		}
	}
}

// listed returns the entry of a name in dir, or absent if a whole listing lacks the name.
func (t *table) listed(dir *node, name string) (e *dirEntry, sent stamp, absent bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	k := dir.listed
	if k == nil || k.content != dir.version() {
		return nil, stamp{}, false
	}
	e, ok := k.names[name]
	if e != nil {
		k.used++ // counts even if the entry's attributes prove too old
	}
	return e, k.sent, !ok && k.whole
}

// enterListed is enter for a listing's entry. It returns nil if the name was removed or replaced
// after listed returned the entry.
func (t *table) enterListed(e *dirEntry, dir *node, name string, content uint64) *node {
	t.mu.Lock()
	defer t.mu.Unlock()
	if dir.listed == nil || dir.listed.names[name] != e {
		return nil
	}
	return t.enterLocked(e.fh.FH, dir, name, content)
}

// enterAbsent is enterListed for a name missing from a whole listing. It reports whether the name
// is still known to be absent.
func (t *table) enterAbsent(dir *node, name string, content uint64) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	k := dir.listed
	if k == nil || !k.whole || k.content != content {
		return false
	}
	if _, ok := k.names[name]; ok {
		return false
	}
	t.bind(dir, name, nil, content)
	return true
}

// lookupListed answers a LOOKUP from the listed names of dir. It returns false if the caller has to
// send a LOOKUP.
func (r *request) lookupListed(dir *node, name string, out *fuse.EntryOut) (fuse.Status, bool) {
	f := r.fs
	if f.opt.LookupCache == LookupNone {
		return 0, false
	}
	e, sent, absent := f.table.listed(dir, name)
	dir.mu.Lock()
	content, left, said := dir.content, dir.ttl(time.Now()), time.Since(dir.attrs.sent)
	dir.mu.Unlock()
	switch {
	case left <= 0:
		return 0, false
	case e != nil && time.Since(sent.at) < f.regs.min:
	case absent && said < absentFor && f.opt.LookupCache == LookupAll:
	default:
		return 0, false
	}
	if err := r.may(dir, nfs3.AccessLookup); err != nil {
		return f.status(err), true
	}
	if dir.version() != content {
		return 0, false
	}
	if e == nil {
		if !f.table.enterAbsent(dir, name, content) {
			return 0, false
		}
		return f.absent(dir, name, out), true
	}
	n := f.table.enterListed(e, dir, name, content)
	if n == nil {
		return 0, false
	}
	f.learn(n, sent, &e.attr.Attr)
	if err := r.fresh(n); err != nil {
		f.table.forget(n.id, 1)
		if isStale(err) { // removed meanwhile: ask the server
			f.table.dropListings(dir)
			return 0, false
		}
		return f.status(err), true
	}
	f.fillEntry(out, dir, name, n)
	return fuse.OK, true
}

// lookedUp counts a successful LOOKUP. After lookupRun of them it lists one page: the first, or the
// next if the previous page was of use.
func (r *request) lookedUp(dir *node) {
	f := r.fs
	if f.useReaddir.Load() || f.opt.LookupCache == LookupNone || f.regs.min <= 0 || dir.lookedUp.Add(1) < lookupRun {
		return
	}
	dir.lookedUp.Store(0)
	k := &listedNames{names: make(map[string]*dirEntry)}
	dir.mu.Lock()
	k.content = dir.content
	names := dir.names
	dir.mu.Unlock()
	if !f.table.continueListing(dir, k, f.regs.min) {
		return
	}
	if err := r.listInto(k, dir); err != nil {
		return // a caller with search right may lack the right to list
	}
	dir.mu.Lock()
	same := dir.content == k.content && dir.names == names
	dir.mu.Unlock()
	if same {
		f.table.storeListing(dir, k)
	}
}

// continueListing makes k continue after the known names of dir, unless these are as old as age. It
// returns false if the directory has no more names, or if the program looked up too few names of
// the last page.
func (t *table) continueListing(dir *node, k *listedNames, age time.Duration) (ok bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	k.forgot = dir.forgot
	old := dir.listed
	if old == nil || old.content != k.content || time.Since(old.sent.at) >= age {
		return true
	}
	if old.whole || old.at.EOF || old.used < lookupRun {
		return false
	}
	maps.Copy(k.names, old.names)
	k.at, k.sent = old.at, old.sent
	return true
}

// listInto reads one page of a directory. Entries with hard links become plain names, because their
// attributes may change through another name.
func (r *request) listInto(k *listedNames, dir *node) error {
	now, entries := r.fs.stamp(), 0
	if k.at.Cookie == 0 {
		k.sent = now
	}
	next, err := r.who.client.Readdirplus(r, dir.fh, k.at, nextPage, nextPage, func(e *nfs3.EntryPlus) {
		entries++
		if !e.FH.Present || !e.Attr.Present || e.Attr.Attr.Nlink > 1 && e.Attr.Attr.Type != nfs3.TypeDir {
			k.names[string(e.Name)] = nil
			return
		}
		k.names[string(e.Name)] = &dirEntry{fileid: e.Fileid, attr: e.Attr, fh: e.FH}
	})
	if err == nil && entries == 0 && !next.EOF {
		err = syscall.EIO
	}
	if err == nil {
		r.fs.learnPost(dir, now, &next.Attr)
	}
	k.at, k.whole = next, next.EOF
	return err
}
