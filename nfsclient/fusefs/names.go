// The names of a directory as far as they are known: those of nodes, and those that nothing has.

package fusefs

import "slices"

// bind gives n, or nothing (nil), the name in dir. The caller holds mu.
func (t *table) bind(dir *node, name string, n *node, content uint64) {
	if n == nil {
		t.vanished(dir, name)
	} else {
		t.exists(dir, name)
	}
	if old, ok := dir.children[name]; ok && old.n == n {
		dir.children[name] = child{n, content}
		return
	}
	t.unbind(dir, name)
	if n == nil && dir.absent >= maxAbsent {
		t.dropAbsent(dir)
	}
	if dir.children == nil {
		dir.children = make(map[string]child)
	}
	dir.children[name] = child{n, content}
	if n == nil {
		dir.absent++
		return
	}
	n.places = append(n.places, place{dir, name})
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

// dropAbsent forgets which names of dir nothing has. The caller holds mu.
func (t *table) dropAbsent(dir *node) {
	for name, c := range dir.children {
		if c.n == nil {
			delete(dir.children, name)
		}
	}
	dir.absent = 0
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

// missing notes that nothing has the name.
func (t *table) missing(dir *node, name string, content uint64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.bind(dir, name, nil, content)
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
	}
}

// namesOf lists the names of dir that the kernel may know.
func (t *table) namesOf(dir *node) []string {
	t.mu.Lock()
	defer t.mu.Unlock()
	names := make([]string, 0, len(dir.children))
	for name := range dir.children {
		names = append(names, name)
	}
	return names
}
