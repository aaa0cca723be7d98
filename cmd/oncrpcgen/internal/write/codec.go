// EncodeXDR, DecodeXDR and keep: a type's methods, and the steps in them.

package write

import (
	"fmt"
	"strings"

	"github.com/nfsrdma/nfsrdma/cmd/oncrpcgen/internal/check"
)

// maxDepth bounds the values within each other in a recursive type.
const maxDepth = 100

// codec writes the methods for a struct, a union or a name for a list.
func (w *writer) codec(t *check.Type) {
	if t.Static {
		w.static(t)
	} else {
		w.p("\n// EncodeXDR appends the value.\nfunc (v *%s) EncodeXDR(e *xdr.Encoder) {", t.Name)
		w.encodeBody(t)
		w.p("}\n")
		w.decoder(t)
		w.decodeBody(t)
		w.p("}")
	}
	if w.kept[t] {
		w.p("\n// keep copies the slices of the message in a decoded value.\nfunc (v *%s) keep(d *xdr.Decoder) {", t.Name)
		if t.Kind == check.Named {
			w.keep(t.Elem, "(*v)", 0)
		}
		for _, f := range t.Fields {
			w.keepField(f)
		}
		w.p("}")
	}
}

// decoder writes the head: DecodeXDR, and for a recursive type decode.
func (w *writer) decoder(t *check.Type) {
	if !t.Deep {
		w.p("// DecodeXDR reads a value.\nfunc (v *%s) DecodeXDR(d *xdr.Decoder) {", t.Name)
		return
	}
	w.p("// DecodeXDR reads a value. More than %d values within each other fail with xdr.ErrLimit.", maxDepth)
	w.p("func (v *%s) DecodeXDR(d *xdr.Decoder) { v.decode(d, %d) }\n", t.Name, maxDepth)
	w.p("func (v *%s) decode(d *xdr.Decoder, depth int) {\nif depth == 0 {\nd.Fail(xdr.ErrLimit)\nreturn\n}", t.Name)
}

func (w *writer) encodeBody(t *check.Type) {
	switch t.Kind {
	case check.Named:
		w.encode(t.Elem, self(t), 0)
	case check.Struct:
		several := 0
		for run := range runs(t.Fields) {
			several += min(len(run)-1, 1)
		}
		for run := range runs(t.Fields) {
			if len(run) > 1 {
				w.encodeRun(run, several > 1)
			} else {
				w.encode(run[0].Type, "v."+run[0].Name, 0)
			}
		}
	case check.Union:
		w.encode(t.Switch.Type, "v."+t.Switch.Name, 0)
		w.arms(t, func(f *check.Field) { w.encodeArm(f) }, "")
	}
}

// self writes the value at a method's receiver. A pointer to an array needs no *.
func self(t *check.Type) string {
	if k := t.Elem.Kind; k == check.Fixed || k == check.Array {
		return "v"
	}
	return "(*v)"
}

func (w *writer) encodeArm(f *check.Field) {
	if f == nil {
		return
	}
	if f.Boxed {
		w.p("cmp.Or(v.%s, new(%s)).EncodeXDR(e)", f.Name, goType(f.Type))
	} else {
		w.encode(f.Type, "v."+f.Name, 0)
	}
}

// arms writes the switch in a union; other is the code for values without an arm.
func (w *writer) arms(t *check.Type, arm func(*check.Field), other string) {
	if t.Switch.Type.Under().Kind == check.Bool {
		w.boolArms(t, arm, other)
		return
	}
	w.p("switch v.%s {", t.Switch.Name)
	for _, c := range t.Cases {
		w.p("case %s:", strings.Join(c.Values, ", "))
		arm(c.Arm)
	}
	switch {
	case t.Default != nil:
		at := w.out.Len()
		w.p("default:")
		body := w.out.Len()
		if arm(t.Default.Arm); w.out.Len() == body {
			w.out.Truncate(at)
		}
	case other != "":
		w.p("default:\n%s", strings.TrimSpace(other))
	}
	w.p("}")
}

// boolArms writes the if in a union that switches on a bool.
func (w *writer) boolArms(t *check.Type, arm func(*check.Field), other string) {
	do := map[string]func(){}
	for _, value := range []string{"true", "false"} {
		if t.Default != nil {
			do[value] = func() { arm(t.Default.Arm) }
		} else {
			do[value] = func() { w.out.WriteString(other) }
		}
		for _, c := range t.Cases {
			for _, v := range c.Values {
				if v == value {
					do[value] = func() { arm(c.Arm) }
				}
			}
		}
	}
	start := w.out.Len()
	w.p("if v.%s {", t.Switch.Name)
	body := w.out.Len()
	if do["true"](); w.out.Len() == body {
		w.out.Truncate(start)
		w.p("if !v.%s {", t.Switch.Name)
		do["false"]()
		w.p("}")
		return
	}
	end := w.out.Len()
	w.p("} else {")
	body = w.out.Len()
	if do["false"](); w.out.Len() == body {
		w.out.Truncate(end)
	}
	w.p("}")
}

func (w *writer) decodeBody(t *check.Type) {
	switch t.Kind {
	case check.Named:
		w.decode(t, t.Elem, unparen(self(t)), 0)
	case check.Struct:
		for run := range runs(t.Fields) {
			if len(run) > 1 {
				w.decodeRun(run)
			} else {
				w.decode(t, run[0].Type, "v."+run[0].Name, 0)
			}
		}
	case check.Union:
		w.decodeUnion(t)
	}
}

// decodeUnion reads a union. An arm that is not selected is zero. A default takes any value.
func (w *writer) decodeUnion(t *check.Type) {
	on := t.Switch.Type
	if on.Under().Kind == check.Enum && t.Default != nil {
		w.p("v.%s = %s(d.Int32())", t.Switch.Name, goType(on))
	} else {
		w.decode(t, on, "v."+t.Switch.Name, 0)
	}
	few := len(t.Fields) <= 3
	if !few {
		w.p("*v = %s{%s: v.%s}", t.Name, t.Switch.Name, t.Switch.Name)
	}
	w.arms(t, func(f *check.Field) {
		switch {
		case f == nil:
		case f.Boxed:
			w.p("v.%s = new(%s)", f.Name, goType(f.Type))
			w.decode(t, f.Type, "v."+f.Name, 0)
		default:
			w.decode(t, f.Type, "v."+f.Name, 0)
		}
		for _, o := range t.Fields {
			if o == f || !few {
				continue
			}
			if o.Boxed {
				w.p("v.%s = nil", o.Name)
			} else {
				w.p("v.%s = %s", o.Name, zero(o.Type))
			}
		}
	}, "d.Fail(xdr.ErrValue)\n")
}

// index returns a loop's variable.
func index(depth int) string { return string(rune('i' + depth)) }

// encode writes the steps that append x.
func (w *writer) encode(t *check.Type, x string, depth int) {
	switch t = t.Under(); t.Kind {
	case check.Int:
		w.p("e.Int32(%s)", unparen(x))
	case check.Uint:
		w.p("e.Uint32(%s)", unparen(x))
	case check.Hyper:
		w.p("e.Int64(%s)", unparen(x))
	case check.Uhyper:
		w.p("e.Uint64(%s)", unparen(x))
	case check.Float:
		w.p("e.Uint32(math.Float32bits(%s))", unparen(x))
	case check.Double:
		w.p("e.Uint64(math.Float64bits(%s))", unparen(x))
	case check.Bool:
		w.p("e.Bool(%s)", unparen(x))
	case check.Enum:
		w.p("e.Int32(int32(%s))", unparen(x))
	case check.Fixed:
		w.p("e.Fixed(%s[:])", x)
	case check.Opaque:
		if t.Item {
			w.p("e.Item(%s)", unparen(x))
		} else {
			w.p("e.Opaque(%s)", unparen(x))
		}
	case check.String:
		w.p("e.String(%s)", unparen(x))
	case check.Optional:
		w.p("e.Bool(%s != nil)\nif %s != nil {", x, x)
		w.encode(t.Elem, deref(t.Elem, x), depth)
		w.p("}")
	case check.Array, check.Slice, check.List:
		w.encodeElements(t, x, depth)
	default:
		w.p("%s.EncodeXDR(e)", x)
	}
}

// deref writes the value at a pointer; methods need no *.
func deref(elem *check.Type, x string) string {
	if elem.HasMethods() && elem.Under().Kind != check.Enum {
		return x
	}
	return "(*" + x + ")"
}

func (w *writer) encodeElements(t *check.Type, x string, depth int) {
	i := index(depth)
	if t.Kind == check.Slice {
		w.p("e.Uint32(uint32(len(%s)))", unparen(x))
	}
	w.p("for %s := range %s {", i, unparen(x))
	if t.Kind == check.List {
		w.p("e.Bool(true)")
	}
	w.encode(t.Elem, x+"["+i+"]", depth+1)
	w.p("}")
	if t.Kind == check.List {
		w.p("e.Bool(false)")
	}
}

// decode writes the steps that read x, within owner's method.
func (w *writer) decode(owner, t *check.Type, x string, depth int) {
	switch t = t.Under(); t.Kind {
	case check.Int:
		w.p("%s = d.Int32()", x)
	case check.Uint:
		w.p("%s = d.Uint32()", x)
	case check.Hyper:
		w.p("%s = d.Int64()", x)
	case check.Uhyper:
		w.p("%s = d.Uint64()", x)
	case check.Float:
		w.p("%s = math.Float32frombits(d.Uint32())", x)
	case check.Double:
		w.p("%s = math.Float64frombits(d.Uint64())", x)
	case check.Bool:
		w.p("%s = d.Bool()", x)
	case check.Fixed:
		w.p("copy(%s[:], d.Fixed(%s))", paren(x), t.Limit)
	case check.Opaque:
		if t.Item {
			w.p("%s = d.Item(%s)", x, t.Limit)
		} else {
			w.p("%s = d.Opaque(%s)", x, t.Limit)
		}
	case check.String:
		w.p("%s = d.String(%s)", x, t.Limit)
	case check.Optional:
		w.p("%s = nil\nif d.Bool() {\n%s = new(%s)", x, x, goType(t.Elem))
		if t.Elem.HasMethods() {
			w.decode(owner, t.Elem, paren(x), depth)
		} else {
			w.decode(owner, t.Elem, "*"+x, depth)
		}
		w.p("}")
	case check.Array, check.Slice, check.List:
		w.decodeElements(owner, t, x, depth)
	default:
		if owner != nil && owner.SameGroup(t) {
			w.p("%s.decode(d, depth-1)", x)
		} else {
			w.p("%s.DecodeXDR(d)", x)
		}
	}
}

// paren puts brackets around a *.
func paren(x string) string {
	if strings.HasPrefix(x, "*") {
		return "(" + x + ")"
	}
	return x
}

func (w *writer) decodeElements(owner, t *check.Type, x string, depth int) {
	i := index(depth)
	if t.Kind == check.List {
		w.p("%s = %s[:0]", x, paren(x))
		w.p("for start := d.Offset(); d.Bool(); {\n%s = append(%s, %s{})", x, x, goType(t.Elem))
		w.decode(owner, t.Elem, fmt.Sprintf("%s[len(%s)-1]", paren(x), x), depth+1)
		w.p("d.CheckLimit(d.Offset()-start, %d)\n}", w.opts.Max)
		return
	}
	if t.Kind == check.Slice {
		w.p("%s = xdr.Resize(%s, d.Length(%s, %d))", x, x, t.Limit, t.Elem.Under().Min)
	}
	over := x
	if t.Kind == check.Slice {
		over = paren(x)
	}
	w.p("for %s := range %s {", i, strings.Trim(over, "()"))
	w.decode(owner, t.Elem, paren(x)+"["+i+"]", depth+1)
	w.p("}")
}
