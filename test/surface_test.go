// The module type-checked from source: the users of each declaration.

package test

import (
	"bytes"
	"encoding/json"
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// A listed is a package as the go command lists it.
type listed struct {
	ImportPath, Dir, Export            string
	GoFiles, TestGoFiles, XTestGoFiles []string
	Imports, TestImports, XTestImports []string
}

// goList runs the go command and decodes its list.
func goList(t *testing.T, args ...string) (ps []*listed) {
	t.Helper()
	fields := "-json=ImportPath,Dir,Export,GoFiles,TestGoFiles,XTestGoFiles,Imports,TestImports,XTestImports"
	cmd := exec.Command("go", append([]string{"list", fields}, args...)...)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("go list: %v\n%s", err, &stderr)
	}
	for d := json.NewDecoder(bytes.NewReader(out)); ; {
		p := new(listed)
		if err := d.Decode(p); err == io.EOF {
			return ps
		} else if err != nil {
			t.Fatal(err)
		}
		ps = append(ps, p)
	}
}

// A surface is the module, type-checked from source, so that one declaration is one position in the
// file set for all its users; its imports come from the build cache.
type surface struct {
	fset    *token.FileSet
	listed  map[string]*listed
	parsed  map[string]*ast.File
	checked map[string]*types.Package
	foreign types.Importer
	// used holds the positions of declarations that have a user outside of their package.
	used map[token.Pos]bool
	// promised holds the names that stand as code in the documents for users.
	promised map[string]bool
	// interfaces are all interfaces found in the checked packages: a method called through one
	// counts as used.
	interfaces []*types.Interface
	// asked are names of methods that interfaces without a name, or with type parameters, ask for.
	asked map[string]bool
}

func loadSurface(t *testing.T) *surface {
	s := &surface{
		fset: token.NewFileSet(), listed: map[string]*listed{}, parsed: map[string]*ast.File{},
		checked: map[string]*types.Package{}, used: map[token.Pos]bool{}, promised: map[string]bool{}, asked: map[string]bool{"Unwrap": true, "Is": true, "As": true},
	}
	foreign := map[string]bool{"sort": true}
	for _, p := range goList(t, module+"...") {
		s.listed[p.ImportPath] = p
		for _, i := range slices.Concat(p.Imports, p.TestImports, p.XTestImports) {
			if !strings.HasPrefix(i, module) && i != "unsafe" {
				foreign[i] = true
			}
		}
	}
	args := []string{"-export", "-deps"}
	for i := range foreign {
		args = append(args, i)
	}
	export := map[string]string{}
	for _, p := range goList(t, args...) {
		export[p.ImportPath] = p.Export
	}
	s.foreign = importer.ForCompiler(s.fset, "gc", func(path string) (io.ReadCloser, error) { return os.Open(export[path]) })
	for path := range s.listed {
		s.check(t, path)
	}
	s.readDocuments(t)
	s.collectInterfaces()
	return s
}

// Import type-checks a package of the module, or reads the export data of another.
func (s *surface) Import(path string) (*types.Package, error) {
	if p := s.checked[path]; p != nil {
		return p, nil
	}
	if l := s.listed[path]; l != nil {
		return s.checkFiles(l, path, l.GoFiles, s)
	}
	return s.foreign.Import(path)
}

// check type-checks a package and its tests, and marks what they use from others.
func (s *surface) check(t *testing.T, path string) {
	l := s.listed[path]
	p, err := s.Import(path)
	if err != nil {
		t.Fatal(err)
	}
	if len(l.TestGoFiles) > 0 {
		p, _ = s.checkFiles(l, path, slices.Concat(l.GoFiles, l.TestGoFiles), s)
	}
	if len(l.XTestGoFiles) > 0 {
		s.checkFiles(l, path+"_test", l.XTestGoFiles, withPackage{s, p})
	}
}

// withPackage imports one package as its own tests see it.
type withPackage struct {
	*surface
	tested *types.Package
}

func (w withPackage) Import(path string) (*types.Package, error) {
	if path == w.tested.Path() {
		return w.tested, nil
	}
	return w.surface.Import(path)
}

// checkFiles type-checks files as one package. Errors end it only in a package without its tests:
// two instances of one type, as a package's tests can have, are no error here.
func (s *surface) checkFiles(l *listed, path string, names []string, imports types.Importer) (*types.Package, error) {
	var files []*ast.File
	for _, name := range names {
		name = filepath.Join(l.Dir, name)
		if s.parsed[name] == nil {
			f, err := parser.ParseFile(s.fset, name, nil, parser.SkipObjectResolution)
			if err != nil {
				return nil, err
			}
			s.parsed[name] = f
		}
		files = append(files, s.parsed[name])
	}
	conf := types.Config{Importer: imports, Error: func(error) {}}
	info := &types.Info{Uses: map[*ast.Ident]types.Object{}, Selections: map[*ast.SelectorExpr]*types.Selection{}, Types: map[ast.Expr]types.TypeAndValue{}}
	p, err := conf.Check(path, s.fset, files, info)
	if len(names) == len(l.GoFiles) && path == l.ImportPath {
		if err != nil {
			return nil, err
		}
		s.checked[path] = p
	}
	s.mark(path, files, info)
	return p, nil
}

// mark records the names that files use from other packages, and that examples use from their own.
func (s *surface) mark(path string, files []*ast.File, info *types.Info) {
	own := strings.TrimSuffix(path, "_test")
	var example bool
	named := map[*ast.InterfaceType]bool{} // implements compares their methods with their types
	foreign := func(o types.Object) bool { return o.Pkg() != nil && (example || o.Pkg().Path() != own) }
	visit := func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.Ident:
			if o := info.Uses[n]; o != nil && foreign(o) {
				s.used[o.Pos()] = true
			}
		case *ast.SelectorExpr:
			if sel := info.Selections[n]; sel != nil {
				s.markPath(sel, foreign)
			}
		case *ast.TypeSpec:
			if i, ok := n.Type.(*ast.InterfaceType); ok && n.TypeParams == nil {
				named[i] = true
			}
		case *ast.InterfaceType:
			if !named[n] {
				for _, m := range n.Methods.List {
					for _, name := range m.Names {
						s.asked[name.Name] = true
					}
				}
			}
		case *ast.CompositeLit:
			s.markLiteral(n, info, foreign)
		}
		return true
	}
	for _, f := range files {
		for _, d := range f.Decls {
			fn, ok := d.(*ast.FuncDecl)
			example = ok && strings.HasPrefix(fn.Name.Name, "Example") && strings.HasSuffix(path, "_test")
			ast.Inspect(d, visit)
		}
	}
}

// markLiteral marks all fields of a struct that is written without their names.
func (s *surface) markLiteral(n *ast.CompositeLit, info *types.Info, foreign func(types.Object) bool) {
	st, ok := types.Unalias(info.TypeOf(n)).Underlying().(*types.Struct)
	if !ok || len(n.Elts) == 0 {
		return
	}
	if _, keyed := n.Elts[0].(*ast.KeyValueExpr); keyed {
		return
	}
	for f := range st.Fields() {
		if foreign(f) {
			s.used[f.Pos()] = true
		}
	}
}

// markPath marks the embedded fields that a selector goes through without naming them.
func (s *surface) markPath(sel *types.Selection, foreign func(types.Object) bool) {
	typ := sel.Recv()
	for _, i := range sel.Index()[:len(sel.Index())-1] {
		if p, ok := typ.Underlying().(*types.Pointer); ok {
			typ = p.Elem()
		}
		st, ok := typ.Underlying().(*types.Struct)
		if !ok {
			return
		}
		f := st.Field(i)
		if foreign(f) {
			s.used[f.Pos()] = true
		}
		typ = f.Type()
	}
}

// collectInterfaces collects the named interfaces in the module and its imports.
func (s *surface) collectInterfaces() {
	seen := map[*types.Package]bool{}
	var visit func(p *types.Package)
	visit = func(p *types.Package) {
		if seen[p] {
			return
		}
		seen[p] = true
		for _, name := range p.Scope().Names() {
			if o, ok := p.Scope().Lookup(name).(*types.TypeName); ok && (o.Exported() || s.checked[p.Path()] != nil) {
				if n, ok := o.Type().(*types.Named); ok && n.TypeParams().Len() > 0 {
					continue
				}
				if i, ok := o.Type().Underlying().(*types.Interface); ok && i.NumMethods() > 0 {
					s.interfaces = append(s.interfaces, i)
				}
			}
		}
		for _, i := range p.Imports() {
			visit(i)
		}
	}
	for _, p := range s.checked {
		visit(p)
	}
	s.interfaces = append(s.interfaces, types.Universe.Lookup("error").Type().Underlying().(*types.Interface))
}
