// The names of a directory as a listing brought them, or as we made them: looking one up asks
// nobody.
//
// A directory that we have made has no names but those that we make in it. And where several names
// of one are looked up, one READDIRPLUS brings the next hundreds: a program that looks at
// one file of a directory mostly looks at all.
//
// Both hold as long as the directory has not changed by another's hand, as names that were looked
// up do. A name that the server was never asked about is believed to be absent only right after the
// server has said how the directory is.

package fusefs

import (
	"maps"
	"syscall"
	"time"

	"github.com/hanwen/go-fuse/v2/fuse"

	"github.com/nfsrdma/nfsrdma/nfsclient"
	"github.com/nfsrdma/nfsrdma/xdr/nfs3"
)

const (
	maxKnown  = 1 << 16     // names of all directories together
	absentFor = time.Second // after the attributes of its directory came
	lookupRun = 4           // LOOKUPs in a directory before it is listed
)

// A known is names of one directory. The table's lock guards it.
type known struct {
	content uint64 // of the directory, of which this is true
	whole   bool   // it has no other names
	forgot  uint64 // of the directory, when the listing began
	// names is by name what the listing said, nil where that was used, or may be out of date: the
	// name exists.
	names map[string]*dirEntry

	sent stamp             // when the first page of the listing was asked for
	at   nfsclient.DirPage // where its last page ended
	used int               // entries that were looked up since that page came
}

// know takes the names of dir over, unless the kernel has forgotten what one leads to since the
// listing began: we may have changed that, and do not know any more. What is known of others goes
// when all are too many.
func (t *table) know(dir *node, k *known) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if k.forgot != dir.forgot {
		return
	}
	t.doubt(dir)
	if t.knownNames+len(k.names) > maxKnown {
		for d := range t.knownDirs {
			t.doubt(d)
		}
	}
	t.knownDirs[dir] = true
	t.knownNames += len(k.names)
	dir.known = k
}

// doubt forgets the names of dir. The caller holds mu.
func (t *table) doubt(dir *node) {
	if dir.known != nil {
		t.knownNames -= len(dir.known.names)
		dir.known = nil
		delete(t.knownDirs, dir)
	}
}

// doubtful is for directories of which it is not known what a call has done.
func (t *table) doubtful(dirs ...*node) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, dir := range dirs {
		t.doubt(dir)
	}
}

// exists notes that the name exists, and that what a listing said of it is used or out of date.
// The caller holds mu.
func (t *table) exists(dir *node, name string) {
	k := dir.known
	if k == nil {
		return
	}
	if _, ok := k.names[name]; !ok {
		if t.knownNames >= maxKnown {
			t.doubt(dir)
			return
		}
		t.knownNames++
	}
	k.names[name] = nil
}

// vanished notes that nothing has the name any more. The caller holds mu.
func (t *table) vanished(dir *node, name string) {
	if k := dir.known; k != nil {
		if _, ok := k.names[name]; ok {
			t.knownNames--
			delete(k.names, name)
		}
	}
}

// listed is what is known of a name in dir: an entry, or that nothing has it.
func (t *table) listed(dir *node, name string) (e *dirEntry, sent stamp, absent bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	k := dir.known
	if k == nil || k.content != dir.version() {
		return nil, stamp{}, false
	}
	e, ok := k.names[name]
	if e != nil {
		k.used++ // as far as its attributes are not too old
	}
	return e, k.sent, !ok && k.whole
}

// enterListed is enter for an entry of a listing, and nil where the name was removed or given to
// something else since listed returned it.
func (t *table) enterListed(e *dirEntry, dir *node, name string, content uint64) *node {
	t.mu.Lock()
	defer t.mu.Unlock()
	if dir.known == nil || dir.known.names[name] != e {
		return nil
	}
	return t.enterLocked(e.fh.FH, dir, name, content)
}

// enterAbsent is enterListed for a name that a whole listing does not have. It reports whether that
// is still known.
func (t *table) enterAbsent(dir *node, name string, content uint64) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	k := dir.known
	if k == nil || !k.whole || k.content != content {
		return false
	}
	if _, ok := k.names[name]; ok {
		return false
	}
	t.bind(dir, name, nil, content)
	return true
}

// lookupListed answers from what is known of the directory.
func (r *request) lookupListed(dir *node, name string, out *fuse.EntryOut) (fuse.Status, bool) {
	f := r.fs
	if f.opt.LookupCache == LookupNone {
		return 0, false
	}
	e, sent, absent := f.table.listed(dir, name)
	dir.mu.Lock()
	content, left, said := dir.content, dir.left(time.Now()), time.Since(dir.attrs.sent)
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
		if isStale(err) { // it is gone since: as if nothing were known
			f.table.doubtful(dir)
			return 0, false
		}
		return f.status(err), true
	}
	f.fillEntry(out, dir, name, n)
	return fuse.OK, true
}

// lookedUp counts a LOOKUP that found its name, and lists the directory when there were some: its
// first page, or the one after the last if that was of use.
func (r *request) lookedUp(dir *node) {
	f := r.fs
	if f.plain.Load() || f.opt.LookupCache == LookupNone || f.regs.min <= 0 || dir.lookedUp.Add(1) < lookupRun {
		return
	}
	dir.lookedUp.Store(0)
	k := &known{names: make(map[string]*dirEntry)}
	dir.mu.Lock()
	k.content = dir.content
	names := dir.names
	dir.mu.Unlock()
	if !f.table.goOn(dir, k, f.regs.min) {
		return
	}
	if err := r.listInto(k, dir); err != nil {
		return // who looks names up needs no right to list them
	}
	dir.mu.Lock()
	same := dir.content == k.content && dir.names == names
	dir.mu.Unlock()
	if same {
		f.table.know(dir, k)
	}
}

// goOn has k go on where what is known of dir ends, unless that is as old as age. It reports false
// where more is of no use: there is none, or what there was is not what was looked up.
func (t *table) goOn(dir *node, k *known, age time.Duration) (ok bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	k.forgot = dir.forgot
	old := dir.known
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

// listInto reads one page of a directory. Entries whose attributes may change by another name are
// names alone.
func (r *request) listInto(k *known, dir *node) error {
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
