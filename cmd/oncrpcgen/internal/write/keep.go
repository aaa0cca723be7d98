// keep: a client's results, which outlive their message.

package write

import (
	"strings"

	"github.com/nfsrdma/nfsrdma/cmd/oncrpcgen/internal/check"
)

// keepers returns the types in results that have slices into the message.
func keepers(programs []*check.Program) map[*check.Type]bool {
	set := map[*check.Type]bool{}
	var add func(t *check.Type)
	add = func(t *check.Type) {
		if t.Owns() {
			return
		}
		u := t.Under()
		if u.Name != "" {
			if set[u] {
				return
			}
			set[u] = true
		}
		if u.Elem != nil {
			add(u.Elem)
		}
		for _, f := range u.Fields {
			add(f.Type)
		}
	}
	for _, p := range programs {
		for _, q := range p.Procs {
			if q.Res != nil {
				add(q.Res)
			}
		}
	}
	return set
}

func (w *writer) keepField(f *check.Field) {
	if f.Type.Owns() {
		return
	}
	x := "v." + f.Name
	if f.Boxed {
		w.p("if %s != nil {\n%s.keep(d)\n}", x, x)
		return
	}
	w.keep(f.Type, x, 0)
}

// keep writes the steps that copy the slices in x.
func (w *writer) keep(t *check.Type, x string, depth int) {
	if t.Owns() {
		return
	}
	switch t = t.Under(); t.Kind {
	case check.Opaque:
		if t.Item {
			w.p("if d.ItemKept() {\n%s = bytes.Clone(%s)\n}", unparen(x), unparen(x))
		} else {
			w.p("%s = bytes.Clone(%s)", unparen(x), unparen(x))
		}
	case check.Optional:
		w.p("if %s != nil {", x)
		w.keep(t.Elem, deref(t.Elem, x), depth)
		w.p("}")
	case check.Array, check.Slice, check.List:
		i := index(depth)
		w.p("for %s := range %s {", i, unparen(x))
		w.keep(t.Elem, x+"["+i+"]", depth+1)
		w.p("}")
	default:
		w.p("%s.keep(d)", x)
	}
}

// unparen takes the brackets from (*x).
func unparen(x string) string {
	if strings.HasPrefix(x, "(*") && strings.IndexByte(x, ')') == len(x)-1 {
		return x[1 : len(x)-1]
	}
	return x
}
