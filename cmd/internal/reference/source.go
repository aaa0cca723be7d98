// The source of the module, parsed: declarations with their comments.

package reference

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

const modulePath = "github.com/nfsrdma/nfsrdma/"

// A module has the module's packages by folder, without tests.
type module struct {
	fset *token.FileSet
	dirs map[string]*folder
}

// A folder is one package.
type folder struct {
	dir   string
	files []*ast.File
	types map[string]*ast.TypeSpec
	// funcs has functions and methods by name; if several methods share a name, only the last one
	funcs map[string]*ast.FuncDecl
}

// documented are the nested modules that the pages describe: JuiceFS volumes, and the program that
// serves them.
var documented = []string{"nfsserver/juicefs", "cmd/nfsrdmad-juicefs"}

// load parses all packages below root, without nested modules except documented.
func load(root string) (*module, error) {
	m := &module{fset: token.NewFileSet(), dirs: map[string]*folder{}}
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && path != root && (strings.HasPrefix(d.Name(), ".") || d.Name() == "testdata" || d.Name() == "test" || isOther(root, path)):
			return filepath.SkipDir
		case d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go"):
			return nil
		}
		file, err := parser.ParseFile(m.fset, path, nil, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		dir, err := filepath.Rel(root, filepath.Dir(path))
		if err == nil {
			m.add(filepath.ToSlash(dir), file)
		}
		return err
	})
	return m, err
}

// isOther reports whether dir is an undocumented module.
func isOther(root, dir string) bool {
	_, err := os.Stat(filepath.Join(dir, "go.mod"))
	name, _ := filepath.Rel(root, dir)
	return err == nil && !slices.Contains(documented, filepath.ToSlash(name))
}

// add adds a file to its package.
func (m *module) add(dir string, file *ast.File) {
	p := m.dirs[dir]
	if p == nil {
		p = &folder{dir: dir, types: map[string]*ast.TypeSpec{}, funcs: map[string]*ast.FuncDecl{}}
		m.dirs[dir] = p
	}
	p.files = append(p.files, file)
	for _, d := range file.Decls {
		switch d := d.(type) {
		case *ast.FuncDecl:
			p.funcs[d.Name.Name] = d
		case *ast.GenDecl:
			for _, s := range d.Specs {
				if t, ok := s.(*ast.TypeSpec); ok {
					p.types[t.Name.Name] = t
				}
			}
		}
	}
}

// folder returns the package in a folder.
func (m *module) folder(dir string) (*folder, error) {
	if p := m.dirs[dir]; p != nil {
		return p, nil
	}
	return nil, fmt.Errorf("there is no package in %s", dir)
}

// imported returns the module's package that a file calls name, or nil.
func (m *module) imported(p *folder, pos token.Pos, name string) *folder {
	for _, f := range p.files {
		if pos < f.FileStart || pos >= f.FileEnd {
			continue
		}
		for _, i := range f.Imports {
			path, _ := strconv.Unquote(i.Path.Value)
			dir, ours := strings.CutPrefix(path, modulePath)
			if ours && (i.Name != nil && i.Name.Name == name || i.Name == nil && m.dirs[dir] != nil && m.dirs[dir].files[0].Name.Name == name) {
				return m.dirs[dir]
			}
		}
	}
	return nil
}

// text returns the string value of an expression, with "…" for parts that are not literals.
func text(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.BasicLit:
		if s, err := strconv.Unquote(e.Value); err == nil && e.Kind == token.STRING {
			return s
		}
	case *ast.BinaryExpr:
		if e.Op == token.ADD {
			return text(e.X) + text(e.Y)
		}
	case *ast.CallExpr:
		if len(e.Args) > 0 && isLiteral(e.Args[0]) { // fmt.Sprintf, or a conversion
			return text(e.Args[0])
		}
	}
	return "…"
}

func isLiteral(e ast.Expr) bool {
	l, ok := e.(*ast.BasicLit)
	return ok && l.Kind == token.STRING
}
