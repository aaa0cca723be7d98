// Values with one size: read and written in one step.

package write

import (
	"fmt"
	"iter"

	"github.com/nfsrdma/nfsrdma/cmd/oncrpcgen/internal/check"
)

// static writes the methods for a struct, or an array with a name, that always has one size.
func (w *writer) static(t *check.Type) {
	n := t.Min
	w.p("\n// EncodeXDR appends the value.")
	w.p("func (v *%s) EncodeXDR(e *xdr.Encoder) { v.put((*[%d]byte)(e.Space(%d))) }\n", t.Name, n, n)
	w.p("// put writes the value.\nfunc (v *%s) put(b *[%d]byte) {", t.Name, n)
	w.eachPart(t, func(u *check.Type, x string, at uint64) { w.put(u, x, fmt.Sprint(at), 0) })
	w.p("}\n\n// DecodeXDR reads a value.\nfunc (v *%s) DecodeXDR(d *xdr.Decoder) {", t.Name)
	if t.Checked {
		w.p("if b := d.Fixed(%d); b != nil && !v.get((*[%d]byte)(b)) {\nd.Fail(xdr.ErrValue)\n}\n}", n, n)
		w.p("\n// get reads the value, and reports whether it is valid.\nfunc (v *%s) get(b *[%d]byte) bool {", t.Name, n)
		w.eachPart(t, func(u *check.Type, x string, at uint64) { w.get(u, x, fmt.Sprint(at), 0, "return false") })
		w.p("return true\n}")
		return
	}
	w.p("if b := d.Fixed(%d); b != nil {\nv.get((*[%d]byte)(b))\n}\n}", n, n)
	w.p("\n// get reads the value.\nfunc (v *%s) get(b *[%d]byte) {", t.Name, n)
	w.eachPart(t, func(u *check.Type, x string, at uint64) { w.get(u, x, fmt.Sprint(at), 0, "") })
	w.p("}")
}

// eachPart calls f with each part and its offset.
func (w *writer) eachPart(t *check.Type, f func(u *check.Type, x string, at uint64)) {
	if t.Kind == check.Named {
		f(t.Elem, "v", 0)
		return
	}
	at := uint64(0)
	for _, p := range t.Fields {
		f(p.Type, "v."+p.Name, at)
		at += p.Type.Under().Min
	}
}

// put writes the steps that write x at an offset in b.
func (w *writer) put(t *check.Type, x, at string, depth int) {
	switch t = t.Under(); t.Kind {
	case check.Uint:
		w.p("binary.BigEndian.PutUint32(b[%s:], %s)", at, x)
	case check.Int, check.Enum:
		w.p("binary.BigEndian.PutUint32(b[%s:], uint32(%s))", at, x)
	case check.Uhyper:
		w.p("binary.BigEndian.PutUint64(b[%s:], %s)", at, x)
	case check.Hyper:
		w.p("binary.BigEndian.PutUint64(b[%s:], uint64(%s))", at, x)
	case check.Float:
		w.p("binary.BigEndian.PutUint32(b[%s:], math.Float32bits(%s))", at, x)
	case check.Double:
		w.p("binary.BigEndian.PutUint64(b[%s:], math.Float64bits(%s))", at, x)
	case check.Fixed:
		w.p("copy(b[%s:], %s[:])", at, x)
	case check.Array:
		i := index(depth)
		w.p("for %s := range %s {", i, x)
		w.put(t.Elem, x+"["+i+"]", fmt.Sprintf("%s+%d*%s", at, t.Elem.Under().Min, i), depth+1)
		w.p("}")
	default:
		w.p("%s.put((*[%d]byte)(b[%s:]))", x, t.Min, at)
	}
}

// get writes the steps that read x at an offset in b; invalid is the step for an invalid value.
func (w *writer) get(t *check.Type, x, at string, depth int, invalid string) {
	switch t = t.Under(); t.Kind {
	case check.Uint:
		w.p("%s = binary.BigEndian.Uint32(b[%s:])", x, at)
	case check.Int:
		w.p("%s = int32(binary.BigEndian.Uint32(b[%s:]))", x, at)
	case check.Enum:
		w.p("if %s = %s(binary.BigEndian.Uint32(b[%s:])); !%s.valid() {\n%s\n}", x, goType(t), at, x, invalid)
	case check.Uhyper:
		w.p("%s = binary.BigEndian.Uint64(b[%s:])", x, at)
	case check.Hyper:
		w.p("%s = int64(binary.BigEndian.Uint64(b[%s:]))", x, at)
	case check.Float:
		w.p("%s = math.Float32frombits(binary.BigEndian.Uint32(b[%s:]))", x, at)
	case check.Double:
		w.p("%s = math.Float64frombits(binary.BigEndian.Uint64(b[%s:]))", x, at)
	case check.Fixed:
		w.p("copy(%s[:], b[%s:])", x, at)
	case check.Array:
		i := index(depth)
		w.p("for %s := range %s {", i, x)
		w.get(t.Elem, x+"["+i+"]", fmt.Sprintf("%s+%d*%s", at, t.Elem.Under().Min, i), depth+1, invalid)
		w.p("}")
	default:
		if t.Checked {
			w.p("if !%s.get((*[%d]byte)(b[%s:])) {\n%s\n}", x, t.Min, at, invalid)
		} else {
			w.p("%s.get((*[%d]byte)(b[%s:]))", x, t.Min, at)
		}
	}
}

// runs splits fields into runs that are read and written in one step, and single fields.
func runs(fields []*check.Field) iter.Seq[[]*check.Field] {
	return func(yield func([]*check.Field) bool) {
		for len(fields) > 0 {
			n := 0
			for n < len(fields) && fields[n].Type.Under().Static && n < 64 {
				n++
			}
			n = max(n, 1)
			if !yield(fields[:n]) {
				return
			}
			fields = fields[n:]
		}
	}
}

func runSize(run []*check.Field) (n uint64) {
	for _, f := range run {
		n += f.Type.Under().Min
	}
	return n
}

// encodeRun writes several fields in one step; apart: in a block, because there are other runs.
func (w *writer) encodeRun(run []*check.Field, apart bool) {
	if apart {
		w.p("{")
		defer w.p("}")
	}
	w.p("b := (*[%d]byte)(e.Space(%d))", runSize(run), runSize(run))
	at := uint64(0)
	for _, f := range run {
		w.put(f.Type, "v."+f.Name, fmt.Sprint(at), 0)
		at += f.Type.Under().Min
	}
}

// decodeRun reads several fields in one step.
func (w *writer) decodeRun(run []*check.Field) {
	w.p("if b := d.Fixed(%d); b != nil {", runSize(run))
	at := uint64(0)
	for _, f := range run {
		w.get(f.Type, "v."+f.Name, fmt.Sprint(at), 0, "d.Fail(xdr.ErrValue)")
		at += f.Type.Under().Min
	}
	w.p("}")
}
