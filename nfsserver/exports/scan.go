// From bytes to words: quotes, escapes, comments and lines that go on.

package exports

import (
	"bytes"
	"fmt"
	"strings"
	"unicode"
)

// A scanner walks over the bytes of a file. A line that ends with a backslash goes on in the next
// one, where backslash and line end stand for a blank.
type scanner struct {
	file string
	text []byte
	at   int // of the next byte

	// The last place that was asked for: a line and the offset at which it begins. Places are asked
	// for from the start of the text to its end, so that the text is counted once.
	line, begins int
}

// fail is the error of what stands at offset at.
func (s *scanner) fail(at int, format string, args ...any) error {
	line, column := s.place(at)
	return &Error{s.file, line, column, printable(fmt.Sprintf(format, args...))}
}

// printable is a text in one line: control bytes, which a path can have, as in the file.
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

// place is the line and the column of an offset, from 1.
func (s *scanner) place(at int) (line, column int) {
	if at < s.begins {
		s.line, s.begins = 0, 0
	}
	since := s.text[s.begins:at]
	s.line += bytes.Count(since, []byte("\n"))
	s.begins += bytes.LastIndexByte(since, '\n') + 1
	return 1 + s.line, 1 + at - s.begins
}

// peek is the next byte, or a line end where there is none.
func (s *scanner) peek() byte {
	if s.at < len(s.text) {
		return s.text[s.at]
	}
	return '\n'
}

// continued reports whether a line end that does not count is next, and its length.
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

// skipLine goes to the next line that does not continue this one.
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

// path reads a path, with double quotes around any part of it and \ooo for bytes that are hard to
// write.
func (s *scanner) path() (string, error) {
	var out []byte
	quote := -1 // where the one that is open began
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

// octal reads \ooo.
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

// until reads up to one of the bytes of stop, or to the end of the word.
func (s *scanner) until(stop string) string {
	begin := s.at
	for !s.wordEnd() && !strings.ContainsRune(stop, rune(s.peek())) {
		s.at++
	}
	return string(s.text[begin:s.at])
}
