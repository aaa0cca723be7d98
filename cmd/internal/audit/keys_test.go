// The keys of records: all are documented.

package audit

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// writers are the methods of line whose first argument is a key.
var writers = []string{"key", "open", "number", "word", "hex", "text", "stamp", "acl"}

// keys lists the keys that line.go writes.
func keys(t *testing.T) (list []string) {
	f, err := parser.ParseFile(token.NewFileSet(), "line.go", nil, parser.SkipObjectResolution)
	if err != nil {
		t.Fatalf("parser.ParseFile: %v", err)
	}
	ast.Inspect(f, func(n ast.Node) bool {
		call, ok := n.(*ast.CallExpr)
		if !ok || len(call.Args) == 0 {
			return true
		}
		method, ok := call.Fun.(*ast.SelectorExpr)
		if !ok || !slices.Contains(writers, method.Sel.Name) {
			return true
		}
		prefixes, arg := []string{""}, call.Args[0]
		if sum, ok := arg.(*ast.BinaryExpr); ok {
			// a key with both prefixes: for the call's object, and for the target of RENAME and
			// LINK
			prefixes, arg = []string{"", "to_"}, sum.Y
		}
		if literal, ok := arg.(*ast.BasicLit); ok {
			key, _ := strconv.Unquote(literal.Value)
			for _, prefix := range prefixes {
				list = append(list, prefix+key)
			}
		}
		return true
	})
	slices.Sort(list)
	return slices.Compact(list)
}

func TestDocumentedKeys(t *testing.T) {
	page, err := os.ReadFile("../../../docs/monitor.md")
	if err != nil {
		t.Fatalf("os.ReadFile: %v", err)
	}
	_, section, _ := strings.Cut(string(page), "\n## A record of all changes\n")
	section, _, _ = strings.Cut(section, "\n## ")
	described := ""
	for line := range strings.Lines(section) {
		if cell, _, ok := strings.Cut(strings.TrimPrefix(line, "| "), " |"); ok {
			described += cell
		}
	}
	all := keys(t)
	if len(all) < 30 {
		t.Errorf("line.go writes %d keys, want at least 30: %q", len(all), all)
	}
	for _, key := range all {
		if !strings.Contains(described, "`"+key+"`") {
			t.Errorf("the table of docs/monitor.md lacks the key %s", key)
		}
	}
}
