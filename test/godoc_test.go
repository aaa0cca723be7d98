// The packages as their users read them: each has a comment, and its code comes from an example
// that runs.

package test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// shown are the packages that programs use first. The comment of each package must show code, in
// one block.
var shown = []string{
	"chunks", "nfsclient", "nfsclient/fusefs", "nfsserver", "nfsserver/adapters/aferofs", "nfsserver/adapters/billyv5", "nfsserver/adapters/billyv6",
	"nfsserver/adapters/iofs", "nfsserver/adapters/webdavfs", "nfsserver/exports", "nfsserver/juicefs", "nfsserver/memfs", "nfsserver/nlm", "rnic", "rnic/iwarp", "rnic/rconn", "rnic/roce", "rpcrdma",
	"transport", "xdr",
}

// mayChange is the statement about later versions in such a package's comment.
const mayChange = "Until version 1"

// shownLines bounds the code in a comment: more than a line, and to be read at a glance.
const shownLines = 18

// codeIn returns the lines of the first block of code in a comment, without its indentation.
func codeIn(comment *ast.CommentGroup) (lines []string) {
	for _, c := range comment.List {
		code, ok := strings.CutPrefix(c.Text, "//\t")
		switch {
		case ok:
			lines = append(lines, strings.TrimSpace(code))
		case c.Text != "//" && len(lines) > 0:
			return lines
		}
	}
	return lines
}

// occurs returns the first line that does not occur in a source after the earlier ones; "" if all
// do.
func occurs(lines []string, source string) (missing string) {
	rest := strings.Split(source, "\n")
	for _, line := range lines {
		if line == "" {
			continue
		}
		at := slices.IndexFunc(rest, func(l string) bool { return strings.TrimSpace(l) == line })
		if at < 0 {
			return line
		}
		rest = rest[at+1:]
	}
	return ""
}

func TestPackageComments(t *testing.T) {
	comments := map[string]*ast.CommentGroup{}
	examples := map[string]string{}
	seen := map[string]bool{}
	eachFile(t, func(file string, src []byte) {
		dir := path.Dir(filepath.ToSlash(file))
		switch {
		case strings.HasSuffix(file, "example_test.go"):
			examples[dir] += string(src)
		case strings.HasSuffix(file, "_test.go"):
		default:
			f, err := parser.ParseFile(token.NewFileSet(), file, src, parser.PackageClauseOnly|parser.ParseComments)
			if err != nil {
				t.Error(err)
				return
			}
			if seen[dir] = true; f.Doc != nil {
				comments[dir] = f.Doc
			}
		}
	})
	for dir := range seen {
		if isLibrary(dir) && comments[dir] == nil {
			t.Errorf("package %s has no comment that go doc shows", dir)
		}
	}
	for _, dir := range shown {
		comment := comments[dir]
		if comment == nil {
			t.Errorf("%s is in the list and has no comment", dir)
			continue
		}
		code := codeIn(comment)
		if len(code) == 0 || len(code) > shownLines {
			t.Errorf("%s: its comment shows %d lines of code, want 1 to %d", dir, len(code), shownLines)
		}
		if line := occurs(code, examples[dir]); line != "" {
			t.Errorf("%s: its comment shows %q, which is not in its examples at that place", dir, line)
		}
		if !strings.Contains(comment.Text(), mayChange) {
			t.Errorf("%s: its comment does not say what may change: %q", dir, mayChange)
		}
	}
}

// TestShownCodeIsCompared: occurs finds lines that are missing or out of order.
func TestShownCodeIsCompared(t *testing.T) {
	source := "func Example() {\n\ta := 1\n\tb := 2\n\tuse(a, b)\n}\n"
	for _, c := range []struct{ code, missing string }{
		{"a := 1\n\nuse(a, b)", ""},
		{"a := 1\nuse(a)", "use(a)"},
		{"b := 2\na := 1", "a := 1"}, // in another order
	} {
		if got := occurs(strings.Split(c.code, "\n"), source); got != c.missing {
			t.Errorf("%q: %q is missing, want %q", c.code, got, c.missing)
		}
	}
}
