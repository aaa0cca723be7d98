// The preprocessor: conditionals, macros without parameters, included files.

package syntax

import "strings"

// A macro is a #define. A macro with parameters is kept only to be refused where it is used.
type macro struct {
	body   []token
	params bool
}

// A Define is a macro in a file whose body is one integer.
type Define struct {
	Name  Name
	Value Value
}

// A block is an open #if.
type block struct {
	pos    Pos
	outer  bool // the lines around it are read
	active bool // its current lines are read
	taken  bool // a branch has been read
	final  bool // after #else
}

// directive reads a line that begins with #.
func (l *lexer) directive() {
	at := l.pos
	line := l.logicalLine()
	n := 0
	for n < len(line) && isLetter(line[n]) {
		n++
	}
	word, rest := line[:n], strings.TrimSpace(line[n:])
	if l.conditional(at, word, rest) || l.skipping() {
		return
	}
	switch word {
	case "define":
		l.define(at, rest)
	case "undef":
		delete(l.macros, rest)
	case "include":
		l.included(at, rest)
	case "error":
		l.err = Errorf(at, "#error %s", rest)
	case "pragma", "ident", "":
		l.marker(rest)
	default:
		l.err = Errorf(at, "#%s is not known", word)
	}
}

// logicalLine takes a directive with its continuation lines, without # and comments.
func (l *lexer) logicalLine() string {
	var b strings.Builder
	l.step(1)
	for l.at < len(l.src) && l.src[l.at] != '\n' {
		rest := l.src[l.at:]
		switch {
		case strings.HasPrefix(rest, "\\\n"):
			l.step(1)
			l.newline()
			b.WriteByte(' ')
		case strings.HasPrefix(rest, "//"):
			l.step(lineLength(rest))
		case strings.HasPrefix(rest, "/*"):
			if l.skipComment(); l.err != nil {
				return ""
			}
			b.WriteByte(' ')
		default:
			b.WriteString(l.step(1))
		}
	}
	return strings.TrimSpace(b.String())
}

// skipComment moves over a comment within a directive.
func (l *lexer) skipComment() {
	pending, first := l.pending, l.first
	l.first = len(l.tokens) // the comment belongs to no token
	l.comment()
	l.pending, l.first = pending, first
}

// conditional handles the directives around left out lines; false: line is another directive.
func (l *lexer) conditional(at Pos, word, rest string) bool {
	n := len(l.blocks)
	switch word {
	case "if", "ifdef", "ifndef":
		if n == maxNesting {
			l.err = Errorf(at, "more than %d blocks of #if within each other", maxNesting)
			return true
		}
		outer := !l.skipping()
		holds := outer && l.holds(at, word, rest)
		l.blocks = append(l.blocks, block{pos: at, outer: outer, active: holds, taken: holds})
	case "elif", "else":
		if n == 0 || l.blocks[n-1].final {
			l.err = Errorf(at, "#%s without #if", word)
			return true
		}
		b := &l.blocks[n-1]
		b.active = b.outer && !b.taken && (word == "else" || l.holds(at, "if", rest))
		b.taken, b.final = b.taken || b.active, word == "else"
	case "endif":
		if n == 0 {
			l.err = Errorf(at, "#endif without #if")
			return true
		}
		l.blocks = l.blocks[:n-1]
	default:
		return false
	}
	return true
}

// holds evaluates a condition.
func (l *lexer) holds(at Pos, word, rest string) bool {
	name, _, _ := strings.Cut(strings.ReplaceAll(rest, "\t", " "), " ")
	_, defined := l.macros[name]
	switch word {
	case "ifdef":
		return defined
	case "ifndef":
		return !defined
	}
	v, err := l.condition(at, rest)
	if err != nil && l.err == nil {
		l.err = err
	}
	return v != 0
}

// define handles #define.
func (l *lexer) define(at Pos, rest string) {
	t, n := token{}, 0
	if rest != "" {
		t, n = scan(rest, at)
	}
	if n == 0 || t.kind != ident {
		l.err = Errorf(at, "#define without a name")
		return
	}
	m := macro{params: strings.HasPrefix(rest[n:], "(")}
	if !m.params {
		m.body = tokenize(strings.TrimSpace(rest[n:]), at)
	}
	l.macros[t.text] = m
	if len(m.body) == 1 && m.body[0].kind == number {
		if v, err := parseNumber(&m.body[0]); err == nil {
			*l.defined = append(*l.defined, Define{Name{t.text, at}, v})
		}
	}
}

// tokenize returns the tokens in a macro's body. A character that begins no token becomes one that
// the parser refuses where the macro is used.
func tokenize(body string, pos Pos) (list []token) {
	for body = strings.TrimSpace(body); body != ""; body = strings.TrimSpace(body) {
		t, n := scan(body, pos)
		if n == 0 {
			t, n = token{kind: kind(body[0]), pos: pos}, 1
		}
		list = append(list, t)
		body = body[n:]
	}
	return list
}

// included handles #include.
func (l *lexer) included(at Pos, rest string) {
	name, ok := strings.CutPrefix(rest, `"`)
	name, closed := strings.CutSuffix(name, `"`)
	switch {
	case strings.HasPrefix(rest, "<"):
		l.err = Errorf(at, "#include %s: headers for C are not read; give their constants with -D, or include a .x file in quotes", rest)
	case !ok || !closed || name == "":
		l.err = Errorf(at, "#include without a name in quotes")
	default:
		l.include(at, name)
	}
}

// marker handles the line marker in a C preprocessor's output, # 12 "file.x".
func (l *lexer) marker(rest string) {
	list := tokenize(rest, l.pos)
	if len(list) < 2 || list[0].kind != number || list[1].kind != text {
		return
	}
	if v, err := parseNumber(&list[0]); err == nil && v.Num.Mag < 1<<31 {
		l.pos.File, l.pos.Line = list[1].text, int(v.Num.Mag)-1
	}
}
