// The lexer: characters to tokens, comments kept beside them.

package syntax

import (
	"path/filepath"
	"strings"
)

// Bounds, so that no input takes unbounded time or memory.
const (
	maxTokens  = 1 << 20
	maxInclude = 16 // files within files
	maxFiles   = 1000
	maxExpand  = 16 // macros within macros
	maxReplace = 1 << 16
	maxNesting = 64 // bodies within bodies, and #if within #if
)

// Options are the surroundings in which a file is read.
type Options struct {
	// Defines has the macros that are set before the file begins. An empty value is a macro without
	// a body.
	Defines map[string]string
	// Include returns an included file's content. nil: #include is refused.
	Include func(name string) ([]byte, error)
}

// A lexer reads one file, and the files that it includes, into tokens.
type lexer struct {
	opts   Options
	macros map[string]macro
	tokens []token
	err    *Error
	depth  int // files around this one
	files  int // included so far
	macro  int // replacements so far

	// Of the current file.
	src     string
	at      int
	pos     Pos
	fresh   bool      // only blanks are before at on its line
	pending []Comment // comments that belong to the next token
	ended   int       // line on which the last one ends
	first   int       // the file's first token
	blocks  []block   // open #if
	defined *[]Define
}

// lex returns a file's tokens, with an eof at their end, and its macros that are integers.
func lex(name string, src []byte, opts Options) ([]token, []Define, *Error) {
	var defined []Define
	l := &lexer{opts: opts, macros: map[string]macro{}, defined: &defined}
	for name, body := range opts.Defines {
		l.macros[name] = macro{body: tokenize(body, Pos{File: "-D " + name, Line: 1, Col: 1})}
	}
	l.file(name, src)
	if l.err != nil {
		return nil, nil, l.err
	}
	return append(l.tokens, token{kind: eof, pos: l.pos, doc: l.pending}), defined, nil
}

// file reads one file.
func (l *lexer) file(name string, src []byte) {
	l.src, l.at, l.pos, l.fresh, l.pending, l.blocks = string(src), 0, Pos{name, 1, 1}, true, nil, nil
	l.first = len(l.tokens)
	for l.err == nil && l.next() {
	}
	if len(l.blocks) > 0 && l.err == nil {
		l.err = Errorf(l.blocks[len(l.blocks)-1].pos, "#if without #endif")
	}
}

// include reads another file.
func (l *lexer) include(at Pos, name string) {
	if l.files++; l.opts.Include == nil || l.depth == maxInclude || l.files > maxFiles {
		l.err = Errorf(at, "cannot include %s: no more files can be included here", name)
		return
	}
	if !filepath.IsAbs(name) {
		name = filepath.Join(filepath.Dir(at.File), name)
	}
	src, err := l.opts.Include(name)
	if err != nil {
		l.err = Errorf(at, "cannot include: %v", err)
		return
	}
	outer := *l
	l.depth++
	l.file(name, src)
	inner := *l
	*l = outer
	l.tokens, l.err, l.files, l.macro = inner.tokens, inner.err, inner.files, inner.macro
	l.first = len(l.tokens)
}

// skipping reports whether the current lines are left out by #if.
func (l *lexer) skipping() bool { return len(l.blocks) > 0 && !l.blocks[len(l.blocks)-1].active }

// step moves over n bytes.
func (l *lexer) step(n int) string {
	s := l.src[l.at : l.at+n]
	l.at += n
	l.pos.Col += n
	return s
}

func (l *lexer) newline() {
	l.at++
	l.pos.Line++
	l.pos.Col = 1
	l.fresh = true
}

// next reads one token, comment or directive; false: the file ends.
func (l *lexer) next() bool {
	if l.at == len(l.src) {
		return false
	}
	rest := l.src[l.at:]
	switch c := rest[0]; {
	case c == '\n':
		l.newline()
	case c == ' ' || c == '\t' || c == '\r' || c == '\f' || c == '\v':
		l.step(1)
	case c == '%' && l.pos.Col == 1:
		l.step(lineLength(rest)) // for the C compiler alone
	case c == '#' && l.fresh:
		l.directive()
	case strings.HasPrefix(rest, "/*"):
		l.comment()
	case strings.HasPrefix(rest, "//"):
		start := l.pos
		l.keep(start, l.step(lineLength(rest))[2:])
	default:
		l.fresh = false
		if l.skipping() {
			l.step(1)
			return true
		}
		l.token(rest)
	}
	return true
}

func lineLength(s string) int {
	if n := strings.IndexByte(s, '\n'); n >= 0 {
		return n
	}
	return len(s)
}

// comment reads a comment.
func (l *lexer) comment() {
	start := l.pos
	n := strings.Index(l.src[l.at+2:], "*/")
	if n < 0 {
		l.err = Errorf(start, "comment without an end")
		return
	}
	body := l.src[l.at+2 : l.at+2+n]
	for end := l.at + n + 4; l.at < end; {
		if l.src[l.at] == '\n' {
			fresh := l.fresh
			l.newline()
			l.fresh = fresh
		} else {
			l.step(1)
		}
	}
	l.keep(start, body)
}

// keep puts a comment beside the token before it on its line, or keeps it for the next token.
func (l *lexer) keep(start Pos, body string) {
	if l.skipping() {
		return
	}
	if n := len(l.tokens); n > l.first && l.tokens[n-1].pos.Line == start.Line {
		l.tokens[n-1].tail = append(l.tokens[n-1].tail, Comment{body, start})
		return
	}
	l.pending, l.ended = append(l.pending, Comment{body, start}), l.pos.Line
}

// token reads one token.
func (l *lexer) token(rest string) {
	t, n := scan(rest, l.pos)
	if n == 0 {
		l.err = Errorf(l.pos, "unexpected character %q", rest[:1])
		return
	}
	l.step(n)
	if l.ended+1 >= t.pos.Line { // otherwise the comment stands alone
		t.doc = l.pending
	}
	l.pending = nil
	l.emit(t, 0)
}

// scan reads the token at s's start, and returns its length; 0: there is none.
func scan(s string, pos Pos) (token, int) {
	n := 0
	switch c := s[0]; {
	case isLetter(c):
		for n < len(s) && (isLetter(s[n]) || isDigit(s[n])) {
			n++
		}
		return token{kind: ident, text: s[:n], pos: pos}, n
	case isDigit(c) || c == '-' && len(s) > 1 && isDigit(s[1]):
		for n = 1; n < len(s) && (isLetter(s[n]) || isDigit(s[n])); n++ {
		}
		return token{kind: number, text: s[:n], pos: pos}, n
	case c == '"':
		if n = strings.IndexAny(s[1:], "\"\n"); n < 0 || s[1+n] == '\n' {
			return token{}, 0
		}
		return token{kind: text, text: s[1 : 1+n], pos: pos}, n + 2
	case strings.IndexByte("{}()[]<>,;:=*", c) >= 0:
		return token{kind: kind(c), pos: pos}, 1
	}
	return token{}, 0
}

func isLetter(c byte) bool { return c == '_' || c|0x20 >= 'a' && c|0x20 <= 'z' }
func isDigit(c byte) bool  { return c >= '0' && c <= '9' }

// emit appends a token, with macros replaced.
func (l *lexer) emit(t token, depth int) {
	m, ok := l.macros[t.text]
	switch {
	case l.err != nil:
	case t.kind != ident || !ok:
		if len(l.tokens) == maxTokens {
			l.err = Errorf(t.pos, "more than %d tokens", maxTokens)
			return
		}
		l.tokens = append(l.tokens, t)
	case m.params:
		l.err = Errorf(t.pos, "the macro %s has parameters, which are not replaced here", t.text)
	case depth == maxExpand || l.macro == maxReplace:
		l.err = Errorf(t.pos, "the macro %s contains itself, or too many others", t.text)
	default:
		l.macro++
		for i := range m.body {
			b := m.body[i]
			b.pos, b.from = t.pos, t.text
			if i == 0 {
				b.doc = t.doc
			}
			l.emit(b, depth+1)
		}
	}
}
