// Linked lists: which become slices.

package check

// lists turns optional structs into lists. A struct is a list's node if its last field alone leads
// to the next node, and if it stands nowhere without a pointer.
func (c *checker) lists() {
	alone := map[*Type]bool{}
	for t := range c.values {
		alone[t.Under()] = true
	}
	nodes := map[*Type]bool{}
	for _, t := range c.all {
		if t.Kind == Struct && !alone[t] && isNode(t) {
			t.Fields = t.Fields[:len(t.Fields)-1]
			nodes[t] = true
		}
	}
	for _, o := range c.uses {
		if u := o.Elem.Under(); nodes[u] {
			o.Kind, o.Elem = List, u
		}
	}
	for _, t := range c.all {
		if t.Kind == Alias && t.Elem.Kind == List {
			t.Kind = Named
		}
	}
}

// isNode reports whether a struct's last field is the only one that leads to the struct.
func isNode(t *Type) bool {
	last := len(t.Fields) - 1
	for i, f := range t.Fields {
		u := f.Type.Under()
		if (u.Kind == Optional && u.Elem.Under() == t) != (i == last) {
			return false
		}
	}
	return last > 0
}
