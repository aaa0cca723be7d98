// Directories: names by hash, and in creation order, which is cookie order.

package memfs

import (
	"slices"
	"syscall"

	"github.com/nfsrdma/nfsrdma/nfsserver"
)

// Cookies of "." and ".."; names get the following numbers.
const (
	cookieDot    = 1
	cookieDotDot = 2
)

// A directory has one inode's names. FS.mu guards it.
type directory struct {
	parent *inode
	names  map[string]*entry
	// order is sorted by cookie. A removed name leaves its entry without an inode until half of the
	// entries are such: so other cookies do not change.
	order []*entry
	next  uint64
}

// An entry is a name in a directory.
type entry struct {
	name   string
	cookie uint64
	inode  *inode // nil: removed
}

func newDir(parent *inode) *directory {
	return &directory{parent: parent, names: make(map[string]*entry), next: cookieDotDot + 1}
}

func (d *directory) add(name string, n *inode) {
	e := &entry{name: name, cookie: d.next, inode: n}
	d.next++
	d.names[name] = e
	d.order = append(d.order, e)
}

func (d *directory) remove(name string) {
	d.names[name].inode = nil
	delete(d.names, name)
	if len(d.order) > 2*len(d.names)+16 {
		d.order = slices.DeleteFunc(d.order, func(e *entry) bool { return e.inode == nil })
	}
}

// after returns the entries after a cookie.
func (d *directory) after(cookie uint64) []*entry {
	i, _ := slices.BinarySearchFunc(d.order, cookie, func(e *entry, c uint64) int {
		if e.cookie <= c {
			return -1
		}
		return 1
	})
	return d.order[i:]
}

// dir returns a Ref's directory; FS.mu is held.
func (f *FS) findDir(r *nfsserver.Ref) (*inode, error) {
	n, err := f.find(r)
	if err == nil && n.dir == nil {
		return nil, syscall.ENOTDIR
	}
	return n, err
}

// ReadDir emits the entries in cookie order.
func (f *FS) ReadDir(c nfsserver.Cred, r nfsserver.Ref, cookie uint64, plus bool, emit func(*nfsserver.Dirent) bool) (bool, error) {
	f.mu.RLock()
	defer f.mu.RUnlock()
	n, err := f.findDir(&r)
	if err != nil {
		return false, err
	}
	if err := n.check(&c, nfsserver.MayRead); err != nil {
		return false, err
	}
	plus = plus && n.check(&c, nfsserver.MayExec) == nil
	var de nfsserver.Dirent
	send := func(name string, c uint64, in *inode) bool {
		de.Name, de.Cookie, de.Fileid, de.HasAttr = append(de.Name[:0], name...), c, in.ino, plus
		if plus {
			de.Ref, de.Attr = f.ref(in), in.getattr()
		}
		return emit(&de)
	}
	if cookie < cookieDot && !send(".", cookieDot, n) {
		return false, nil
	}
	if cookie < cookieDotDot && !send("..", cookieDotDot, n.dir.parent) {
		return false, nil
	}
	for _, e := range n.dir.after(cookie) {
		if e.inode != nil && !send(e.name, e.cookie, e.inode) {
			return false, nil
		}
	}
	return true, nil
}

// Lookup finds a name.
func (f *FS) Lookup(c nfsserver.Cred, r nfsserver.Ref, name string) (nfsserver.Ref, nfsserver.Attr, error) {
	f.mu.RLock()
	defer f.mu.RUnlock()
	n, err := f.findDir(&r)
	if err == nil {
		err = n.check(&c, nfsserver.MayExec)
	}
	if err != nil {
		return nfsserver.Ref{}, nfsserver.Attr{}, err
	}
	switch name {
	case ".":
	case "..":
		n = n.dir.parent
	default:
		e := n.dir.names[name]
		if e == nil {
			return nfsserver.Ref{}, nfsserver.Attr{}, syscall.ENOENT
		}
		n = e.inode
	}
	return f.ref(n), n.getattr(), nil
}
