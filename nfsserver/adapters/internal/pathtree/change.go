// Changes to a Table: objects found, made, moved and removed.

package pathtree

import "crypto/rand"

// Find returns the identity of name in dir, an object that exists already.
func (t *Table) Find(dir ID, name string) (ID, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	d := t.nodes[dir]
	if d == nil {
		return ID{}, ErrUnknown
	}
	n, err := t.find(d, name)
	if err != nil {
		return ID{}, err
	}
	return n.id, nil
}

// find is Find; t.mu is held.
func (t *Table) find(d *node, name string) (*node, error) {
	if n := d.names[name]; n != nil {
		return n, nil
	}
	if err := t.room(d); err != nil {
		return nil, err
	}
	return t.put(t.derive(d.id, name, d.era), d, name), nil
}

// Add returns the identity of a new object, name in dir. An object known by this name is gone.
func (t *Table) Add(dir ID, name string) (ID, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	d := t.nodes[dir]
	if d == nil {
		return ID{}, ErrUnknown
	}
	if old := d.names[name]; old != nil {
		t.drop(old)
	}
	if err := t.room(d); err != nil {
		return ID{}, err
	}
	var id ID
	rand.Read(id[:])
	return t.put(id, d, name).id, nil
}

// room makes sure that one more object fits, in d; t.mu is held.
func (t *Table) room(d *node) error {
	if len(t.nodes) < t.max {
		return nil
	}
	if !t.fixed {
		return ErrFull
	}
	t.forget(d)
	return nil
}

// forget removes a quarter from memory, but neither d nor directories with known
// objects in them. Forgotten objects stay valid: Rediscover finds them. t.mu is held.
func (t *Table) forget(d *node) {
	for id, n := range t.nodes {
		if len(t.nodes) <= t.max*3/4 {
			return
		}
		if len(n.names) == 0 && n.parent != nil && n != d {
			n.detach()
			delete(t.nodes, id)
		}
	}
}

// put makes an object known; t.mu is held.
func (t *Table) put(id ID, d *node, name string) *node {
	n := &node{id: id}
	t.nodes[id] = n
	n.attach(d, name)
	t.record(appendNode(nil, n))
	return n
}

func (n *node) attach(d *node, name string) {
	if d.names == nil {
		d.names = make(map[string]*node)
	}
	n.parent, n.name = d, name
	d.names[name] = n
}

func (n *node) detach() {
	delete(n.parent.names, n.name)
	if len(n.parent.names) == 0 {
		n.parent.names = nil // a map keeps the room that it once needed
	}
}

// Move gives an object another name or directory. An object known by the new name is gone.
func (t *Table) Move(from ID, fromName string, to ID, toName string) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	src, dst := t.nodes[from], t.nodes[to]
	if src == nil || dst == nil {
		return ErrUnknown
	}
	n, old := src.names[fromName], dst.names[toName]
	if n != nil && (dst.inside(n) || old != nil && n.parent.inside(old)) {
		return ErrUnknown
	}
	if old != nil && old != n {
		t.drop(old)
	}
	if n == nil || n == old {
		return nil // an unknown object gets its identity when a client finds it
	}
	n.detach()
	t.left(src)
	n.attach(dst, toName)
	t.record(appendNode(nil, n))
	return nil
}

// left begins another era in a directory, because an object left it; t.mu is held.
func (t *Table) left(d *node) {
	if t.fixed {
		return
	}
	d.era++
	t.record(appendEra(nil, d))
}

// Drop removes an object and all that is below it. The root stays.
func (t *Table) Drop(id ID) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if n := t.nodes[id]; n != nil && n.parent != nil {
		t.drop(n)
	}
}

// DropName is Drop of name in dir.
func (t *Table) DropName(dir ID, name string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	d := t.nodes[dir]
	if d == nil {
		return
	}
	if n := d.names[name]; n != nil {
		t.drop(n)
	}
}

// drop is Drop; t.mu is held.
func (t *Table) drop(n *node) {
	n.detach()
	t.record(appendDrop(nil, n))
	t.left(n.parent)
	t.unmap(n)
}

func (t *Table) unmap(n *node) {
	delete(t.nodes, n.id)
	for _, m := range n.names {
		t.unmap(m)
	}
}

// Prune removes the known objects in dir whose names are not listed: others have removed these.
func (t *Table) Prune(dir ID, listed func(name string) bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	d := t.nodes[dir]
	if d == nil {
		return
	}
	for name, n := range d.names {
		if !listed(name) {
			t.drop(n)
		}
	}
}
