// The page of JSON: each command's keys, from the encoded types.

package reference

import (
	"fmt"
	"go/ast"
	"reflect"
	"strconv"
	"strings"

	fields "github.com/nfsrdma/nfsrdma/cmd/internal/text"
)

// A report is the type that a command encodes with --json.
type report struct {
	command, dir, typ string
	array             bool // the command encodes an array of that type
	words             bool // text.FieldKey makes the keys
}

var reports = []report{
	{"nfsrdma ls", "cmd/internal/listing", "Object", true, false},
	{"nfsrdma stat", "cmd/internal/listing", "Object", true, false},
	{"nfsrdma df", "cmd/nfsrdma", "dfRow", true, false},
	{"nfsrdma showmount", "cmd/nfsrdma", "jsonExport", true, false},
	{"nfsrdma ping", "cmd/nfsrdma", "pingReport", false, false},
	{"nfsrdma doctor", "cmd/internal/doctor", "Report", false, false},
	{"nfsrdma mountstats", "cmd/nfsrdma", "mountFigures", false, true},
	{"nfsrdma top", "cmd/internal/top", "Report", false, false},
	{"nfsrdma bench", "cmd/internal/bench", "Report", false, false},
	{"nfsrdma bench --mount", "cmd/internal/bench", "MountReport", false, false},
	{"nfsrdma rnic-bench", "cmd/internal/bench", "VerbsReport", false, false},
	{"nfsrdma verbs pingpong", "cmd/internal/verbs", "PingpongReport", false, false},
	{"nfsrdma verbs rping", "cmd/internal/verbs", "PingpongReport", false, false},
	{"nfsrdma verbs ucmatose", "cmd/internal/verbs", "PingpongReport", false, false},
	{"nfsrdma verbs udaddy", "cmd/internal/verbs", "PingpongReport", false, false},
	{"nfsrdma verbs mckey", "cmd/internal/verbs", "PingpongReport", false, false},
	{"nfsrdma verbs perf", "cmd/internal/verbs", "PerfReport", false, false},
	{"nfsrdmad status", "cmd/nfsrdmad/program", "statusReport", false, false},
	{"nfsrdmad clients", "cmd/nfsrdmad/program", "clientsReport", false, false},
	{"nfsrdmad exports", "cmd/nfsrdmad/program", "exportsReport", false, false},
	{"nfsrdmad locks", "cmd/nfsrdmad/program", "locksReport", false, false},
	{"nfsrdmad drain", "cmd/nfsrdmad/program", "drainReport", false, false},
}

func writeJSON(w *writer, m *module, p Programs) error {
	if err := complete(p); err != nil {
		return err
	}
	w.line("A key marked *optional* is left out if it has no value. Times are strings as in RFC 3339. New keys may be added.")
	w.line("The records of `nfsrdmad serve --audit` are described in [monitoring](../monitor.md#a-record-of-all-changes).")
	written := map[string]string{}
	for _, r := range reports {
		w.line("\n## %s\n", r.command)
		root, before := r.dir+"."+r.typ, written[r.dir+"."+r.typ]
		switch {
		case before != "":
			w.line("The same keys as of [%s](#%s).", before, anchor(before))
			continue
		case r.array:
			w.line("An array of objects with these keys:")
		default:
			w.line("An object with these keys:")
		}
		written[root] = r.command
		f, err := m.folder(r.dir)
		if err != nil {
			return err
		}
		t := &jsonTable{w: w, m: m, words: r.words, seen: map[string]string{}}
		w.table("Key", "Type", "Meaning")
		if err := t.fields(f, r.typ, ""); err != nil {
			return err
		}
	}
	return nil
}

// complete checks that the page has each command with --json.
func complete(p Programs) error {
	there := map[string]bool{}
	for _, r := range reports {
		name, _, _ := strings.Cut(r.command, " --")
		there[name] = true
		cmd, err := p.find(name)
		if err != nil {
			return err
		}
		if cmd.Flags().Lookup("json") == nil {
			return fmt.Errorf("%s has no --json", name)
		}
	}
	for _, cmd := range append(visible(p.Client), visible(p.Server)...) {
		if cmd.LocalNonPersistentFlags().Lookup("json") != nil && !there[cmd.CommandPath()] {
			return fmt.Errorf("%s has --json, and no type is known for it", cmd.CommandPath())
		}
	}
	return nil
}

// kindTime is the kind of times, in seconds. Their keys end in the unit.
const kindTime = "number (s)"

// A jsonTable writes the keys of one report.
type jsonTable struct {
	w     *writer
	m     *module
	words bool
	// seen has the types already written, by folder and name, each with the key under which the
	// type's keys stand.
	seen map[string]string
}

// fields writes a row for each key of a struct, with a prefix.
func (t *jsonTable) fields(p *folder, name, prefix string) error {
	spec := p.types[name]
	if spec == nil {
		return fmt.Errorf("there is no type %s in %s", name, p.dir)
	}
	s, ok := spec.Type.(*ast.StructType)
	if !ok {
		return fmt.Errorf("%s.%s is no struct", p.dir, name)
	}
	for _, f := range s.Fields.List {
		tag := ""
		if f.Tag != nil {
			raw, _ := strconv.Unquote(f.Tag.Value)
			tag = reflect.StructTag(raw).Get("json")
		}
		key, options, _ := strings.Cut(tag, ",")
		if key == "-" {
			continue
		}
		if len(f.Names) == 0 && key == "" {
			q, embedded := t.named(p, f.Type)
			if q == nil {
				return fmt.Errorf("%s.%s embeds a type that is not known", p.dir, name)
			}
			if err := t.fields(q, embedded, prefix); err != nil {
				return err
			}
			continue
		}
		for _, n := range f.Names {
			if !n.IsExported() {
				continue
			}
			k := key
			if k == "" {
				k = n.Name
			}
			if key == "" && t.words {
				kind, _, _, _ := t.kind(p, f.Type)
				k = fields.FieldKey(k, kind == kindTime)
			}
			if err := t.row(p, f, prefix+k, strings.HasPrefix(options, "omit")); err != nil {
				return err
			}
		}
	}
	return nil
}

// row writes a key, and the keys of the objects in it.
func (t *jsonTable) row(p *folder, f *ast.Field, key string, optional bool) error {
	kind, q, inner, suffix := t.kind(p, f.Type)
	if optional {
		kind += ", *optional*"
	}
	meaning := comment(f)
	for _, n := range f.Names {
		meaning = strings.TrimPrefix(meaning, n.Name+" is ")
	}
	meaning = prose(meaning)
	if meaning == "" {
		return fmt.Errorf("%s.%s has no comment in %s", p.dir, key, t.m.fset.Position(f.Pos()))
	}
	again := ""
	if inner != "" {
		if again = t.seen[q.dir+"."+inner]; again != "" {
			meaning = strings.TrimPrefix(meaning+"; keys as in "+code(again), "; ")
		} else {
			t.seen[q.dir+"."+inner] = key + suffix
		}
	}
	t.w.row(code(key+suffix), kind, meaning)
	if t.words && strings.HasSuffix(key, ".times") { // mountstats also writes their bounds
		t.w.row(code(key+"_least_seconds[]"), "array of numbers", "the shortest round trip of each count in `times`")
	}
	if inner == "" || again != "" {
		return nil
	}
	return t.fields(q, inner, key+suffix+".")
}

// comment returns a field's comment in one line.
func comment(f *ast.Field) string {
	s := f.Comment.Text()
	if s == "" {
		s = f.Doc.Text()
	}
	return strings.TrimSuffix(strings.Join(strings.Fields(s), " "), ".")
}

// kind returns the JSON type of a value. For objects with keys it also returns the struct, and a
// suffix for the key.
func (t *jsonTable) kind(p *folder, e ast.Expr) (kind string, q *folder, inner, suffix string) {
	switch e := e.(type) {
	case *ast.StarExpr:
		kind, q, inner, suffix = t.kind(p, e.X)
		return kind + " or null", q, inner, suffix
	case *ast.ArrayType:
		kind, q, inner, suffix = t.kind(p, e.Elt)
		return "array of " + plural(kind), q, inner, "[]" + suffix
	case *ast.MapType:
		kind, q, inner, suffix = t.kind(p, e.Value)
		return "object of " + plural(kind), q, inner, ".NAME" + suffix
	case *ast.Ident:
		if s := basic(e.Name); s != "" {
			return s, nil, "", ""
		}
	case *ast.SelectorExpr:
		switch fmt.Sprint(e.X, ".", e.Sel) {
		case "time.Time":
			return "time", nil, "", ""
		case "time.Duration":
			return kindTime, nil, "", ""
		}
	}
	q, name := t.named(p, e)
	if q == nil || q.types[name] == nil {
		return "value", nil, "", ""
	}
	if name == "Micros" {
		return kindTime, nil, "", ""
	}
	if q.marshals(name) {
		return "string", nil, "", ""
	}
	if _, ok := q.types[name].Type.(*ast.StructType); ok {
		return "object", q, name, ""
	}
	return t.kind(q, q.types[name].Type)
}

// named returns the package and name of a type in the module; nil for other types.
func (t *jsonTable) named(p *folder, e ast.Expr) (*folder, string) {
	switch e := e.(type) {
	case *ast.Ident:
		return p, e.Name
	case *ast.SelectorExpr:
		if pkg, ok := e.X.(*ast.Ident); ok {
			return t.m.imported(p, e.Pos(), pkg.Name), e.Sel.Name
		}
	case *ast.StarExpr:
		return t.named(p, e.X)
	}
	return nil, ""
}

// marshals reports whether a type marshals itself as text.
func (p *folder) marshals(name string) bool {
	for _, f := range p.files {
		for _, d := range f.Decls {
			fn, ok := d.(*ast.FuncDecl)
			if !ok || fn.Recv == nil || fn.Name.Name != "MarshalText" && fn.Name.Name != "MarshalJSON" {
				continue
			}
			recv := fn.Recv.List[0].Type
			if s, ok := recv.(*ast.StarExpr); ok {
				recv = s.X
			}
			if id, ok := recv.(*ast.Ident); ok && id.Name == name {
				return true
			}
		}
	}
	return false
}

// basic returns the JSON type of a predeclared Go type, or "".
func basic(name string) string {
	switch name {
	case "string":
		return "string"
	case "bool":
		return "boolean"
	case "int", "int8", "int16", "int32", "int64", "uint", "uint8", "uint16", "uint32", "uint64", "float32", "float64":
		return "number"
	case "any":
		return "value"
	}
	return ""
}

func plural(kind string) string {
	first, rest, _ := strings.Cut(kind, " ")
	return strings.TrimSpace(first + "s " + rest)
}
