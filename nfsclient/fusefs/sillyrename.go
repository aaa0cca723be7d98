// Silly renames: a file that is removed while it is open gets a hidden name until it is closed.
//
// An NFSv3 server does not know what is open, so a file without a name is gone. As the
// kernel's client does, the last name of an open file is changed to .nfs and the numbers
// of the file and of the attempt, and removed after the last close. A client that crashes
// leaves such names behind; whoever finds one may remove it.

package fusefs

import (
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/nfsrdma/nfsrdma/xdr/nfs3"
)

// sillyTries bounds how many hidden names are tried.
const sillyTries = 16

// sillyCount makes hidden names differ.
var sillyCount atomic.Uint32

// beginRemoval starts a removal of a name, by REMOVE or by a RENAME over it, except of keep. If
// that is the last name of an open file, the file gets a hidden one, and both are returned. closed
// is for endRemoval afterwards. Both can be nil.
func (r *request) beginRemoval(dir *node, name string, keep *node) (open *node, hidden place, closed *node, err error) {
	n, isOpen := r.fs.table.claim(dir, name, keep)
	if !isOpen {
		return nil, place{}, n, nil
	}
	open, hidden, err = r.hide(n, dir, name)
	return open, hidden, nil, err
}

// bindUnknown looks up a name that leads to no node: its file may be open under another name.
// RENAME believes that nothing has its target, as the kernel does that has asked before. UNLINK is
// of a name that the kernel has found, so another answer to a LOOKUP was older, or is out of date.
// It must not run during a change of the name.
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
	r.fs.table.forget(n.id, 1) // if the kernel has not looked it up, it is not open
	return nil
}

// hide gives an open file a hidden name in the same directory, and returns
// where; until keepHidden is called no close removes it. The node is nil where none is
// needed, since another name keeps the file.
func (r *request) hide(n, dir *node, name string) (*node, place, error) {
	attr, _ := n.snapshot()
	if attr.Nlink > 1 {
		if err := r.getattr(n); err != nil {
			return nil, place{}, err
		}
		if attr, _ = n.snapshot(); attr.Nlink > 1 {
			return nil, place{}, nil
		}
	}
	for range sillyTries {
		hidden := fmt.Sprintf("%s%016x%08x", hiddenPrefix, attr.Fileid, sillyCount.Add(1))
		other, err := r.lookup(dir, hidden)
		if err == nil { // of another client, or of our own life before
			r.fs.table.forget(other.id, 1)
			continue
		}
		if isStatus(err, nfs3.ErrNoEnt) {
			err = r.rename(dir, name, dir, hidden)
		}
		if err != nil {
			return nil, place{}, err
		}
		return n, place{dir, hidden}, nil
	}
	return nil, place{}, errHidden
}

// keepHidden has a hidden name removed at the last close, which may have been already.
func (r *request) keepHidden(n *node, p place) {
	p.dir.hides.Add(1)
	r.fs.counts.silly.Add(1)
	if !r.fs.table.hideOpen(n) {
		r.removeHidden(n, p)
	}
}

// showAgain gives a file its name back, after what should have replaced it has failed. A name
// that somebody has given to another file meanwhile stays that file's.
func (r *request) showAgain(n *node, p place, name string) {
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
		r.fs.say("%s, which could not be replaced, is called %s now: %v", name, p.name, err)
	}
}

const hiddenPrefix = ".nfs"

// isHidden reports whether a name is one that hide gives.
func isHidden(name string) bool {
	return len(name) == len(hiddenPrefix)+24 && name[:len(hiddenPrefix)] == hiddenPrefix
}

// errHidden is a directory that is full of hidden names.
var errHidden = errors.New("no hidden name is free for a file that is removed while open")

// dirAt is the directory that has the name, nil where it is not known.
func (t *table) dirAt(parent *node, name string) *node {
	t.mu.Lock()
	defer t.mu.Unlock()
	return parent.children[name].n
}

// closingIn reports whether a directory holds hidden names of ours that are about to go: each
// handle on the files has seen a close, and no use since.
func (f *fileSystem) closingIn(dir *node) bool {
	if dir.hides.Load() <= 0 {
		return false
	}
	hidden := f.table.hiddenIn(dir)
	if len(hidden) == 0 {
		return false // they went by another client's hand
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

// hiddenIn is the files with hidden names in a directory.
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

// removeHidden removes the hidden name of a file without opens that is removing. Its
// content need not be written.
func (r *request) removeHidden(n *node, p place) {
	defer func() {
		r.fs.table.endRemoval(n)
		p.dir.unhid.Add(1)
		p.dir.hides.Add(-1)
	}()
	if d := n.file(); d != nil {
		d.Discard()
	}
	if err := r.remove(nfs3.ProcRemove, p.dir, p.name); err != nil && !isStatus(err, nfs3.ErrNoEnt) {
		r.fs.say("cannot remove %s, the hidden name of a file that was removed while open: %v", p.name, err)
	}
}
