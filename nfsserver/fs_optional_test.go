// The optional interfaces of an FS: all are collected in one place, and documented.

package nfsserver

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
)

// A plainFS has only the methods of FS.
type plainFS struct{ FS }

// An ableFS has every optional interface.
type ableFS struct {
	FS
	NonBlocker
	LaterReader
	ACLer
	Locker
	MechanismCounter
}

func TestOptionalOfPlainFS(t *testing.T) {
	if got := optionalOf(plainFS{}); got != (optional{}) {
		t.Errorf("optionalOf(plainFS) = %+v, want no interface", got)
	}
}

func TestOptionalOfAbleFS(t *testing.T) {
	o := reflect.ValueOf(optionalOf(ableFS{}))
	for i := range o.NumField() {
		if o.Field(i).IsNil() {
			t.Errorf("field %s is nil, want the FS: optionalOf does not collect it", o.Type().Field(i).Name)
		}
	}
}

// TestOptionalHasEachInterface: some interfaces have a comment that begins with "A Name is an FS".
// Each is a field of optional, and is in the table for authors of an FS.
func TestOptionalHasEachInterface(t *testing.T) {
	page, err := os.ReadFile("../docs/library.md")
	if err != nil {
		t.Fatalf("os.ReadFile: %v", err)
	}
	want := slices.Sorted(maps.Keys(optionalInterfaces(t)))
	var got []string
	for f := range fieldsOf(reflect.TypeFor[optional]()) {
		got = append(got, f.Type.Name())
	}
	slices.Sort(got)
	if !slices.Equal(got, want) {
		t.Errorf("fields of optional are %q, want %q", got, want)
	}
	for _, name := range append(want, "LocalLocks") {
		if !strings.Contains(string(page), "\n| `"+name+"` |") {
			t.Errorf("docs/library.md has no row for %s", name)
		}
	}
}

func fieldsOf(t reflect.Type) func(func(reflect.StructField) bool) {
	return func(yield func(reflect.StructField) bool) {
		for i := range t.NumField() {
			if !yield(t.Field(i)) {
				return
			}
		}
	}
}

// optionalInterfaces returns this package's optional interfaces.
func optionalInterfaces(t *testing.T) map[string]bool {
	t.Helper()
	found := map[string]bool{}
	for _, name := range sources(t, ".", false) {
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.ParseComments)
		if err != nil {
			t.Fatalf("parser.ParseFile: %v", err)
		}
		for _, d := range file.Decls {
			decl, ok := d.(*ast.GenDecl)
			if !ok || decl.Tok != token.TYPE || decl.Doc == nil {
				continue
			}
			spec := decl.Specs[0].(*ast.TypeSpec)
			text := strings.Join(strings.Fields(decl.Doc.Text()), " ")
			if _, ok := spec.Type.(*ast.InterfaceType); ok && strings.Contains(text, spec.Name.Name+" is an FS ") {
				found[spec.Name.Name] = true
			}
		}
	}
	return found
}

// TestOnlyOptionalOfAsserts: only optionalOf asserts an FS's type.
func TestOnlyOptionalOfAsserts(t *testing.T) {
	optional := optionalInterfaces(t)
	for _, name := range sources(t, ".", true) {
		if name == "fs_optional.go" {
			continue
		}
		set := token.NewFileSet()
		file, err := parser.ParseFile(set, name, nil, 0)
		if err != nil {
			t.Fatalf("parser.ParseFile: %v", err)
		}
		ast.Inspect(file, func(n ast.Node) bool {
			for _, as := range assertedTypes(n) {
				if optional[nameHere(as)] {
					t.Errorf("%s asserts %s, want that in optionalOf", set.Position(as.Pos()), nameHere(as))
				}
			}
			return true
		})
	}
}

// assertedTypes returns the types in a type assertion, or in a case of a type switch.
func assertedTypes(n ast.Node) []ast.Expr {
	switch n := n.(type) {
	case *ast.TypeAssertExpr:
		if n.Type != nil {
			return []ast.Expr{n.Type}
		}
	case *ast.CaseClause:
		return n.List
	}
	return nil
}

// nameHere returns the name of a type in this package, as this package or others write it, or ""
// for other types.
func nameHere(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.Ident:
		return e.Name
	case *ast.SelectorExpr:
		if from, ok := e.X.(*ast.Ident); ok && from.Name == "nfsserver" {
			return e.Sel.Name
		}
	}
	return ""
}

// sources returns the Go files in a directory, except tests. With deep it includes the directories
// below.
func sources(t *testing.T, dir string, deep bool) (names []string) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && path != dir && !deep:
			return fs.SkipDir
		case strings.HasSuffix(path, ".go") && !strings.HasSuffix(path, "_test.go"):
			names = append(names, path)
		}
		return nil
	})
	if err != nil {
		t.Fatalf("filepath.WalkDir: %v", err)
	}
	return names
}
