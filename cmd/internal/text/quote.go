// Quoting of names: unambiguous, and readable by a shell.

package text

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// quoting styles, by their names in ls.
const (
	Literal           = "literal"
	Shell             = "shell"
	ShellAlways       = "shell-always"
	ShellEscape       = "shell-escape"
	ShellEscapeAlways = "shell-escape-always"
	C                 = "c"
	Escape            = "escape"
)

// Styles lists all quoting styles.
var Styles = []string{Literal, Shell, ShellAlways, ShellEscape, ShellEscapeAlways, C, Escape}

// Quote formats a name in a style. The styles with "escape" in their name, and c, remove everything
// that a terminal would interpret.
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

// QuoteAlways quotes a name like coreutils inside a message.
func QuoteAlways(name string) string { return Quote(ShellEscapeAlways, name) }

// QuoteNeeded quotes a name like coreutils at the start of a message.
func QuoteNeeded(name string) string {
	if strings.Contains(name, ":") && !shellSpecial(strings.ReplaceAll(name, ":", ""), true) {
		return name // coreutils quote names with a colon here, but a URL always has a colon
	}
	return Quote(ShellEscape, name)
}

// ShellWord quotes a word so that any shell reads it back unchanged.
func ShellWord(s string) string {
	plain := func(r rune) bool {
		return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("/._-+,:@%", r)
	}
	if strings.IndexFunc(s, func(r rune) bool { return !plain(r) }) < 0 && s != "" {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}

// shellSpecial reports whether a shell would not read name as one plain word.
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

// isShellSpace reports whether a control character separates words.
func isShellSpace(r rune) bool { return r == '\t' || r == '\n' || r == '\r' }

// shellQuote puts name between single quotes, or between double quotes if it has a single quote and
// no characters special there. With escape, unprintable bytes become $'\ooo'.
func shellQuote(name string, escape bool) string {
	if strings.Contains(name, "'") && doubleQuotable(name) {
		return `"` + name + `"`
	}
	var b strings.Builder
	b.WriteByte('\'')
	open := false // between $' and ', for escaped bytes
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

// doubleQuotable reports whether name has no special characters between double quotes.
func doubleQuotable(name string) bool {
	for i, r := range name {
		if strings.ContainsRune("!\"#$&()*;<=>?[\\^`{|}~", r) || unprintable(name[i:], r) {
			return false
		}
	}
	return true
}

// unprintable reports whether r, the first rune of s, is not shown by terminals or is invalid
// UTF-8. Format characters, which can reorder other characters, count as unprintable, although ls
// shows them.
func unprintable(s string, r rune) bool {
	if r == utf8.RuneError {
		_, n := utf8.DecodeRuneInString(s)
		return n == 1
	}
	return !unicode.IsPrint(r) && !unicode.Is(unicode.Zs, r)
}

// cEscape escapes unprintable characters, backslashes and the characters in more as in C.
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

// escapeByte returns \n, \t and so on, or the byte in octal.
func escapeByte(c byte) string {
	const letters = "abtnvfr" // for the bytes from 7 on
	if c >= 7 && c <= 13 {
		return `\` + letters[c-7:c-6]
	}
	return fmt.Sprintf(`\%03o`, c)
}

// HideControl replaces unprintable characters by '?', because a server could use them to control
// the terminal.
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
