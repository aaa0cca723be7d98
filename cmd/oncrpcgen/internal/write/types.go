// Definitions: constants, enums, structs, unions and other names.

package write

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/nfsrdma/nfsrdma/cmd/oncrpcgen/internal/check"
)

func (w *writer) constants(list []check.Const) {
	if len(list) == 0 {
		return
	}
	w.p("\n// Constants.\nconst (")
	for _, c := range list {
		w.above(c.Note)
		w.raw(c.Name + " = " + c.Lit + beside(c.Note))
	}
	w.p(")")
}

// goType writes a type.
func goType(t *check.Type) string {
	if t.Name != "" {
		return t.Name
	}
	switch t.Kind {
	case check.Int:
		return "int32"
	case check.Uint:
		return "uint32"
	case check.Hyper:
		return "int64"
	case check.Uhyper:
		return "uint64"
	case check.Float:
		return "float32"
	case check.Double:
		return "float64"
	case check.Bool:
		return "bool"
	case check.Fixed:
		return "[" + t.Limit + "]byte"
	case check.Opaque:
		return "[]byte"
	case check.String:
		return "string"
	case check.Array:
		return "[" + t.Limit + "]" + goType(t.Elem)
	case check.Optional:
		return "*" + goType(t.Elem)
	}
	return "[]" + goType(t.Elem) // a slice or a list
}

// fieldType writes a field's type.
func fieldType(f *check.Field) string {
	if f.Boxed {
		return "*" + goType(f.Type)
	}
	return goType(f.Type)
}

// zero writes a type's zero value.
func zero(t *check.Type) string {
	switch u := t.Under(); u.Kind {
	case check.Bool:
		return "false"
	case check.String:
		return `""`
	case check.Fixed, check.Array, check.Struct, check.Union:
		return goType(t) + "{}"
	case check.Opaque, check.Slice, check.List, check.Optional:
		return "nil"
	case check.Named:
		if u.Elem.Kind == check.Fixed || u.Elem.Kind == check.Array {
			return goType(t) + "{}"
		}
		return "nil"
	}
	return "0"
}

// article puts "A" or "An" before a name.
func article(name string) string {
	if strings.ContainsAny(name[:1], "AEIOUaeiou") {
		return "An " + name
	}
	return "A " + name
}

// definition writes a type with its methods.
func (w *writer) definition(t *check.Type) {
	w.p("")
	switch t.Kind {
	case check.Alias:
		w.doc(t.Name+" is "+t.X+".", t.Note)
		w.p("type %s = %s", t.Name, goType(t.Elem))
		return
	case check.Enum:
		w.doc(article(t.Name)+" is "+t.X+".", t.Note)
		w.p("type %s int32", t.Name)
		w.enum(t)
		return
	case check.Named:
		w.doc(article(t.Name)+" is "+t.X+limitText(t.Elem)+".", t.Note)
		w.p("type %s %s", t.Name, goType(t.Elem))
	case check.Struct:
		w.doc(article(t.Name)+" is "+t.X+sizeText(t)+".", t.Note)
		w.p("type %s struct {", t.Name)
		for _, f := range t.Fields {
			w.field(f, limitNote(f.Type))
		}
		w.p("}")
	case check.Union:
		w.doc(article(t.Name)+" is "+t.X+". "+t.Switch.Name+" selects one of the other fields.", t.Note)
		w.p("type %s struct {", t.Name)
		w.field(t.Switch, "")
		for _, f := range t.Fields {
			w.field(f, "if "+strings.Join(selectors(t, f), ", "))
		}
		w.p("}")
	}
	w.codec(t)
}

// selectors returns the values that select an arm.
func selectors(t *check.Type, f *check.Field) (names []string) {
	for _, c := range t.Cases {
		if c.Arm == f {
			names = append(names, c.Names...)
		}
	}
	if len(names) > 4 {
		names = append(names[:3:3], "…")
	}
	if t.Default != nil && t.Default.Arm == f {
		names = append(names, "no other")
	}
	return names
}

// field writes a field with its comments.
func (w *writer) field(f *check.Field, note string) {
	tail := beside(f.Note)
	w.above(f.Note)
	switch {
	case note != "" && tail == "":
		tail = " // " + note
	case note != "":
		tail = " // " + note + ":" + strings.TrimPrefix(tail, " //")
	}
	w.p("%s %s%s", f.Name, fieldType(f), tail)
}

// limitText describes a limit or a chunk.
func limitText(t *check.Type) string {
	switch {
	case t.Item:
		return ", of at most " + t.Limit + " bytes, which may travel as a chunk"
	case t.Kind == check.Opaque:
		return ", of at most " + t.Limit + " bytes"
	case t.Kind == check.Slice:
		return ", of at most " + t.Limit + " elements"
	case t.Kind == check.List:
		return ", a list"
	}
	return ""
}

// limitNote is limitText for a field.
func limitNote(t *check.Type) string {
	if t.Name != "" {
		return ""
	}
	if t.Kind == check.String {
		return "at most " + t.Limit + " bytes"
	}
	return strings.TrimPrefix(strings.TrimPrefix(limitText(t), ", of "), ", ")
}

func sizeText(t *check.Type) string {
	if t.Static {
		return fmt.Sprintf(", %d bytes", t.Min)
	}
	return ""
}

// enum writes an enum's values and methods.
func (w *writer) enum(t *check.Type) {
	w.p("\n// Values of %s.\nconst (", t.Name)
	for _, m := range t.Members {
		w.above(m.Note)
		w.p("%s %s = %d%s", m.Name, t.Name, m.Value, beside(m.Note))
	}
	w.p(")\n")
	w.p("// String returns the value's name.\nfunc (v %s) String() string {\nswitch v {", t.Name)
	seen, low, high := map[int64]bool{}, t.Members[0], t.Members[0]
	var names []string
	for _, m := range t.Members {
		if seen[m.Value] {
			continue
		}
		seen[m.Value] = true
		names = append(names, m.Name)
		w.p("case %s:\nreturn %q", m.Name, m.X)
		if m.Value < low.Value {
			low = m
		}
		if m.Value > high.Value {
			high = m
		}
	}
	w.p("}\nreturn %s + strconv.Itoa(int(v)) + \")\"\n}\n", strconv.Quote(t.X+"("))
	w.p("// valid reports whether the value is in the list.\nfunc (v %s) valid() bool {", t.Name)
	if high.Value-low.Value == int64(len(names)-1) {
		w.p("return v >= %s && v <= %s\n}", low.Name, high.Name)
	} else {
		w.p("switch v {\ncase %s:\nreturn true\n}\nreturn false\n}", strings.Join(wrap(strings.Join(names, ", ")), "\n"))
	}
	w.p("\n// EncodeXDR appends the value.\nfunc (v *%s) EncodeXDR(e *xdr.Encoder) { e.Int32(int32(*v)) }", t.Name)
	w.p("\n// DecodeXDR reads a value in the list.\nfunc (v *%s) DecodeXDR(d *xdr.Decoder) {", t.Name)
	w.p("if *v = %s(d.Int32()); !v.valid() {\nd.Fail(xdr.ErrValue)\n}\n}", t.Name)
}
