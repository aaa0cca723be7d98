// The parser: definitions and programs (RFC 5531 §12.2, RFC 4506 §6.3).

package syntax

import (
	"slices"
	"strconv"
	"strings"
)

// Parse reads a file. The error, if any, is an *Error.
func Parse(name string, src []byte, opts Options) (*File, error) {
	tokens, defines, err := lex(name, src, opts)
	if err != nil {
		return nil, err
	}
	p := &parser{tokens: tokens}
	f := p.file()
	if p.err != nil {
		return nil, p.err
	}
	for _, d := range defines {
		f.Consts = append(f.Consts, &Const{Name: d.Name, Value: d.Value})
	}
	return f, nil
}

// A parser keeps its first error. After it, every token is the end.
type parser struct {
	tokens []token
	at     int
	depth  int // bodies around this one
	err    *Error
}

// keywords cannot be names (RFC 4506 §6.4, RFC 5531 §12.3).
var keywords = []string{
	"bool", "case", "const", "default", "double", "quadruple", "enum", "float", "hyper", "int", "opaque",
	"string", "struct", "switch", "typedef", "union", "unsigned", "void", "program", "version",
}

func (p *parser) fail(pos Pos, format string, args ...any) {
	if p.err == nil {
		p.err = Errorf(pos, format, args...)
		p.at = len(p.tokens) - 1
	}
}

func (p *parser) peek() *token { return &p.tokens[p.at] }

func (p *parser) take() *token {
	t := &p.tokens[p.at]
	if t.kind != eof {
		p.at++
	}
	return t
}

// takes moves over a sign or a keyword if it is next.
func (p *parser) takes(what string) bool {
	t := p.peek()
	if t.kind == ident && t.text == what || len(what) == 1 && t.kind == kind(what[0]) {
		p.at++
		return true
	}
	return false
}

// want moves over a sign or a keyword.
func (p *parser) want(what string) {
	if !p.takes(what) {
		p.fail(p.peek().pos, "expected %q, found %v", what, p.peek())
	}
}

// name takes a name.
func (p *parser) name() Name {
	t := p.peek()
	if t.kind != ident {
		p.fail(t.pos, "expected a name, found %v", t)
		return Name{}
	}
	if slices.Contains(keywords, t.text) {
		p.fail(t.pos, "%q is a word of the language and cannot be a name", t.text)
		return Name{}
	}
	p.at++
	return Name{t.text, t.pos}
}

// value takes a constant or a name.
func (p *parser) value() Value {
	t := p.peek()
	switch t.kind {
	case number:
		v, err := parseNumber(t)
		if err != nil {
			p.fail(err.Pos, "%s", err.Msg)
			return Value{}
		}
		p.at++
		return v
	case ident:
		n := p.name()
		return Value{Pos: n.Pos, Name: n.Text, Lit: n.Text}
	}
	p.fail(t.pos, "expected a constant, found %v", t)
	return Value{}
}

// parseNumber reads a decimal, hexadecimal or octal constant.
func parseNumber(t *token) (Value, *Error) {
	digits, neg := strings.CutPrefix(t.text, "-")
	base := 10
	switch {
	case strings.HasPrefix(digits, "0x") || strings.HasPrefix(digits, "0X"):
		digits, base = digits[2:], 16
	case len(digits) > 1 && digits[0] == '0':
		base = 8
	}
	mag, err := strconv.ParseUint(digits, base, 64)
	if err != nil || neg && mag > 1<<63 {
		return Value{}, Errorf(t.pos, "%s is not an integer within 64 bits", t.text)
	}
	lit := t.text
	if t.from != "" {
		lit = t.from
	}
	return Value{Pos: t.pos, Num: Number{Neg: neg && mag > 0, Mag: mag}, Lit: lit}, nil
}

// noted returns the comments at the tokens from start on.
func (p *parser) noted(start int) Note {
	n := Note{Doc: p.tokens[start].doc}
	for i := start; i < p.at; i++ {
		n.Tail = append(n.Tail, p.tokens[i].tail...)
	}
	return n
}

// ends returns the comments before the token at start, and those after the last token taken.
func (p *parser) ends(start int) Note {
	n := Note{Doc: p.tokens[start].doc}
	if p.at > start {
		n.Tail = p.tokens[p.at-1].tail
	}
	return n
}

// marked reports whether a comment is the mark.
func (n *Note) marked(mark string) bool {
	is := func(c Comment) bool { return c.words() == mark }
	return slices.ContainsFunc(n.Doc, is) || slices.ContainsFunc(n.Tail, is)
}

// words returns a comment's text without its frame.
func (c *Comment) words() string { return strings.Trim(c.Text, " \t\r\n*") }

// The marks in comments.
const (
	markItem       = "ddp-eligible"
	markIdempotent = "idempotent"
	markLimit      = "reply-limit" // and a colon
)

func (p *parser) file() *File {
	f := &File{}
	for p.err == nil && p.peek().kind != eof {
		p.definition(f)
	}
	return f
}

// definition reads one definition.
func (p *parser) definition(f *File) {
	start, t := p.at, p.peek()
	switch {
	case p.takes("const"):
		c := &Const{Name: p.name()}
		p.want("=")
		if p.peek().kind == text {
			c.Text, c.IsStr = p.take().text, true
		} else {
			c.Value = p.value()
		}
		p.want(";")
		c.Note = p.noted(start)
		f.Consts = append(f.Consts, c)
	case p.takes("typedef"):
		d := p.declaration()
		p.want(";")
		d.Note = p.noted(start)
		d.Item = d.marked(markItem)
		if d.Shape == Void {
			p.fail(t.pos, "typedef of void")
		}
		f.Types = append(f.Types, &TypeDef{Note: d.Note, Name: d.Name, Decl: d})
	case t.kind == ident && (t.text == "enum" || t.text == "struct" || t.text == "union"):
		p.at++
		d := Decl{Name: p.name(), Type: Spec{Pos: t.pos}}
		p.body(t.text, &d.Type)
		p.want(";")
		f.Types = append(f.Types, &TypeDef{Note: p.ends(start), Name: d.Name, Decl: d, Is: true})
	case p.takes("program"):
		f.Programs = append(f.Programs, p.program(start))
	default:
		p.fail(t.pos, "expected const, typedef, enum, struct, union or program, found %v", t)
	}
}

// program reads a program after its keyword.
func (p *parser) program(start int) *Program {
	g := &Program{Name: p.name()}
	for p.want("{"); p.err == nil && !p.takes("}"); {
		g.Versions = append(g.Versions, p.version())
	}
	p.want("=")
	g.Number = p.value()
	p.want(";")
	g.Note = p.ends(start)
	return g
}

func (p *parser) version() *Version {
	start := p.at
	p.want("version")
	v := &Version{Name: p.name()}
	for p.want("{"); p.err == nil && !p.takes("}"); {
		v.Procs = append(v.Procs, p.proc())
	}
	p.want("=")
	v.Number = p.value()
	p.want(";")
	v.Note = p.ends(start)
	return v
}

// proc reads a procedure. Its argument and its result can be a string without limit, as for rpcgen.
func (p *parser) proc() *Proc {
	start := p.at
	q := &Proc{}
	if !p.takes("void") {
		s := p.spec()
		q.Res = &s
	}
	q.Name = p.name()
	p.want("(")
	if !p.takes("void") && p.peek().kind != ')' {
		q.Args = append(q.Args, p.spec())
		for p.takes(",") {
			q.Args = append(q.Args, p.spec())
		}
	}
	p.want(")")
	p.want("=")
	q.Number = p.value()
	p.want(";")
	q.Note = p.noted(start)
	q.Idempotent = q.marked(markIdempotent)
	q.Limit = p.limit(&q.Note)
	return q
}
