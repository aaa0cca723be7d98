// The syntax tree: definitions, declarations, values.

package syntax

import "math"

// A Name is an identifier with its place.
type Name struct {
	Text string
	Pos  Pos
}

// A Number is an integer constant: a sign and a magnitude.
type Number struct {
	Neg bool
	Mag uint64
}

// Int returns the number if it fits into int64.
func (n Number) Int() (int64, bool) {
	switch {
	case n.Neg && n.Mag <= 1<<63:
		return -int64(n.Mag), true
	case !n.Neg && n.Mag <= math.MaxInt64:
		return int64(n.Mag), true
	}
	return 0, false
}

// A Value is a constant, or a constant's name.
type Value struct {
	Pos  Pos
	Name string // "": Num
	Num  Number
	Lit  string // the constant as it stands in the file, or the macro that it comes from
}

// A Note has the comments at a definition.
type Note struct {
	Doc  []Comment // before it
	Tail []Comment // after it, on its lines
}

// A Comment is a comment without its signs, and the place where it begins.
type Comment struct {
	Text string
	Pos  Pos
}

// A File is a parsed file with the files that it includes.
type File struct {
	Consts   []*Const
	Types    []*TypeDef
	Programs []*Program
}

// A Const is a constant: const, or #define with an integer.
type Const struct {
	Note
	Name  Name
	Value Value
	Text  string // for a const with a text
	IsStr bool
}

// A TypeDef gives a name to a type: typedef, enum, struct or union.
type TypeDef struct {
	Note
	Name Name
	Decl Decl // its name is Name
	Is   bool // enum, struct or union; otherwise typedef
}

// A Shape is a declaration's part beside its type.
type Shape int

// The shapes (RFC 4506 §6.3, declaration).
const (
	Plain    Shape = iota
	Array          // [n]
	List           // <n>
	Optional       // *
	Void
)

// A Decl is a declaration: a field, an arm or a type's meaning.
type Decl struct {
	Note
	Name  Name
	Type  Spec
	Shape Shape
	Size  *Value // Array; List, nil without a limit
	Item  bool   // marked ddp-eligible
}

// A Spec is a type specifier. Exactly one part is set.
type Spec struct {
	Pos    Pos
	Base   string // a keyword: "int", "unsigned hyper", "opaque", ...
	Ref    string // a name
	Enum   []*Member
	Struct []*Decl
	Union  *Union
}

// A Member is an enum's name for a value. Value is nil for the value after the previous one's.
type Member struct {
	Note
	Name  Name
	Value *Value
}

// A Union is a union's body.
type Union struct {
	Switch  Decl
	Cases   []*Case
	Default *Decl
}

// A Case is an arm with its values.
type Case struct {
	Values []Value
	Decl   Decl
}

// A Program is an RPC program (RFC 5531 §12.2).
type Program struct {
	Note
	Name     Name
	Number   Value
	Versions []*Version
}

// A Version is a program's version.
type Version struct {
	Note
	Name   Name
	Number Value
	Procs  []*Proc
}

// A Proc is a procedure. Without arguments, or without results, the list is empty or Res is nil.
type Proc struct {
	Note
	Name       Name
	Number     Value
	Args       []Spec
	Res        *Spec
	Idempotent bool   // marked idempotent
	Limit      *Limit // marked reply-limit
}

// A Limit is the mark "reply-limit: FIELD + CONSTANT" at a procedure: a result has at most as many
// bytes as an argument's field says, and Plus more.
type Limit struct {
	Pos   Pos
	Field []string // a field, or the fields that lead to it
	Plus  Value
}
