// Silly renames: a removed file keeps a hidden name while it is open.
//
// An NFSv3 server does not track open files, so a file without a name is gone. Like the kernel's
// client, the mount renames the last name of an open file. The hidden name is .nfs with the file's
// and the attempt's numbers. The last close removes that name. A crashed client leaves such names
// behind. They can be removed by hand.

package fusefs

import (
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/nfsrdma/nfsrdma/xdr/nfs3"
)

// sillyTries bounds the attempts to find a free hidden name.
const sillyTries = 16

// sillyCount numbers the attempts, so that hidden names differ.
var sillyCount atomic.Uint32

// beginRemoval starts a removal of a name by REMOVE or by a RENAME over it, except if its node is
// keep. If the name is the last name of an open file, beginRemoval hides the file and returns its
// node and hidden name. The caller passes closed to endRemoval afterwards. Both nodes can be nil.
func (r *request) beginRemoval(dir *node, name string, keep *node) (open *node, hidden dirName, closed *node, err error) {
	n, isOpen := r.fs.table.claim(dir, name, keep)
	if !isOpen {
		return nil, dirName{}, n, nil
	}
	open, hidden, err = r.hide(n, dir, name)
	return open, hidden, nil, err
}

// bindUnknown looks up a name without a known node: its file may be open under another name. For
// RENAME it trusts a target's cached absence, because the kernel has just looked up the target. For
// UNLINK a cached absence is outdated, because the kernel has found the name. bindUnknown must not
// run during a change of the name.
func (r *request) bindUnknown(dir *node, name string, target bool) error {
	c, known := r.fs.table.child(dir, name)
	if !known {
		_, _, known = r.fs.table.listed(dir, name)
	}
	if c.n != nil || known && target {
		return nil
	}
	n, err := r.lookup(dir, name)
	switch {
	case isStatus(err, nfs3.ErrNoEnt):
		return nil
	case err != nil:
		return err
	}
	r.fs.table.forget(n.id, 1) // take back the lookup; n stays if the kernel knows it
	return nil
}

// hide renames an open file to a hidden name in the same directory and returns that place. Until
// keepHidden is called, no close removes the hidden name. hide returns a nil node if the file has
// another name and needs no hidden name.
func (r *request) hide(n, dir *node, name string) (*node, dirName, error) {
	attr, _ := n.snapshot()
	if attr.Nlink > 1 {
		if err := r.getattr(n); err != nil {
			return nil, dirName{}, err
		}
		if attr, _ = n.snapshot(); attr.Nlink > 1 {
			return nil, dirName{}, nil
		}
	}
	for range sillyTries {
		hidden := fmt.Sprintf("%s%016x%08x", hiddenPrefix, attr.Fileid, sillyCount.Add(1))
		other, err := r.lookup(dir, hidden)
		if err == nil { // the name belongs to another client or to an earlier mount
			r.fs.table.forget(other.id, 1)
			continue
		}
		if isStatus(err, nfs3.ErrNoEnt) {
			err = r.rename(dir, name, dir, hidden)
		}
		if err != nil {
			return nil, dirName{}, err
		}
		return n, dirName{dir, hidden}, nil
	}
	return nil, dirName{}, errHidden
}

// keepHidden makes the last close remove the hidden name, or removes it if the file is closed
// already.
func (r *request) keepHidden(n *node, p dirName) {
	p.dir.hiddenFiles.Add(1)
	r.fs.counts.silly.Add(1)
	if !r.fs.table.hideOpen(n) {
		r.removeHidden(n, p)
	}
}

// showAgain restores the file's name after a failed replacement. If another file has the name now,
// the file stays hidden.
func (r *request) showAgain(n *node, p dirName, name string) {
	other, err := r.lookup(p.dir, name)
	if err == nil {
		r.fs.table.forget(other.id, 1)
		r.keepHidden(n, p)
		return
	}
	if isStatus(err, nfs3.ErrNoEnt) {
		err = r.rename(p.dir, p.name, p.dir, name)
	}
	if err != nil {
		r.fs.logf("%s, which could not be replaced, is called %s now: %v", name, p.name, err)
	}
}

// hiddenPrefix is the prefix of the kernel client's hidden names too.
const hiddenPrefix = ".nfs"

// isHidden reports whether a name has the form of the names that hide makes.
func isHidden(name string) bool {
	return len(name) == len(hiddenPrefix)+24 && name[:len(hiddenPrefix)] == hiddenPrefix
}

// errHidden is the error for a directory full of hidden names.
var errHidden = errors.New("no hidden name is free for a file that is removed while open")

// dirAt returns the node under the name for RMDIR, or nil if the table has none. With a file's node
// RMDIR fails.
func (t *table) dirAt(parent *node, name string) *node {
	t.mu.Lock()
	defer t.mu.Unlock()
	return parent.children[name].n
}

// closingIn reports whether a directory has hidden names of ours about to be removed: a program has
// closed each handle on their files, and no use followed.
func (f *fileSystem) closingIn(dir *node) bool {
	if dir.hiddenFiles.Load() <= 0 {
		return false
	}
	hidden := f.table.hiddenIn(dir)
	if len(hidden) == 0 {
		return false // another client has removed the hidden names
	}
	hs := &f.handles
	hs.mu.Lock()
	defer hs.mu.Unlock()
	for _, h := range hs.by {
		if hidden[h.n] && !h.flushed.Load() {
			return false
		}
	}
	return true
}

// hiddenIn returns the files with hidden names in a directory.
func (t *table) hiddenIn(dir *node) map[*node]bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	hidden := make(map[*node]bool)
	for child, c := range dir.children {
		if c.n != nil && isHidden(child) {
			hidden[c.n] = true
		}
	}
	return hidden
}

// removeHidden removes the hidden name of a removing file without opens. It drops the file's
// unwritten data.
func (r *request) removeHidden(n *node, p dirName) {
	defer func() {
		r.fs.table.endRemoval(n)
		p.dir.hiddenRemoved.Add(1)
		p.dir.hiddenFiles.Add(-1)
	}()
	if d := n.file(); d != nil {
		d.Discard()
	}
	if err := r.remove(nfs3.ProcRemove, p.dir, p.name); err != nil && !isStatus(err, nfs3.ErrNoEnt) {
		r.fs.logf("cannot remove %s, the hidden name of a file that was removed while open: %v", p.name, err)
	}
}
