// The names of a directory as far as they are known: those of nodes, and those that nothing has.

package fusefs

import (
	"slices"
	"time"
)

// bind gives n, or nothing (nil), the name in dir. The caller holds mu.
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
	n.places = append(n.places, place{dir, name})
	n.gone.Store(false)
}

// unbind forgets what has the name in dir. The caller holds mu.
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
	c.n.places = slices.DeleteFunc(c.n.places, func(p place) bool { return p.dir == dir && p.name == name })
}

// dropAbsent forgets which names of dir nothing has, and has the kernel forget them, since a notice
// after a change of dir does not reach them any more. The caller holds mu.
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

// isAbsent reports whether nothing has the name in dir as that is known now.
func (t *table) isAbsent(dir *node, name string) bool {
	c, ok := t.child(dir, name)
	return ok && c.n == nil && c.content == dir.version()
}

// child is what is known of a name in dir.
func (t *table) child(dir *node, name string) (child, bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	c, ok := dir.children[name]
	return c, ok
}

// again is enter for a name that is known: it counts a lookup if the name still is n's.
func (t *table) again(dir *node, name string, n *node) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if dir.children[name].n != n {
		return false
	}
	n.lookups++
	return true
}

// removed forgets a name that is removed.
func (t *table) removed(dir *node, name string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.unbind(dir, name)
	t.vanished(dir, name)
}

// moved has what had the one name have the other.
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

// show notes until when the kernel believes a name, from a reply or from another name that it has
// moved. The caller holds mu.
func (t *table) show(dir *node, name string, until time.Time) {
	if c, ok := dir.children[name]; ok {
		c.shown = until
		dir.children[name] = c
	}
}

// believed reports whether the kernel believes that something has the name. It asks nevertheless
// before it makes that name or replaces it (LOOKUP_EXCL, LOOKUP_RENAME_TARGET): then the server is
// to say what has the name. Where the kernel has dropped the name of a file that it keeps, this
// costs a call that need not be.
func (t *table) believed(dir *node, name string) bool {
	c, ok := t.child(dir, name)
	return ok && c.n != nil && time.Now().Before(c.shown)
}

// unsure is the content of a directory of which no name that was looked up is believed.
const unsure = ^uint64(0)

// doubtPath has the server asked for all names on the ways to n, at the next walk along them. That
// n is stale may come of a directory above that is another one now, though its own directory does
// not look changed: times of a server tick slowly, and attributes are trusted. The caller holds mu.
func (t *table) doubtPath(n *node) {
	seen := map[*node]bool{n: true}
	for ways := []*node{n}; len(ways) > 0; {
		n, ways = ways[len(ways)-1], ways[:len(ways)-1]
		for _, p := range n.places {
			p.dir.children[p.name] = child{n: n, content: unsure}
			t.doubt(p.dir)
			if !seen[p.dir] {
				seen[p.dir] = true
				ways = append(ways, p.dir)
			}
		}
	}
}

// A named is what a directory has under a name.
type named struct {
	id   uint64
	name string
}

// namesOf lists the names of dir that the kernel may know: those of directories, those of files
// that are not open, and all others, of which some are of nothing.
func (t *table) namesOf(dir *node) (dirs, closed []named, others []string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for name, c := range dir.children {
		switch {
		case c.n != nil && c.n.isDir():
			dirs = append(dirs, named{c.n.id, name})
		case c.n != nil && c.n.opens == 0:
			closed = append(closed, named{c.n.id, name})
		default:
			others = append(others, name)
		}
	}
	return dirs, closed, others
}
