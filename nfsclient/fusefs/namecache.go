// Cached names in directories: nodes' names, and absent names.

package fusefs

import (
	"slices"
	"time"
)

// bind caches n, or an absent name (nil), under the name in dir. The caller holds t.mu.
func (t *table) bind(dir *node, name string, n *node, content uint64) {
	if n == nil {
		t.vanished(dir, name)
	} else {
		t.exists(dir, name)
	}
	old, ok := dir.children[name]
	if ok && old.n == n {
		dir.children[name] = child{n, content, old.shown}
		return
	}
	t.unbind(dir, name)
	if n == nil && dir.absent >= maxAbsent {
		t.dropAbsent(dir)
	}
	if dir.children == nil {
		dir.children = make(map[string]child)
	}
	dir.children[name] = child{n, content, old.shown}
	if n == nil {
		dir.absent++
		return
	}
	n.dirNames = append(n.dirNames, dirName{dir, name})
	n.gone.Store(false)
}

// unbind drops the cached name in dir. The caller holds t.mu.
func (t *table) unbind(dir *node, name string) {
	c, ok := dir.children[name]
	if !ok {
		return
	}
	delete(dir.children, name)
	if c.n == nil {
		dir.absent--
		return
	}
	c.n.dirNames = slices.DeleteFunc(c.n.dirNames, func(p dirName) bool { return p.dir == dir && p.name == name })
}

// dropAbsent drops the absent names of dir. The kernel must forget these names too, because a
// notice after a change of dir no longer includes them. The caller holds t.mu.
func (t *table) dropAbsent(dir *node) {
	names := make([]string, 0, dir.absent)
	for name, c := range dir.children {
		if c.n == nil {
			delete(dir.children, name)
			names = append(names, name)
		}
	}
	dir.absent = 0
	t.forgetAbsent(dir, names)
}

// isAbsent reports whether the name in dir is known to be absent now.
func (t *table) isAbsent(dir *node, name string) bool {
	c, ok := t.child(dir, name)
	return ok && c.n == nil && c.content == dir.version()
}

// child returns the cached entry of a name in dir.
func (t *table) child(dir *node, name string) (child, bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	c, ok := dir.children[name]
	return c, ok
}

// enterKnown is enter for a cached name: it counts a lookup if the name still belongs to n.
func (t *table) enterKnown(dir *node, name string, n *node) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if dir.children[name].n != n {
		return false
	}
	n.lookups++
	return true
}

// removed drops a name after its removal.
func (t *table) removed(dir *node, name string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.unbind(dir, name)
	t.vanished(dir, name)
}

// moved moves the node of one name to the other.
func (t *table) moved(dir *node, name string, to *node, toName string, content uint64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	c, ok := dir.children[name]
	t.unbind(dir, name)
	t.vanished(dir, name)
	t.unbind(to, toName)
	t.exists(to, toName)
	if ok && c.n != nil {
		t.bind(to, toName, c.n, content)
		t.show(to, toName, c.shown)
	}
}

// show notes until when the kernel uses a name, from a reply or from the old name after a move. The
// caller holds t.mu.
func (t *table) show(dir *node, name string, until time.Time) {
	if c, ok := dir.children[name]; ok {
		c.shown = until
		dir.children[name] = c
	}
}

// kernelHas reports whether the kernel has a valid positive entry for the name. If the kernel still
// sends a LOOKUP before it makes or replaces the name (LOOKUP_EXCL, LOOKUP_RENAME_TARGET), the
// server has to answer. If the kernel has dropped only the name, this costs an unnecessary call.
func (t *table) kernelHas(dir *node, name string) bool {
	c, ok := t.child(dir, name)
	return ok && c.n != nil && time.Now().Before(c.shown)
}

// unsure is a content number that no directory has: names cached with it are not trusted.
const unsure = ^uint64(0)

// voidPath voids all names on the paths to n, so that the next walk asks the server for them. If n
// is stale, a directory above may have been replaced although its own directory looks unchanged:
// server clocks are coarse, and attributes are cached. The caller holds t.mu.
func (t *table) voidPath(n *node) {
	seen := map[*node]bool{n: true}
	for ways := []*node{n}; len(ways) > 0; {
		n, ways = ways[len(ways)-1], ways[:len(ways)-1]
		for _, p := range n.dirNames {
			p.dir.children[p.name] = child{n: n, content: unsure}
			t.dropListing(p.dir)
			if !seen[p.dir] {
				seen[p.dir] = true
				ways = append(ways, p.dir)
			}
		}
	}
}

// A childName is an entry's node id and name.
type childName struct {
	id   uint64
	name string
}

// namesOf lists the names of dir for notices: directories, closed files, and all others, including
// absent ones.
func (t *table) namesOf(dir *node) (dirs, closed []childName, others []string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for name, c := range dir.children {
		switch {
		case c.n != nil && c.n.isDir():
			dirs = append(dirs, childName{c.n.id, name})
		case c.n != nil && c.n.opens == 0:
			closed = append(closed, childName{c.n.id, name})
		default:
			others = append(others, name)
		}
	}
	return dirs, closed, others
}
