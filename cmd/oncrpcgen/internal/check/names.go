// Names in Go, and the scope that keeps them apart.

package check

import (
	"strings"

	"github.com/nfsrdma/nfsrdma/cmd/oncrpcgen/internal/syntax"
)

// GoName returns an exported name for a name in a file: NFS3_OK stays, nfs_fh3 becomes NfsFh3.
func GoName(x string) string {
	if strings.ToUpper(x) == x {
		return exported(strings.TrimLeft(x, "_"))
	}
	return camel(x)
}

// camel joins a name's parts, each with a capital. Digits from two parts stay apart.
func camel(x string) string {
	var b strings.Builder
	for part := range strings.SplitSeq(x, "_") {
		if part == "" {
			continue
		}
		if s := b.String(); s != "" && isDigit(s[len(s)-1]) && isDigit(part[0]) {
			b.WriteByte('_')
		}
		b.WriteString(strings.ToUpper(part[:1]) + part[1:])
	}
	return exported(b.String())
}

// title is camel for a name in capitals, too: NFS_V3 becomes NfsV3.
func title(x string) string {
	if strings.ToUpper(x) == x {
		x = strings.ToLower(x)
	}
	return camel(x)
}

func isDigit(c byte) bool { return c >= '0' && c <= '9' }

// exported puts an X before a name that has no capital.
func exported(s string) string {
	if s == "" || isDigit(s[0]) {
		return "X" + s
	}
	return s
}

// A scope has one Go scope's names, each with the place and the name that it comes from.
type scope map[string]syntax.Name

// add adds a name in Go; two names that become the same are an error.
func (s scope) add(c *checker, goName string, from syntax.Name) {
	old, ok := s[goName]
	switch {
	case !ok:
		s[goName] = from
	case old.Text == from.Text:
		c.fail(from.Pos, "%s is already declared at %v", from.Text, old.Pos)
	default:
		c.fail(from.Pos, "%s and %s (at %v) both become %s in Go: rename one", from.Text, old.Text, old.Pos, goName)
	}
}

// methods returns a version's procedures' names in Go: without the beginning that all share.
func methods(procs []*syntax.Proc) []string {
	prefix := ""
	if len(procs) > 0 {
		prefix = procs[0].Name.Text
	}
	for _, p := range procs {
		for !strings.HasPrefix(p.Name.Text, prefix) {
			prefix = prefix[:len(prefix)-1]
		}
	}
	prefix = prefix[:strings.LastIndexByte(prefix, '_')+1]
	if len(procs) == 1 {
		head, _, _ := strings.Cut(procs[0].Name.Text, "_")
		if prefix = ""; strings.Contains(strings.ToUpper(head), "PROC") {
			prefix = head + "_"
		}
	}
	var names []string
	for _, p := range procs {
		name := strings.TrimPrefix(p.Name.Text, prefix)
		if name == "" || isDigit(name[0]) {
			name = p.Name.Text
		}
		names = append(names, title(name))
	}
	return names
}
