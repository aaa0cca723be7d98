// Quoting: how names are written so that they can be told apart, and read back by a shell.

package text

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// quoting styles, by the words of ls.
const (
	Literal           = "literal"
	Shell             = "shell"
	ShellAlways       = "shell-always"
	ShellEscape       = "shell-escape"
	ShellEscapeAlways = "shell-escape-always"
	C                 = "c"
	Escape            = "escape"
)

// Styles are all of them.
var Styles = []string{Literal, Shell, ShellAlways, ShellEscape, ShellEscapeAlways, C, Escape}

// Quote writes a name in a style. Styles with an escape in their name, and c,
// leave nothing in that a terminal would act on.
func Quote(style, name string) string {
	switch style {
	case Shell, ShellEscape:
		if !shellSpecial(name, style == ShellEscape) {
			return name
		}
		return shellQuote(name, style == ShellEscape)
	case ShellAlways, ShellEscapeAlways:
		return shellQuote(name, style == ShellEscapeAlways)
	case C:
		return `"` + cEscape(name, `"`) + `"`
	case Escape:
		return cEscape(name, " ")
	}
	return name
}

// QuoteAlways is how coreutils name a file in the middle of a message.
func QuoteAlways(name string) string { return Quote(ShellEscapeAlways, name) }

// QuoteNeeded is how they name it where the message begins with it.
func QuoteNeeded(name string) string {
	if strings.Contains(name, ":") && !shellSpecial(strings.ReplaceAll(name, ":", ""), true) {
		return name // coreutils quote a colon there; each URL has one
	}
	return Quote(ShellEscape, name)
}

// ShellWord writes a word of a command line that any shell reads back as it is.
func ShellWord(s string) string {
	plain := func(r rune) bool {
		return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("/._-+,:@%", r)
	}
	if strings.IndexFunc(s, func(r rune) bool { return !plain(r) }) < 0 && s != "" {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}

// shellSpecial reports whether a shell would not take name as one plain word.
func shellSpecial(name string, escape bool) bool {
	if name == "" || name == "{" || name == "}" || name[0] == '#' || name[0] == '~' {
		return true
	}
	for i, r := range name {
		if strings.ContainsRune(" !\"$&()*;<=>?[\\^`|'", r) || unprintable(name[i:], r) && (escape || isShellSpace(r)) {
			return true
		}
	}
	return false
}

// isShellSpace is about the control characters that separate words.
func isShellSpace(r rune) bool { return r == '\t' || r == '\n' || r == '\r' }

// shellQuote puts name between single quotes, or double ones when it has a single
// quote and nothing that means something between double ones. With escape what is
// not printable becomes $'\ooo'.
func shellQuote(name string, escape bool) string {
	if strings.Contains(name, "'") && doubleQuotable(name) {
		return `"` + name + `"`
	}
	var b strings.Builder
	b.WriteByte('\'')
	open := false // between $' and ', for what is escaped
	for i := 0; i < len(name); {
		r, n := utf8.DecodeRuneInString(name[i:])
		switch bad := unprintable(name[i:], r); {
		case escape && bad && !open:
			b.WriteString(`'$'`)
			open = true
		case open && !bad:
			b.WriteString(`''`)
			open = false
		}
		switch {
		case open:
			for _, c := range []byte(name[i : i+n]) {
				b.WriteString(escapeByte(c))
			}
		case r == '\'':
			b.WriteString(`'\''`)
		default:
			b.WriteString(name[i : i+n])
		}
		i += n
	}
	b.WriteByte('\'')
	return b.String()
}

// doubleQuotable reports whether all of name stands for itself between double quotes.
func doubleQuotable(name string) bool {
	for i, r := range name {
		if strings.ContainsRune("!\"#$&()*;<=>?[\\^`{|}~", r) || unprintable(name[i:], r) {
			return false
		}
	}
	return true
}

// unprintable reports whether the rune at the start of s, which is r, is none that
// a terminal shows, or is no UTF-8. Characters of format, with which the order of
// others can be changed, are among them, though ls shows them.
func unprintable(s string, r rune) bool {
	if r == utf8.RuneError {
		_, n := utf8.DecodeRuneInString(s)
		return n == 1
	}
	return !unicode.IsPrint(r) && !unicode.Is(unicode.Zs, r)
}

// cEscape escapes as C does what is not printable, the backslash, and the characters of more.
func cEscape(name, more string) string {
	var b strings.Builder
	for i := 0; i < len(name); {
		r, n := utf8.DecodeRuneInString(name[i:])
		switch {
		case unprintable(name[i:], r):
			for _, c := range []byte(name[i : i+n]) {
				b.WriteString(escapeByte(c))
			}
		case r == '\\' || strings.ContainsRune(more, r):
			b.WriteByte('\\')
			b.WriteRune(r)
		default:
			b.WriteString(name[i : i+n])
		}
		i += n
	}
	return b.String()
}

// escapeByte is \n, \t and so on, or the byte in octal.
func escapeByte(c byte) string {
	const letters = "abtnvfr" // from 7 on
	if c >= 7 && c <= 13 {
		return `\` + letters[c-7:c-6]
	}
	return fmt.Sprintf(`\%03o`, c)
}

// HideControl replaces what is not printable, with which a server could write on the terminal, by '?'.
func HideControl(name string) string {
	var b strings.Builder
	for i := 0; i < len(name); {
		r, n := utf8.DecodeRuneInString(name[i:])
		if unprintable(name[i:], r) {
			b.WriteByte('?')
		} else {
			b.WriteString(name[i : i+n])
		}
		i += n
	}
	return b.String()
}
