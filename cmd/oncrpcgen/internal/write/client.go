// Clients: a type for each version, with a method for each procedure.

package write

import (
	"fmt"
	"strings"

	"github.com/nfsrdma/nfsrdma/cmd/oncrpcgen/internal/check"
)

// procName, argsName and resName name a procedure's variable and the types around its arguments and
// its result.
func procName(p *check.Program, q *check.Proc) string { return "proc" + p.Name + q.Method }
func argsName(p *check.Program, q *check.Proc) string { return "argsOf" + p.Name + q.Method }
func resName(p *check.Program, q *check.Proc) string  { return "resOf" + p.Name + q.Method }

// byPointer reports whether a type's values are passed by pointer.
func byPointer(t *check.Type) bool {
	k := t.Under().Kind
	return k == check.Struct || k == check.Union
}

// paramType writes an argument's type.
func paramType(t *check.Type) string {
	if byPointer(t) {
		return "*" + goType(t)
	}
	return goType(t)
}

// wrapsArgs reports whether a procedure's arguments need their own type.
func wrapsArgs(q *check.Proc) bool {
	return len(q.Args) > 1 || len(q.Args) == 1 && !q.Args[0].HasMethods()
}

// wrapsRes reports whether a server's result needs its own type.
func wrapsRes(q *check.Proc) bool { return q.Res != nil && !q.Res.HasMethods() }

// keepsRes reports whether a client copies parts from the result.
func keepsRes(q *check.Proc) bool { return q.Res != nil && !q.Res.Owns() }

// params writes the parameters for a procedure's arguments.
func params(q *check.Proc) string {
	var b strings.Builder
	for i, a := range q.Args {
		fmt.Fprintf(&b, ", %s %s", argName(q, i), paramType(a))
	}
	return b.String()
}

func argName(q *check.Proc, i int) string {
	if len(q.Args) == 1 {
		return "args"
	}
	return fmt.Sprintf("arg%d", i+1)
}

// client writes a version's client.
func (w *writer) client(p *check.Program) {
	name := p.Name + "Client"
	w.p("")
	w.doc(fmt.Sprintf("%s calls %s of %s. Its methods can run concurrently.", article(name), p.Version, p.X), p.Note)
	w.p("type %s struct{ c *transport.Client }\n", name)
	w.p("// New%s returns a client that calls by c.", name)
	w.p("func New%s(c *transport.Client) *%s { return &%s{c} }\n", name, name, name)
	w.p("var (")
	for _, q := range p.Procs {
		longest := ""
		if q.MaxReply > 0 {
			longest = fmt.Sprintf(", MaxReply: %d", q.MaxReply)
		}
		w.p("%s = transport.Proc{Prog: %s, Vers: %s, Proc: %s, Name: %q%s}", procName(p, q), p.Number, p.Vers, q.Const, q.X, longest)
	}
	w.p(")")
	for _, q := range p.Procs {
		w.call(p, q)
	}
}

// call writes a client's method.
func (w *writer) call(p *check.Program, q *check.Proc) {
	w.p("")
	w.doc(q.Method+" calls "+q.X+"."+sinkText(q)+replyLimitText(q), q.Note)
	args := q.Args
	head := fmt.Sprintf("func (c *%sClient) %s(ctx context.Context%s", p.Name, q.Method, params(q))
	sink, room := "nil", "0"
	if n := q.ResItem(); n > 0 {
		head += ", sink []byte"
		sink, room = "sink", "room"
	}
	if q.Limit != nil {
		room = "limited"
	}
	marshaler := "nil"
	switch {
	case wrapsArgs(q):
		var names []string
		for i, a := range args {
			name := argName(q, i)
			if byPointer(a) {
				name = "*" + name
			}
			names = append(names, name)
		}
		marshaler = fmt.Sprintf("&%s{%s}", argsName(p, q), strings.Join(names, ", "))
	case len(args) == 1 && byPointer(args[0]):
		marshaler = "args"
	case len(args) == 1:
		marshaler = "&args"
	}
	call := fmt.Sprintf("c.c.Call(ctx, &%s, %s, %%s, %s, %s)", procName(p, q), marshaler, sink, room)
	if q.Res == nil {
		w.p("%s) error {\nreturn %s\n}", head, fmt.Sprintf(call, "nil"))
		return
	}
	w.p("%s) (%s, error) {", head, paramType(q.Res))
	if l := q.Limit; l != nil {
		field := "args" + l.Field
		if l.Signed {
			field = fmt.Sprintf("max(%s, 0)", field)
		}
		w.p("limited := int(min(%s, %d))", field, l.Most)
	}
	if room == "room" {
		w.p("room := 0\nif len(sink) == 0 {\nroom = %d\n}", min(q.ResItem(), (w.opts.Max+3)&^3))
	}
	w.result(p, q, call)
}

// result writes the end: the call, and its result.
func (w *writer) result(p *check.Program, q *check.Proc, call string) {
	made, value := "new("+goType(q.Res)+")", "res"
	if keepsRes(q) || wrapsRes(q) {
		made, value = "new("+resName(p, q)+")", "res.v"
		if byPointer(q.Res) {
			value = "&res.v"
		}
	} else if !byPointer(q.Res) {
		value = "*res"
	}
	w.p("res := %s", made)
	if !byPointer(q.Res) {
		w.p("err := %s\nreturn %s, err\n}", fmt.Sprintf(call, "res"), value)
		return
	}
	w.p("if err := %s; err != nil {\nreturn nil, err\n}\nreturn %s, nil\n}", fmt.Sprintf(call, "res"), value)
}

// sinkText documents the sink.
func sinkText(q *check.Proc) string {
	if q.ResItem() == 0 {
		return ""
	}
	return " The item in the result is placed in sink, and is then a slice of sink. Without a sink it is part of the reply, and copied."
}

// replyLimitText documents a result's limit.
func replyLimitText(q *check.Proc) string {
	if q.Limit == nil {
		return ""
	}
	plus := ""
	if q.MaxReply > 0 {
		plus = fmt.Sprintf(" + %d", q.MaxReply)
	}
	return fmt.Sprintf(" The longest result has args%s%s bytes, but at most %d.", q.Limit.Field, plus, q.MaxReply+q.Limit.Most)
}

// wrappers writes the types for arguments and results without their own methods.
func (w *writer) wrappers(p *check.Program) {
	for _, q := range p.Procs {
		if wrapsArgs(q) {
			w.wrapArgs(argsName(p, q), q)
		}
		if keepsRes(q) || wrapsRes(q) {
			w.wrapRes(resName(p, q), q)
		}
	}
}

func (w *writer) wrapArgs(name string, q *check.Proc) {
	w.p("\n// %s has the arguments for %s.\ntype %s struct {", article(name), q.X, name)
	for i, a := range q.Args {
		w.p("%s %s", argName(q, i), goType(a))
	}
	w.p("}\n\nfunc (v *%s) EncodeXDR(e *xdr.Encoder) {", name)
	for i, a := range q.Args {
		w.encode(a, "v."+argName(q, i), 0)
	}
	w.p("}\n\nfunc (v *%s) DecodeXDR(d *xdr.Decoder) {", name)
	for i, a := range q.Args {
		w.decode(nil, a, "v."+argName(q, i), 0)
	}
	w.p("}")
}

func (w *writer) wrapRes(name string, q *check.Proc) {
	w.p("\n// %s has the result of %s.\ntype %s struct{ v %s }", article(name), q.X, name, goType(q.Res))
	if wrapsRes(q) {
		w.p("\nfunc (v *%s) EncodeXDR(e *xdr.Encoder) {", name)
		w.encode(q.Res, "v.v", 0)
		w.p("}")
	}
	w.p("\nfunc (v *%s) DecodeXDR(d *xdr.Decoder) {", name)
	w.decode(nil, q.Res, "v.v", 0)
	w.keep(q.Res, "v.v", 0)
	w.p("}")
}
