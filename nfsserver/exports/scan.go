// From bytes to words: quotes, escapes, comments and continuation lines.

package exports

import (
	"bytes"
	"fmt"
	"strings"
	"unicode"
)

// A scanner reads a file's bytes. A line ending with a backslash continues in the next one;
// backslash and line end count as a blank.
type scanner struct {
	file string
	text []byte
	at   int // offset of the next byte

	// The last position asked for: line, and offset of its first byte. Positions are asked for in
	// ascending order, so the text is counted once.
	line, begins int
}

// fail returns an error at offset at.
func (s *scanner) fail(at int, format string, args ...any) error {
	line, column := s.place(at)
	return &Error{s.file, line, column, printable(fmt.Sprintf(format, args...))}
}

// printable returns a text in one line: control bytes, which a path may contain, are escaped as in
// the file.
func printable(text string) string {
	if strings.IndexFunc(text, unicode.IsControl) < 0 {
		return text
	}
	var b strings.Builder
	for _, r := range text {
		if unicode.IsControl(r) {
			fmt.Fprintf(&b, `\%03o`, r)
		} else {
			b.WriteRune(r)
		}
	}
	return b.String()
}

// place returns the line and column of an offset, from 1.
func (s *scanner) place(at int) (line, column int) {
	if at < s.begins {
		s.line, s.begins = 0, 0
	}
	since := s.text[s.begins:at]
	s.line += bytes.Count(since, []byte("\n"))
	s.begins += bytes.LastIndexByte(since, '\n') + 1
	return 1 + s.line, 1 + at - s.begins
}

// peek returns the next byte, or a line end after the text.
func (s *scanner) peek() byte {
	if s.at < len(s.text) {
		return s.text[s.at]
	}
	return '\n'
}

// continued reports whether an escaped line end is next, and its length.
func (s *scanner) continued() (n int, ok bool) {
	rest := s.text[s.at:]
	switch {
	case len(rest) >= 2 && rest[0] == '\\' && rest[1] == '\n':
		return 2, true
	case len(rest) >= 3 && rest[0] == '\\' && rest[1] == '\r' && rest[2] == '\n':
		return 3, true
	}
	return 0, false
}

// blanks skips to the next word of the line, or to its end. A comment belongs to the end: as in
// exportfs(8), a backslash does not continue it.
func (s *scanner) blanks() {
	for {
		n, ok := s.continued()
		switch c := s.peek(); {
		case ok:
			s.at += n
		case c == ' ' || c == '\t' || c == '\r':
			s.at++
		case c == '#':
			for s.peek() != '\n' {
				s.at++
			}
			return
		default:
			return
		}
	}
}

// skipLine skips this line and its continuation lines.
func (s *scanner) skipLine() {
	for s.peek() != '\n' {
		if n, ok := s.continued(); ok {
			s.at += n
		} else {
			s.at++
		}
	}
	s.at++
}

// lineEnd reports whether the line ends here, after blanks.
func (s *scanner) lineEnd() bool { return s.peek() == '\n' }

// wordEnd reports whether a word ends here.
func (s *scanner) wordEnd() bool {
	switch s.peek() {
	case ' ', '\t', '\r', '\n':
		return true
	}
	_, ok := s.continued()
	return ok
}

// path parses a path, with double quotes around any part and \ooo for bytes that are hard to type.
func (s *scanner) path() (string, error) {
	var out []byte
	quote := -1 // offset of the open quote
	for {
		c := s.peek()
		switch {
		case quote >= 0 && c == '\n':
			return "", s.fail(quote, "this quote is not closed on its line")
		case quote < 0 && s.wordEnd():
			return string(out), nil
		case c == '"':
			if s.at++; quote >= 0 {
				quote = -1
			} else {
				quote = s.at - 1
			}
		case c == '\\':
			b, err := s.octal()
			if err != nil {
				return "", err
			}
			out = append(out, b)
		default:
			out = append(out, c)
			s.at++
		}
	}
}

// octal parses \ooo.
func (s *scanner) octal() (byte, error) {
	begin, n := s.at, 0
	for i := 1; i <= 3; i++ {
		d := byte(' ')
		if begin+i < len(s.text) {
			d = s.text[begin+i]
		}
		if d < '0' || d > '7' {
			return 0, s.fail(begin, `a backslash stands before three octal digits, such as \040 for a blank, or ends the line`)
		}
		n = n*8 + int(d-'0')
	}
	if n == 0 || n > 0xff {
		return 0, s.fail(begin, "%s is not a byte that a path can have", s.text[begin:begin+4])
	}
	s.at += 4
	return byte(n), nil
}

// until returns the text up to a byte in stop, or to the word's end.
func (s *scanner) until(stop string) string {
	begin := s.at
	for !s.wordEnd() && !strings.ContainsRune(stop, rune(s.peek())) {
		s.at++
	}
	return string(s.text[begin:s.at])
}
