// Servers: an interface for each version, and its table.

package write

import (
	"fmt"

	"github.com/nfsrdma/nfsrdma/cmd/oncrpcgen/internal/check"
	"github.com/nfsrdma/nfsrdma/cmd/oncrpcgen/internal/syntax"
)

// isNull reports whether a procedure is the one that does nothing (RFC 5531 §12.1).
func isNull(q *check.Proc) bool { return q.Number == 0 && len(q.Args) == 0 && q.Res == nil }

// server writes a version's interface and its table.
func (w *writer) server(p *check.Program) {
	name := p.Name + "Server"
	w.p("")
	w.doc(fmt.Sprintf("%s serves %s of %s. A method sets res, and runs concurrently with others. args and its slices are valid until it returns, and res must not have slices of args. Bytes for items come from c.Buffer. After an error other than those of transport, the client gets SYSTEM_ERR.", article(name), p.Version, p.X), p.Note)
	w.p("type %s interface {", name)
	for _, q := range p.Procs {
		if isNull(q) {
			continue
		}
		w.doc(q.Method+" is "+q.X+".", q.Note)
		w.p("%s(c *transport.Call%s%s) error", q.Method, params(q), resParam(q))
	}
	w.p("}\n")
	w.doc(fmt.Sprintf("New%sProgram returns the table of %s. The caller can change its rows, such as Idempotent and Inline, and set Authorize.", p.Name, p.Version), syntax.Note{})
	w.p("func New%sProgram(s %s) *transport.Program {", p.Name, name)
	w.p("return &transport.Program{\nName: %q, Number: %s, Version: %s,\nProcs: []transport.Procedure{", p.X, p.Number, p.Vers)
	null := true
	for _, q := range p.Procs {
		null = null && q.Number != 0
	}
	if null {
		w.p("0: {Name: \"NULL\", Inline: true, Idempotent: true, Run: func(*transport.Call) error { return nil }},")
	}
	for _, q := range p.Procs {
		w.row(p, q)
	}
	w.p("},\n}\n}")
}

func resParam(q *check.Proc) string {
	if q.Res == nil {
		return ""
	}
	return ", res *" + goType(q.Res)
}

// row writes a procedure's row.
func (w *writer) row(p *check.Program, q *check.Proc) {
	if isNull(q) {
		w.p("%s: {Name: %q, Inline: true, Idempotent: true, Run: func(*transport.Call) error { return nil }},", q.Const, q.X)
		return
	}
	marks := ""
	if q.Idempotent {
		marks += " Idempotent: true,"
	}
	if q.ArgItem() {
		marks += " ArgItem: true,"
	}
	if len(q.Args) == 1 && byPointer(q.Args[0]) && q.Res != nil && q.Res.HasMethods() {
		w.p("%s: {Name: %q,%s Run: transport.Handle(s.%s)},", q.Const, q.X, marks, q.Method)
		return
	}
	args, pass := "_ *xdr.Void", "c"
	switch {
	case wrapsArgs(q):
		args = "args *" + argsName(p, q)
		for i, a := range q.Args {
			if pass += ", "; byPointer(a) {
				pass += "&"
			}
			pass += "args." + argName(q, i)
		}
	case len(q.Args) == 1 && byPointer(q.Args[0]):
		args, pass = "args *"+goType(q.Args[0]), "c, args"
	case len(q.Args) == 1:
		args, pass = "args *"+goType(q.Args[0]), "c, *args"
	}
	res := "_ *xdr.Void"
	switch {
	case wrapsRes(q):
		res = "res *" + resName(p, q)
		pass += ", &res.v"
	case q.Res != nil:
		res = "res *" + goType(q.Res)
		pass += ", res"
	}
	run := fmt.Sprintf("func(c *transport.Call, %s, %s) error {\nreturn s.%s(%s)\n}", args, res, q.Method, pass)
	w.p("%s: {Name: %q,%s Run: transport.Handle(%s)},", q.Const, q.X, marks, run)
}
