// The page of log messages: every log call in the server's packages, with level, text and fields.

package reference

import (
	"fmt"
	"go/ast"
	"regexp"
	"slices"
	"strings"
)

// areas are the packages that log, by subject.
var areas = []struct {
	title string
	dirs  []string
}{
	{"Program, exports file and listeners", []string{"cmd/nfsrdmad/program"}},
	{"NFS and MOUNT", []string{"nfsserver"}},
	{"Locks", []string{"nfsserver/nlm"}},
	{"Connections and calls", []string{"transport"}},
	{"TLS and Kerberos", []string{"transport/certs", "transport/gss"}},
	{"Audit log", []string{"cmd/internal/audit"}},
	{"JuiceFS volumes (nfsrdmad-juicefs)", []string{"nfsserver/juicefs", "cmd/nfsrdmad-juicefs"}},
	{"Mounts (nfsrdma mount --log-file)", []string{"cmd/internal/mounter", "cmd/internal/session", "nfsclient/fusefs", "nfsclient/nlm"}},
}

// notices lists, by package, the parameters with which functions log a line.
var notices = map[string]string{
	"cmd/internal/mounter": "tell say", "cmd/internal/session": "tell", "nfsclient/fusefs": "logf", "nfsclient/nlm": "log",
}

// A message is one line of the log.
type message struct {
	level, text string
	fields      []string
}

func writeLogMessages(w *writer, m *module, _ Programs) error {
	w.line("`nfsrdmad serve --log-level` sets the lowest level that is logged, `--log-format json` writes JSON lines. A `…` stands for a value.")
	w.line("Lines about a peer are limited to one per second for each text; `suppressed` counts those left out.")
	described := map[string]bool{}
	for _, a := range areas {
		var all []message
		for _, dir := range a.dirs {
			p, err := m.folder(dir)
			if err != nil {
				return err
			}
			list := p.messages()
			if len(list) == 0 {
				return fmt.Errorf("no messages in %s", dir)
			}
			described[dir] = true
			all = append(all, list...)
		}
		all = sorted(all)
		w.line("\n## %s", a.title)
		w.table("Level", "Message", "Fields")
		for _, msg := range all {
			w.row(msg.level, code(strings.ReplaceAll(msg.text, "`", "'")), codes(msg.fields))
		}
	}
	for dir, p := range m.dirs {
		if list := p.messages(); len(list) > 0 && !described[dir] {
			return fmt.Errorf("%s logs %q, and is in no area", dir, list[0].text)
		}
	}
	return nil
}

// sorted sorts messages by text and removes duplicates.
func sorted(all []message) []message {
	slices.SortStableFunc(all, func(a, b message) int { return strings.Compare(a.text, b.text) })
	return slices.CompactFunc(all, func(a, b message) bool { return a.text == b.text && a.level == b.level })
}

// messages lists the messages of a package.
func (p *folder) messages() (all []message) {
	for _, f := range p.files {
		for _, d := range f.Decls {
			fn, ok := d.(*ast.FuncDecl)
			if !ok || fn.Body == nil {
				continue
			}
			ast.Inspect(fn.Body, func(n ast.Node) bool {
				if call, ok := n.(*ast.CallExpr); ok {
					all = append(all, p.logged(fn, call)...)
				}
				return true
			})
		}
	}
	return sorted(all)
}

var levels = map[string]string{"Debug": "debug", "Info": "info", "Warn": "warning", "Error": "error", "Line": "notice"}

// logged returns the messages of a call. If the text is a parameter of the enclosing function, its
// callers' arguments are used.
func (p *folder) logged(fn *ast.FuncDecl, call *ast.CallExpr) (all []message) {
	if len(call.Args) == 0 {
		return nil
	}
	level := ""
	if sel, ok := call.Fun.(*ast.SelectorExpr); ok && isLog(sel.X) {
		level = levels[strings.TrimSuffix(sel.Sel.Name, "f")]
	}
	if slices.Contains(strings.Fields(notices[p.dir]), calleeName(call)) {
		level = "notice"
	}
	if level == "" {
		return nil
	}
	msg := message{level: level, fields: fieldsOf(fn, call)}
	for _, text := range p.texts(fn, call.Args[0]) {
		msg.text = values(text)
		if letter.MatchString(msg.text) { // skips texts that are only an error's
			all = append(all, msg)
		}
	}
	return all
}

// isLog reports whether an expression is logrus, a logrus entry, a logger of the module, or a
// logger with a default for nil (cmp.Or).
func isLog(e ast.Expr) bool {
	switch e := e.(type) {
	case *ast.Ident:
		return e.Name == "logrus" || e.Name == "log"
	case *ast.SelectorExpr:
		return e.Sel.Name == "log"
	case *ast.CallExpr:
		s, ok := e.Fun.(*ast.SelectorExpr)
		return ok && (isLog(s.X) || len(e.Args) > 0 && isLog(e.Args[0]))
	}
	return false
}

// texts returns the possible texts of a message.
func (p *folder) texts(fn *ast.FuncDecl, e ast.Expr) (all []string) {
	name, n := "", ast.Expr(nil)
	ast.Inspect(e, func(x ast.Node) bool {
		if id, ok := x.(*ast.Ident); ok && name == "" && isLocal(fn, id.Name) {
			name, n = id.Name, id
		}
		return true
	})
	before := ""
	switch e := e.(type) {
	case *ast.Ident:
	case *ast.BinaryExpr:
		if e.Y != n {
			return []string{text(e)}
		}
		before = text(e.X)
	default:
		return []string{text(e)}
	}
	for _, s := range p.assigned(fn, name) {
		all = append(all, before+s)
	}
	if len(all) == 0 {
		all = []string{text(e)}
	}
	return all
}

// isLocal reports whether a function has a parameter or variable with a name.
func isLocal(fn *ast.FuncDecl, name string) bool {
	if parameter(fn, name) >= 0 {
		return true
	}
	found := false
	ast.Inspect(fn.Body, func(x ast.Node) bool {
		switch x := x.(type) {
		case *ast.AssignStmt:
			for _, l := range x.Lhs {
				id, ok := l.(*ast.Ident)
				found = found || ok && id.Name == name
			}
		case *ast.ValueSpec:
			for _, id := range x.Names {
				found = found || id.Name == name
			}
		}
		return true
	})
	return found
}

// parameter returns the index of a function's parameter, or -1.
func parameter(fn *ast.FuncDecl, name string) int {
	at := 0
	for _, f := range fn.Type.Params.List {
		for _, n := range f.Names {
			if n.Name == name {
				return at
			}
			at++
		}
	}
	return -1
}

// assigned returns the literals assigned to a function's variable: by assignments, by the
// function's callers, or as results of a function in the package.
func (p *folder) assigned(fn *ast.FuncDecl, name string) (all []string) {
	if at := parameter(fn, name); at >= 0 {
		p.inspect(func(x ast.Node) {
			if call, ok := x.(*ast.CallExpr); ok && calleeName(call) == fn.Name.Name && at < len(call.Args) && isLiteral(call.Args[at]) {
				all = append(all, text(call.Args[at]))
			}
		})
		return all
	}
	ast.Inspect(fn.Body, func(x ast.Node) bool {
		s, ok := x.(*ast.AssignStmt)
		if !ok {
			return true
		}
		for i, l := range s.Lhs {
			if id, ok := l.(*ast.Ident); !ok || id.Name != name {
				continue
			}
			if len(s.Rhs) == len(s.Lhs) && text(s.Rhs[i]) != "…" {
				all = append(all, text(s.Rhs[i]))
			} else if call, ok := s.Rhs[0].(*ast.CallExpr); ok {
				all = append(all, p.results(calleeName(call))...)
			}
		}
		return true
	})
	return all
}

// results returns the literals that a function of the package returns first.
func (p *folder) results(name string) (all []string) {
	fn := p.funcs[name]
	if fn == nil || fn.Body == nil {
		return nil
	}
	ast.Inspect(fn.Body, func(x ast.Node) bool {
		if r, ok := x.(*ast.ReturnStmt); ok && len(r.Results) > 0 {
			if s := text(r.Results[0]); s != "…" && s != "" {
				all = append(all, s)
			}
		}
		return true
	})
	return all
}

func (p *folder) inspect(f func(ast.Node)) {
	for _, file := range p.files {
		ast.Inspect(file, func(n ast.Node) bool {
			f(n)
			return true
		})
	}
}

// calleeName returns the name of the called function or method.
func calleeName(call *ast.CallExpr) string {
	switch f := call.Fun.(type) {
	case *ast.Ident:
		return f.Name
	case *ast.SelectorExpr:
		return f.Sel.Name
	}
	return ""
}

// fieldsOf returns the field keys of a log call: from its arguments, from a slice passed as these,
// or from WithField.
func fieldsOf(fn *ast.FuncDecl, call *ast.CallExpr) (keys []string) {
	if sel, ok := call.Fun.(*ast.SelectorExpr); ok && strings.HasSuffix(sel.Sel.Name, "f") {
		return withField(call)
	}
	keys = alternating(call.Args[1:])
	if id, ok := call.Args[len(call.Args)-1].(*ast.Ident); ok && call.Ellipsis.IsValid() {
		ast.Inspect(fn.Body, func(x ast.Node) bool {
			if s, ok := x.(*ast.AssignStmt); ok && isName(s.Lhs[0], id.Name) {
				keys = append(keys, appendedKeys(s.Rhs[0])...)
			}
			return true
		})
	}
	return append(keys, withField(call)...)
}

func isName(e ast.Expr, name string) bool {
	id, ok := e.(*ast.Ident)
	return ok && id.Name == name
}

// appendedKeys returns the keys in a slice of fields, or in an append to one.
func appendedKeys(e ast.Expr) []string {
	switch e := e.(type) {
	case *ast.CompositeLit:
		return alternating(e.Elts)
	case *ast.CallExpr:
		if calleeName(e) == "append" {
			return alternating(e.Args[1:])
		}
	}
	return nil
}

// alternating returns the keys in a list of alternating keys and values. It skips arguments before
// the first key, such as a RateLog's burst.
func alternating(list []ast.Expr) (keys []string) {
	first := slices.IndexFunc(list, isLiteral)
	for i := first; i >= 0 && i < len(list); i += 2 {
		keys = append(keys, text(list[i]))
	}
	return keys
}

// withField returns the field keys of the logrus entry that a call logs to.
func withField(call *ast.CallExpr) (keys []string) {
	ast.Inspect(call.Fun, func(x ast.Node) bool {
		if c, ok := x.(*ast.CallExpr); ok && calleeName(c) == "WithField" && isLiteral(c.Args[0]) {
			keys = append(keys, text(c.Args[0]))
		}
		return true
	})
	return keys
}

var letter = regexp.MustCompile(`[a-z]{2}`)

var verb = regexp.MustCompile(`%%|%[-+# 0]*(\d+|\*)?(\.(\d+|\*))?[a-zA-Z]`)

// values replaces each verb in a format with "…".
func values(format string) string {
	s := verb.ReplaceAllStringFunc(format, func(v string) string {
		if v == "%%" {
			return "%"
		}
		return "…"
	})
	s = strings.ReplaceAll(s, "……", "…")
	return strings.Join(strings.Fields(s), " ")
}
