// Unions within themselves, as in RFC 4506 §4.19: an arm becomes a pointer.

package check

// A values walk follows types that are values in each other.
type values struct {
	state map[*Type]int // 1 on the way, 2 done
	arms  []*Field      // arms on the way; nil for other steps
	way   []*Type
}

// visit marks an arm in each cycle through a union. Cycles without a union stay, to be refused.
func (w *values) visit(t *Type) {
	if w.state[t] == 1 {
		w.cut(t)
	}
	if w.state[t] != 0 {
		return
	}
	w.state[t] = 1
	w.way = append(w.way, t)
	step := func(u *Type, arm *Field) {
		w.arms = append(w.arms, arm)
		w.visit(u)
		w.arms = w.arms[:len(w.arms)-1]
	}
	switch t.Kind {
	case Array, Alias, Named:
		step(t.Elem, nil)
	case Struct, Union:
		for _, f := range t.Fields {
			if arm := f; t.Kind == Union && f.Type.HasMethods() {
				step(f.Type, arm)
			} else {
				step(f.Type, nil)
			}
		}
	}
	w.way = w.way[:len(w.way)-1]
	w.state[t] = 2
}

// cut marks the latest arm between t and the end of the way.
func (w *values) cut(t *Type) {
	for i := len(w.way) - 1; i >= 0; i-- {
		if arm := w.arms[i]; arm != nil {
			arm.cycle = true
			return
		}
		if w.way[i] == t {
			return
		}
	}
}
