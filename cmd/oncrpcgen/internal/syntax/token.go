// Tokens, their positions, and the errors at them.

package syntax

import "fmt"

// A Pos is a place in a source file. Line and Col count from 1; Col counts bytes.
type Pos struct {
	File      string
	Line, Col int
}

func (p Pos) String() string { return fmt.Sprintf("%s:%d:%d", p.File, p.Line, p.Col) }

// An Error is a fault in a source file, with its place.
type Error struct {
	Pos Pos
	Msg string
}

func (e *Error) Error() string { return e.Pos.String() + ": " + e.Msg }

// Errorf returns an Error at a place.
func Errorf(p Pos, format string, args ...any) *Error {
	return &Error{Pos: p, Msg: fmt.Sprintf(format, args...)}
}

// A kind is a token's kind. Punctuation has its own byte as its kind.
type kind int

const (
	eof kind = iota + 256
	ident
	number
	text // in quotes
)

// A token is one word or sign, with the comments around it.
type token struct {
	kind kind
	text string // an ident, a number, or a text without its quotes
	pos  Pos
	doc  []Comment // comments between the previous token's line and this token
	tail []Comment // comments after this token on its line
	from string    // the macro that this token comes from
}

func (t *token) String() string {
	switch t.kind {
	case eof:
		return "the end of the file"
	case ident, number:
		return t.text
	case text:
		return `"` + t.text + `"`
	}
	return string(rune(t.kind))
}
