// The checker: its steps, and its first error.

package check

import (
	"slices"
	"strconv"
	"strings"

	"github.com/nfsrdma/nfsrdma/cmd/oncrpcgen/internal/syntax"
)

// Options are choices for the code.
type Options struct {
	// Max is the limit for items, lists and replies without one, in bytes.
	Max uint64
	// Bytes makes strings []byte, which decoding leaves in the message.
	Bytes bool
	// Items are fields that may travel as chunks: TYPE.FIELD, as in the file.
	Items []string
}

type checker struct {
	opts   Options
	err    *syntax.Error
	scope  scope
	consts map[string]*constant
	defs   map[string]*syntax.TypeDef
	types  map[string]*Type
	all    []*Type        // with a name in Go
	uses   []*Type        // Optional types, for lists
	values map[*Type]bool // structs that stand somewhere without a pointer
}

// Check checks a file. The error, if any, is a *syntax.Error.
func Check(f *syntax.File, opts Options) (*Model, error) {
	c := &checker{
		opts: opts, scope: scope{}, consts: map[string]*constant{}, defs: map[string]*syntax.TypeDef{},
		types: map[string]*Type{}, values: map[*Type]bool{},
	}
	if err := markItems(f, opts.Items); err != nil {
		return nil, err
	}
	c.collect(f)
	c.define(f)
	m := &Model{}
	m.Consts = c.constants(f)
	for _, d := range f.Types {
		if c.err == nil {
			c.named(d.Name.Text, d.Name.Pos)
		}
	}
	programs := c.programs(f)
	if c.err == nil {
		c.lists()
		c.properties()
	}
	if c.err == nil {
		c.replies(programs)
	}
	if c.err != nil {
		return nil, c.err
	}
	m.Types, m.Programs = c.all, programs
	return m, nil
}

// fail keeps the first error.
func (c *checker) fail(p syntax.Pos, format string, args ...any) {
	if c.err == nil {
		c.err = syntax.Errorf(p, format, args...)
	}
}

// define declares the types' names. A typedef for the name that it defines, as C allows, declares
// nothing.
func (c *checker) define(f *syntax.File) {
	for _, d := range f.Types {
		x := d.Name.Text
		if !d.Is && d.Decl.Shape == syntax.Plain && d.Decl.Type.Ref == x {
			continue
		}
		c.scope.add(c, GoName(x), d.Name)
		c.defs[x] = d
	}
	for _, d := range f.Types {
		if _, ok := c.defs[d.Name.Text]; !ok {
			c.fail(d.Name.Pos, "typedef of %s to itself", d.Name.Text)
		}
	}
}

// constants returns the constants in the file, without enums' members.
func (c *checker) constants(f *syntax.File) (list []Const) {
	seen := map[string]bool{}
	add := func(x string, text *string, note syntax.Note) {
		k := c.consts[x]
		if seen[x] || k == nil {
			return
		}
		seen[x] = true
		lit := ""
		if text != nil {
			lit = strconv.Quote(*text)
		} else {
			lit = literal(c.valueOf(k, k.name.Pos))
			if k.value.Name == "" && strings.HasPrefix(k.value.Lit, "0") {
				lit = k.value.Lit // octal and hexadecimal stay readable
			}
		}
		list = append(list, Const{Name: k.goRef, X: x, Lit: lit, Note: note})
	}
	for _, k := range f.Consts {
		if k.IsStr {
			add(k.Name.Text, &k.Text, k.Note)
		} else {
			add(k.Name.Text, nil, k.Note)
		}
	}
	for _, g := range f.Programs {
		add(g.Name.Text, nil, syntax.Note{})
		for _, v := range g.Versions {
			add(v.Name.Text, nil, syntax.Note{})
			for _, p := range v.Procs {
				add(p.Name.Text, nil, syntax.Note{})
			}
		}
	}
	return list
}

// markItems marks fields as ddp-eligible.
func markItems(f *syntax.File, items []string) error {
	for _, item := range items {
		owner, field, _ := strings.Cut(item, ".")
		i := slices.IndexFunc(f.Types, func(d *syntax.TypeDef) bool { return d.Name.Text == owner })
		if i < 0 {
			return syntax.Errorf(syntax.Pos{File: "-ddp " + item, Line: 1, Col: 1}, "there is no type %s", owner)
		}
		d := fieldOf(&f.Types[i].Decl.Type, field)
		if d == nil {
			return syntax.Errorf(f.Types[i].Name.Pos, "-ddp %s: %s has no field %s", item, owner, field)
		}
		d.Item = true
	}
	return nil
}

// fieldOf finds a field or an arm; nil: there is none.
func fieldOf(s *syntax.Spec, name string) *syntax.Decl {
	all := slices.Clone(s.Struct)
	if s.Union != nil {
		for _, k := range s.Union.Cases {
			all = append(all, &k.Decl)
		}
		if s.Union.Default != nil {
			all = append(all, s.Union.Default)
		}
	}
	for _, d := range all {
		if d.Name.Text == name && name != "" {
			return d
		}
	}
	return nil
}
