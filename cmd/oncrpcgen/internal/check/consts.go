// Constants: their values, in any order in the file.

package check

import (
	"strconv"

	"github.com/nfsrdma/nfsrdma/cmd/oncrpcgen/internal/syntax"
)

// A constant is a name with a value: a const, an enum's member, the number for a program,
// version or procedure.
type constant struct {
	name  syntax.Name
	value syntax.Value
	// base is the member before this one, if this one has no value of its own: num is then one
	// more than base's.
	base  *constant
	goRef string // its name in Go
	enum  string // its enum, in the file
	text  bool
	rpc   bool // a version's or a procedure's number
	state int  // 0: num is unknown; 1: it is being computed; 2: it is set
	num   syntax.Number
}

// builtinConsts are constants in ONC RPC's headers for C.
var builtinConsts = map[string]uint64{"TRUE": 1, "FALSE": 0, "MAXNETNAMELEN": 255, "MAX_NETOBJ_SZ": 1024, "MAX_AUTH_BYTES": 400}

// number returns a constant's or a name's value.
func (c *checker) number(v syntax.Value) syntax.Number {
	if v.Name == "" {
		return v.Num
	}
	k, ok := c.consts[v.Name]
	if !ok {
		if n, ok := builtinConsts[v.Name]; ok {
			return syntax.Number{Mag: n}
		}
		c.fail(v.Pos, "%s is not defined; a constant from a header for C can be given with -D %s=N", v.Name, v.Name)
		return syntax.Number{}
	}
	if k.text {
		c.fail(v.Pos, "%s is a text", v.Name)
	}
	return c.valueOf(k, v.Pos)
}

// valueOf computes a constant once.
func (c *checker) valueOf(k *constant, at syntax.Pos) syntax.Number {
	if k.state == 1 {
		c.fail(at, "the value of %s depends on itself", k.name.Text)
		return syntax.Number{}
	}
	if k.state == 0 {
		k.state = 1
		if k.num = k.value.Num; k.value.Name != "" {
			k.num = c.number(k.value)
		}
		if k.base != nil {
			n, ok := c.valueOf(k.base, at).Int()
			if !ok || n == 1<<63-1 {
				c.fail(at, "the value after %s is not within 64 bits", k.base.name.Text)
			}
			k.num = fromInt(n + 1)
		}
		k.state = 2
	}
	return k.num
}

func fromInt(n int64) syntax.Number {
	if n < 0 {
		return syntax.Number{Neg: true, Mag: uint64(-n)}
	}
	return syntax.Number{Mag: uint64(n)}
}

// literal writes a number in Go.
func literal(n syntax.Number) string {
	s := strconv.FormatUint(n.Mag, 10)
	if n.Neg {
		return "-" + s
	}
	return s
}

// unsigned returns a value with at most 32 bits without a sign.
func (c *checker) unsigned(v syntax.Value, use string) uint64 {
	n := c.number(v)
	if n.Neg || n.Mag > 1<<32-1 {
		c.fail(v.Pos, "%s is %s, not a number from 0 to 4294967295", use, literal(n))
		return 0
	}
	return n.Mag
}

// expr writes a value with at most 32 bits in Go: by its name if that is a constant without a type.
func (c *checker) expr(v syntax.Value, n uint64) string {
	if k, ok := c.consts[v.Name]; ok && k.enum == "" && k.goRef != "" {
		return k.goRef
	}
	return strconv.FormatUint(n, 10)
}

// collect declares all constants.
func (c *checker) collect(f *syntax.File) {
	for _, k := range f.Consts {
		c.declare(&constant{name: k.Name, value: k.Value, text: k.IsStr, goRef: GoName(k.Name.Text)})
	}
	for _, d := range f.Types {
		c.collectEnums(d.Name.Text, &d.Decl.Type)
	}
	for _, g := range f.Programs {
		c.declare(&constant{name: g.Name, value: g.Number, goRef: GoName(g.Name.Text)})
		c.versions(g)
	}
}

// collectEnums declares the members in a type, and in the bodies within it.
func (c *checker) collectEnums(owner string, s *syntax.Spec) {
	var last *constant
	for _, m := range s.Enum {
		k := &constant{name: m.Name, base: last, enum: owner, goRef: GoName(m.Name.Text)}
		if m.Value != nil {
			k.value, k.base = *m.Value, nil
		}
		c.declare(k)
		last = k
	}
	for _, d := range s.Struct {
		c.collectEnums(owner+"_"+d.Name.Text, &d.Type)
	}
	if s.Union != nil {
		c.collectEnums(owner+"_"+s.Union.Switch.Name.Text, &s.Union.Switch.Type)
		for _, k := range s.Union.Cases {
			c.collectEnums(owner+"_"+k.Decl.Name.Text, &k.Decl.Type)
		}
		if d := s.Union.Default; d != nil {
			c.collectEnums(owner+"_"+d.Name.Text, &d.Type)
		}
	}
}

// versions declares the versions' and the procedures' numbers. A name in several versions has its
// first number.
func (c *checker) versions(g *syntax.Program) {
	for _, v := range g.Versions {
		c.declareOnce(v.Name, v.Number)
		for _, p := range v.Procs {
			c.declareOnce(p.Name, p.Number)
		}
	}
}

func (c *checker) declareOnce(name syntax.Name, value syntax.Value) {
	if k, ok := c.consts[name.Text]; !ok || !k.rpc {
		c.declare(&constant{name: name, value: value, goRef: GoName(name.Text), rpc: true})
	}
}

// rpcConst writes a version's or a procedure's number: by its name, unless that has another
// number elsewhere.
func (c *checker) rpcConst(name string, n uint64) string {
	if k := c.consts[name]; k != nil && k.num == (syntax.Number{Mag: n}) {
		return k.goRef
	}
	return strconv.FormatUint(n, 10)
}

// declare adds a constant.
func (c *checker) declare(k *constant) {
	c.scope.add(c, k.goRef, k.name)
	c.consts[k.name.Text] = k
}
