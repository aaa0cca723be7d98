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

// openAt is what has the name and is open, nil where there is none or it is a directory:
// those are removed in any case, as by the kernel's client.
func (t *table) openAt(dir *node, name string) *node {
	t.mu.Lock()
	defer t.mu.Unlock()
	if c := dir.children[name]; c.n != nil && c.n.opens > 0 && !c.n.isDir() {
		return c.n
	}
	return nil
}

// hide gives what has the name, and is open, a hidden name in the same directory, and returns
// where; until keepHidden is called no close removes it. The node is nil where none is
// needed: nobody has it open any more, another name keeps the file, or the name is hidden itself.
func (r *request) hide(dir *node, name string) (*node, place, error) {
	n := r.fs.table.openAt(dir, name)
	if n == nil || isHidden(name) {
		return nil, place{}, nil
	}
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
	if !r.fs.table.setHidden(n) {
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

// setHidden marks a node whose only name is a hidden one. It reports false for one that
// nobody has open any more: then nobody else removes the name.
func (t *table) setHidden(n *node) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if n.opens == 0 {
		return false
	}
	n.silly.Store(true)
	return true
}

// removeHidden removes the hidden name of a file that nobody has open any more. Its
// content need not be written.
func (r *request) removeHidden(n *node, p place) {
	defer func() {
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
