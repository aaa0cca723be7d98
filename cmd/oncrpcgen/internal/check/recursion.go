// Recursion: types that contain themselves through pointers and lists, and slices into the message.

package check

import "strconv"

func literalOf(n uint64) string { return strconv.FormatUint(n, 10) }

// A tarjan finds the strongly connected groups, in Tarjan's way.
type tarjan struct {
	index, low map[*Type]int
	stack      []*Type
	on         map[*Type]bool
	groups     int
}

// recursion sets Deep and group.
func (c *checker) recursion() {
	g := &tarjan{index: map[*Type]int{}, low: map[*Type]int{}, on: map[*Type]bool{}}
	for _, t := range c.all {
		if g.index[t] == 0 {
			g.visit(t)
		}
	}
}

// inner returns the types with methods that t's methods call.
func (t *Type) inner() (list []*Type) {
	add := func(u *Type) {
		for {
			u = u.Under()
			if u.Name != "" || u.Elem == nil {
				break
			}
			u = u.Elem
		}
		if u.Name != "" {
			list = append(list, u)
		}
	}
	if t.Elem != nil {
		add(t.Elem)
	}
	for _, f := range t.Fields {
		add(f.Type)
	}
	return list
}

func (g *tarjan) visit(t *Type) {
	g.index[t] = len(g.index) + 1
	g.low[t] = g.index[t]
	g.stack = append(g.stack, t)
	g.on[t] = true
	for _, u := range t.inner() {
		if g.index[u] == 0 {
			g.visit(u)
			g.low[t] = min(g.low[t], g.low[u])
		} else if g.on[u] {
			g.low[t] = min(g.low[t], g.index[u])
		}
		t.Deep = t.Deep || u == t
	}
	if g.low[t] != g.index[t] {
		return
	}
	g.groups++
	first := len(g.stack) - 1
	for g.stack[first] != t {
		first--
	}
	for _, u := range g.stack[first:] {
		u.group = g.groups
		u.Deep = u.Deep || len(g.stack)-first > 1
		g.on[u] = false
	}
	g.stack = g.stack[:first]
}

func (t *Type) isBytes() bool { return t.Kind == Opaque }
func (t *Type) isItem() bool  { return t.Kind == Opaque && t.Item }

// within reports whether is holds for t, or for a type within it. set has the named types for which
// this is so.
func (t *Type) within(set map[*Type]bool, is func(*Type) bool) (found bool) {
	if t = t.Under(); t.Name != "" {
		return set[t]
	}
	t.each(func(u *Type) { found = found || is(u) })
	for _, u := range t.inner() {
		found = found || set[u]
	}
	return found
}

// spread returns the types for which is holds, or holds for a type within them.
func (c *checker) spread(is func(*Type) bool) map[*Type]bool {
	users := map[*Type][]*Type{}
	set := map[*Type]bool{}
	var todo []*Type
	for _, t := range c.all {
		for _, u := range t.inner() {
			users[u] = append(users[u], t)
		}
		t.each(func(u *Type) { set[t] = set[t] || is(u) })
		if set[t] {
			todo = append(todo, t)
		}
	}
	for len(todo) > 0 {
		t := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		for _, u := range users[t] {
			if !set[u] {
				set[u] = true
				todo = append(todo, u)
			}
		}
	}
	return set
}

// Owns reports whether a value, with all that it contains, has no slices into the message.
func (t *Type) Owns() bool {
	for {
		t = t.Under()
		if t.Name != "" || t.Elem == nil {
			break
		}
		t = t.Elem
	}
	if t.Name != "" {
		return !t.Borrows
	}
	return t.Kind != Opaque
}
