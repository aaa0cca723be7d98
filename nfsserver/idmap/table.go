// The static table: a file of principals with their users.

package idmap

import (
	"bytes"
	"fmt"
	"strconv"
	"strings"
)

// A Table has the principals of a file with their users. A nil Table is empty.
type Table struct{ targets map[string]target }

// A target is a principal's user: a name, or numbers.
type target struct {
	name     string // "": the numbers
	uid, gid uint32
}

// of returns the target of a principal.
func (t *Table) of(principal string) (target, bool) {
	if t == nil {
		return target{}, false
	}
	to, ok := t.targets[principal]
	return to, ok
}

// Len returns the number of principals.
func (t *Table) Len() int {
	if t == nil {
		return 0
	}
	return len(t.targets)
}

// An Error is a mistake in a file.
type Error struct {
	File         string
	Line, Column int // from 1; columns in bytes
	Problem      string
}

func (e *Error) Error() string {
	return fmt.Sprintf("%s:%d:%d: %s", e.File, e.Line, e.Column, e.Problem)
}

// ParseTable parses a file with a line PRINCIPAL = USER or PRINCIPAL = UID:GID for each principal.
// A # at the start of a line or after a blank begins a comment. The error has the type *Error.
func ParseTable(file string, text []byte) (*Table, error) {
	t := &Table{targets: map[string]target{}}
	for i, line := range bytes.Split(text, []byte("\n")) {
		if column, problem := t.line(string(bytes.TrimSuffix(line, []byte("\r")))); problem != "" {
			return nil, &Error{file, 1 + i, 1 + column, problem}
		}
	}
	return t, nil
}

// line parses one line; problem "": it is right.
func (t *Table) line(line string) (column int, problem string) {
	const blanks = " \t"
	for i := range len(line) {
		switch c := line[i]; {
		case c < ' ' && c != '\t' || c == 0x7f:
			return i, "a control byte: this is not a text file"
		case c == '#' && (i == 0 || strings.IndexByte(blanks, line[i-1]) >= 0):
			return t.line(line[:i])
		}
	}
	begin := len(line) - len(strings.TrimLeft(line, blanks))
	if begin == len(line) {
		return 0, ""
	}
	left, right, ok := strings.Cut(line, "=")
	if !ok {
		return begin, "a line is PRINCIPAL = USER, such as alice@EXAMPLE.ORG = alice"
	}
	principal, value := strings.Trim(left, blanks), strings.Trim(right, blanks)
	valueAt := len(left) + 1 + len(right) - len(strings.TrimLeft(right, blanks))
	if _, _, ok := cutRealm(principal); !ok || strings.ContainsAny(principal, blanks) {
		return begin, fmt.Sprintf("%q is not a principal with its realm, such as alice@EXAMPLE.ORG", principal)
	}
	if _, ok := t.targets[principal]; ok {
		return begin, fmt.Sprintf("%s is given before: leave one of the lines out", principal)
	}
	to, problem := parseTarget(value)
	if problem == "" {
		t.targets[principal] = to
	}
	return valueAt, problem
}

// parseTarget parses a user's name, or UID:GID.
func parseTarget(value string) (to target, problem string) {
	uid, gid, numbers := strings.Cut(value, ":")
	if !numbers {
		if value == "" || value[0] == '#' || strings.ContainsAny(value, " \t=") || strings.Trim(value, "0123456789") == "" {
			return to, fmt.Sprintf("%q is neither a user's name nor UID:GID, such as 1000:1000", value)
		}
		return target{name: value}, ""
	}
	u, err := strconv.ParseUint(uid, 10, 32)
	g, err2 := strconv.ParseUint(gid, 10, 32)
	if err != nil || err2 != nil || uint32(u) == Anonymous || uint32(g) == Anonymous {
		return to, fmt.Sprintf("%q: a user and a group are numbers from 0 to 4294967294, such as 1000:1000", value)
	}
	return target{uid: uint32(u), gid: uint32(g)}, ""
}
