// Unions: their arms' values.

package check

import (
	"slices"

	"github.com/nfsrdma/nfsrdma/cmd/oncrpcgen/internal/syntax"
)

// union sets a union's arms.
func (c *checker) union(t *Type, u *syntax.Union, owner string) {
	t.Switch = c.field(&u.Switch, owner)
	on := t.Switch.Type.Under()
	switch on.Kind {
	case Int, Uint, Bool, Enum:
	default:
		c.fail(u.Switch.Name.Pos, "a union cannot switch on %s: an int, unsigned int, bool or enum is needed", u.Switch.Name.Text)
		return
	}
	seen := map[int64]bool{}
	for _, k := range u.Cases {
		arm := Case{Arm: c.arm(t, &k.Decl, owner)}
		for _, v := range k.Values {
			n, ok := c.number(v).Int()
			if ok && on.Kind != Uint && n >= 1<<31 && n < 1<<32 {
				n -= 1 << 32
			}
			switch {
			case !ok || !c.legal(on, n):
				c.fail(v.Pos, "case %s is not a value of %s", v.Lit, u.Switch.Name.Text)
			case seen[n]:
				c.fail(v.Pos, "case %s stands twice in one union", v.Lit)
			}
			seen[n] = true
			arm.Values = append(arm.Values, c.caseValue(on, v, n))
			arm.Names, arm.Nums = append(arm.Names, v.Lit), append(arm.Nums, n)
		}
		if n := len(t.Cases); n > 0 && t.Cases[n-1].Arm == arm.Arm {
			last := &t.Cases[n-1]
			last.Values, last.Names, last.Nums = append(last.Values, arm.Values...), append(last.Names, arm.Names...), append(last.Nums, arm.Nums...)
		} else {
			t.Cases = append(t.Cases, arm)
		}
	}
	if u.Default != nil {
		t.Default = &Case{Arm: c.arm(t, u.Default, owner)}
	}
}

// legal reports whether the switch's type has the value n.
func (c *checker) legal(on *Type, n int64) bool {
	switch on.Kind {
	case Bool:
		return n == 0 || n == 1
	case Uint:
		return n >= 0 && n < 1<<32
	case Enum:
		return slices.ContainsFunc(on.Members, func(m Member) bool { return m.Value == n })
	}
	return n >= -1<<31 && n < 1<<31
}

// caseValue writes a value in Go.
func (c *checker) caseValue(on *Type, v syntax.Value, n int64) string {
	switch on.Kind {
	case Bool:
		if n == 1 {
			return "true"
		}
		return "false"
	case Enum:
		for _, m := range on.Members {
			if m.Value == n && (m.X == v.Name || v.Name == "") {
				return m.Name
			}
		}
	default:
		if k, ok := c.consts[v.Name]; ok && k.enum == "" && n >= 0 {
			return k.goRef
		}
	}
	return literal(fromInt(n))
}

// arm adds an arm's field to a union; nil: the arm is void. Arms with one name and one type are one
// field.
func (c *checker) arm(t *Type, d *syntax.Decl, owner string) *Field {
	if d.Shape == syntax.Void {
		return nil
	}
	f := c.field(d, owner)
	if f.Name == t.Switch.Name {
		f.Name += "Arm" // as stat in rejected_reply (RFC 5531 §9)
	}
	for _, other := range t.Fields {
		if other.Name == f.Name {
			if other.X != f.X || !same(other.Type, f.Type) {
				c.fail(d.Name.Pos, "%s is already an arm, at %v", d.Name.Text, other.Pos)
			}
			return other
		}
	}
	t.Fields = append(t.Fields, f)
	return f
}

// same reports whether two types are written alike.
func same(a, b *Type) bool {
	if a == b {
		return true
	}
	if a.Name != "" || b.Name != "" || a.Kind != b.Kind || a.N != b.N || a.Item != b.Item {
		return false
	}
	return a.Elem == nil || same(a.Elem, b.Elem)
}
