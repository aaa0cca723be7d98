// Types: from specifiers and declarations to one Type for each name.

package check

import (
	"strconv"

	"github.com/nfsrdma/nfsrdma/cmd/oncrpcgen/internal/syntax"
)

// builtins are the language's types, and those in ONC RPC's headers for C. A small integer
// takes 4 bytes.
var builtins = map[string]Type{
	"int": {Kind: Int}, "long": {Kind: Int}, "short": {Kind: Int}, "char": {Kind: Int},
	"int32_t": {Kind: Int}, "int16_t": {Kind: Int}, "int8_t": {Kind: Int},
	"unsigned ": {Kind: Uint}, "unsigned int": {Kind: Uint}, "unsigned long": {Kind: Uint}, "unsigned short": {Kind: Uint}, "unsigned char": {Kind: Uint},
	"u_int": {Kind: Uint}, "u_long": {Kind: Uint}, "u_short": {Kind: Uint}, "u_char": {Kind: Uint},
	"uint32_t": {Kind: Uint}, "u_int32_t": {Kind: Uint}, "uint16_t": {Kind: Uint}, "u_int16_t": {Kind: Uint}, "uint8_t": {Kind: Uint}, "u_int8_t": {Kind: Uint},
	"rpcprog_t": {Kind: Uint}, "rpcvers_t": {Kind: Uint}, "rpcproc_t": {Kind: Uint}, "rpcprot_t": {Kind: Uint}, "rpcport_t": {Kind: Uint},
	"hyper": {Kind: Hyper}, "int64_t": {Kind: Hyper}, "quad_t": {Kind: Hyper}, "longlong_t": {Kind: Hyper},
	"unsigned hyper": {Kind: Uhyper}, "uint64_t": {Kind: Uhyper}, "u_int64_t": {Kind: Uhyper}, "u_quad_t": {Kind: Uhyper}, "u_longlong_t": {Kind: Uhyper},
	"float": {Kind: Float}, "double": {Kind: Double}, "bool": {Kind: Bool}, "bool_t": {Kind: Bool},
	"quadruple": {Kind: Fixed, N: 16, Limit: "16"}, "des_block": {Kind: Fixed, N: 8, Limit: "8"},
	"netobj": {Kind: Opaque, N: 1024, Limit: "1024"},
}

// builtin returns the type for a name without a definition.
func (c *checker) builtin(name string) *Type {
	if t, ok := builtins[name]; ok {
		return &t
	}
	if name != "netbuf" {
		return nil
	}
	max := &Field{Name: "Maxlen", X: "maxlen", Type: &Type{Kind: Uint}}
	buf := &Field{Name: "Buf", X: "buf", Type: &Type{Kind: Opaque, N: c.opts.Max, Limit: strconv.FormatUint(c.opts.Max, 10)}}
	return &Type{Kind: Struct, Name: "Netbuf", X: name, Fields: []*Field{max, buf}}
}

// named returns a name's type.
func (c *checker) named(name string, at syntax.Pos) *Type {
	if t := c.types[name]; t != nil {
		return t
	}
	d := c.defs[name]
	if d == nil {
		t := c.builtin(name)
		if t == nil {
			c.fail(at, "there is no type %s", name)
			return &Type{Kind: Int}
		}
		if c.types[name] = t; t.Name != "" {
			c.scope.add(c, t.Name, syntax.Name{Text: name, Pos: at})
			c.all = append(c.all, t)
		}
		return t
	}
	t := &Type{Name: GoName(name), X: name, Pos: d.Name.Pos, Note: d.Note}
	c.types[name] = t
	c.all = append(c.all, t)
	if s := &d.Decl.Type; d.Is || d.Decl.Shape == syntax.Plain && (s.Enum != nil || s.Struct != nil || s.Union != nil) {
		c.body(t, &d.Decl.Type, name)
		return t
	}
	t.Kind = Alias
	t.Elem = c.declared(&d.Decl, name+"_element")
	switch t.Elem.Kind {
	case Fixed, Opaque, Array, Slice:
		if d.Decl.Shape != syntax.Plain {
			t.Kind = Named
		}
	}
	for slow := t.Elem; (slow.Kind == Alias || slow.Kind == Optional) && slow.Elem != nil; slow = slow.Elem {
		if slow == t {
			c.fail(d.Name.Pos, "%s is another name for itself", name)
			t.Kind, t.Elem = Int, nil
			break
		}
	}
	return t
}

// body sets an enum's, a struct's or a union's kind and content.
func (c *checker) body(t *Type, s *syntax.Spec, owner string) {
	switch {
	case s.Enum != nil:
		c.enum(t, s)
	case s.Struct != nil:
		t.Kind = Struct
		fields := scope{}
		for _, d := range s.Struct {
			if d.Shape == syntax.Void {
				continue // nothing, as in C's grammar
			}
			fields.add(c, GoName(d.Name.Text), d.Name)
			t.Fields = append(t.Fields, c.field(d, owner))
		}
		if len(t.Fields) == 0 {
			c.fail(s.Pos, "a struct without fields")
		}
	case s.Union != nil:
		t.Kind = Union
		c.union(t, s.Union, owner)
	}
}

// enum sets an enum's members.
func (c *checker) enum(t *Type, s *syntax.Spec) {
	t.Kind = Enum
	for _, m := range s.Enum {
		k := c.consts[m.Name.Text]
		if k == nil {
			continue
		}
		n, ok := c.valueOf(k, m.Name.Pos).Int()
		if ok && n >= 1<<31 && n < 1<<32 {
			n -= 1 << 32 // 0xffffffff stands for -1
		}
		if !ok || n < -1<<31 || n >= 1<<31 {
			c.fail(m.Name.Pos, "%s is not within 32 bits", m.Name.Text)
		}
		t.Members = append(t.Members, Member{Name: k.goRef, X: m.Name.Text, Value: n, Note: m.Note})
	}
}

// field makes a field or an arm.
func (c *checker) field(d *syntax.Decl, owner string) *Field {
	f := &Field{Name: GoName(d.Name.Text), X: d.Name.Text, Pos: d.Name.Pos, Note: d.Note}
	f.Type = c.declared(d, owner+"_"+d.Name.Text)
	if d.Item {
		f.Type = c.item(f.Type, d)
	}
	c.values[f.Type] = true
	return f
}

// item makes a field one that may be a chunk: its own bytes.
func (c *checker) item(t *Type, d *syntax.Decl) *Type {
	u := t
	for (u.Kind == Alias || u.Kind == Named) && u.Elem != nil {
		u = u.Elem
	}
	if u.Kind != Opaque && u.Kind != String {
		c.fail(d.Name.Pos, "%s is marked ddp-eligible, but only opaque<> and string<> can be", d.Name.Text)
		return t
	}
	return &Type{Kind: Opaque, N: u.N, Limit: u.Limit, Item: true}
}

// declared returns the type in a declaration. A body without a name gets name.
func (c *checker) declared(d *syntax.Decl, name string) *Type {
	switch {
	case d.Type.Base == "opaque" && d.Shape == syntax.Array:
		return c.sized(&Type{Kind: Fixed}, d)
	case d.Type.Base == "opaque":
		return c.limited(&Type{Kind: Opaque, Item: d.Item}, d)
	case d.Type.Base == "string" && (c.opts.Bytes || d.Item):
		return c.limited(&Type{Kind: Opaque, Item: d.Item}, d)
	case d.Type.Base == "string":
		return c.limited(&Type{Kind: String}, d)
	}
	t := c.spec(&d.Type, name)
	switch d.Shape {
	case syntax.Optional:
		t = &Type{Kind: Optional, Elem: t, Pos: d.Name.Pos}
		c.uses = append(c.uses, t)
	case syntax.Array:
		c.values[t] = true
		t = c.sized(&Type{Kind: Array, Elem: t, Pos: d.Name.Pos}, d)
	case syntax.List:
		c.values[t] = true
		t = c.limited(&Type{Kind: Slice, Elem: t, Pos: d.Name.Pos}, d)
	}
	return t
}

// maxFixed bounds arrays, which are values in Go.
const maxFixed = 1 << 16

// sized sets an array's size.
func (c *checker) sized(t *Type, d *syntax.Decl) *Type {
	t.N = c.unsigned(*d.Size, "the size of "+d.Name.Text)
	t.Limit = c.expr(*d.Size, t.N)
	if t.N > maxFixed || t.N == 0 && t.Kind == Array {
		c.fail(d.Size.Pos, "the size of %s is %d; only up to %d is accepted: use <> with a limit", d.Name.Text, t.N, maxFixed)
	}
	return t
}

// limited sets a list's limit. A Slice without a limit gets one with its sizes.
func (c *checker) limited(t *Type, d *syntax.Decl) *Type {
	switch {
	case d.Size != nil:
		t.N = c.unsigned(*d.Size, "the limit of "+d.Name.Text)
		if t.Limit = c.expr(*d.Size, t.N); t.N > 1<<31-1 {
			t.N, t.Limit = 1<<31-1, "1<<31 - 1" // any processor's int
		}
	case t.Kind != Slice:
		t.N = c.opts.Max
		t.Limit = strconv.FormatUint(t.N, 10)
	}
	return t
}

// spec returns a specifier's type.
func (c *checker) spec(s *syntax.Spec, name string) *Type {
	switch {
	case s.Ref != "":
		return c.named(s.Ref, s.Pos)
	case s.Base == "string":
		n := c.opts.Max
		kind := String
		if c.opts.Bytes {
			kind = Opaque
		}
		return &Type{Kind: kind, N: n, Limit: strconv.FormatUint(n, 10)}
	case s.Base != "":
		if t := c.builtin(s.Base); t != nil {
			return t
		}
		c.fail(s.Pos, "%s is no type here", s.Base)
		return &Type{Kind: Int}
	}
	t := &Type{Name: GoName(name), X: name, Pos: s.Pos}
	c.scope.add(c, t.Name, syntax.Name{Text: name, Pos: s.Pos})
	c.all = append(c.all, t)
	c.body(t, s, name)
	return t
}
