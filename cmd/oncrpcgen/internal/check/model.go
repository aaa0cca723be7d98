// The checked file: constants, types, programs, under their names in Go.

package check

import "github.com/nfsrdma/nfsrdma/cmd/oncrpcgen/internal/syntax"

// A Kind is a type's form.
type Kind int

// The kinds. Small integers have 4 bytes in XDR, and are Int or Uint.
const (
	Int Kind = iota
	Uint
	Hyper
	Uhyper
	Float
	Double
	Bool
	Enum
	Fixed  // opaque[N]
	Opaque // opaque<N>
	String // string<N>
	Array  // Elem[N]
	Slice  // Elem<N>
	Optional
	List // a linked list: Optional in the file, a slice in Go
	Struct
	Union
	Alias // another name for Elem
	Named // its own Go type, with Elem's form
)

// A Type is a type. A name's uses share one Type.
type Type struct {
	Kind    Kind
	Name    string // in Go: Enum, Struct, Union, Alias, Named
	X       string // in the file
	Pos     syntax.Pos
	Note    syntax.Note
	Elem    *Type
	N       uint64 // size, or limit
	Limit   string // N as a Go expression
	Item    bool   // an Opaque that may travel as a chunk
	Members []Member
	Fields  []*Field // a struct's fields, or a union's arms
	Switch  *Field
	Cases   []Case
	Default *Case // nil: other values are refused
	Props
}

// Props are computed from the types within a type.
type Props struct {
	Min, Max uint64 // bytes on the wire; Max counts an item as its length word
	Static   bool   // always Min bytes, which are read and written in one step
	Checked  bool   // a Static type with values that are refused
	Size     uint64 // bytes in Go
	Boxed    bool   // a union's large arms are pointers
	Deep     bool   // recursive, so that decoding counts its depth
	Borrows  bool   // a decoded value has slices into the message
	Items    int    // most items in a value
	ItemMax  uint64 // bytes in the longest item
	group    int    // types that contain each other share it
	state    int    // 0, 1 while it is measured, 2
}

// Under returns the type that an Alias names.
func (t *Type) Under() *Type {
	for t.Kind == Alias && t.Elem != nil {
		t = t.Elem
	}
	return t
}

// HasMethods reports whether a type has EncodeXDR and DecodeXDR in Go.
func (t *Type) HasMethods() bool {
	switch t.Under().Kind {
	case Enum, Struct, Union, Named:
		return true
	}
	return false
}

// SameGroup reports whether two types contain each other.
func (t *Type) SameGroup(u *Type) bool { return u.Deep && t.group == u.group }

// A Member is an enum's name for a value.
type Member struct {
	Name, X string
	Value   int64
	Note    syntax.Note
}

// A Field is a field or an arm.
type Field struct {
	Name, X string
	Pos     syntax.Pos
	Type    *Type
	Note    syntax.Note
	Boxed   bool // a pointer in Go
	cycle   bool // an arm that leads to its own union
}

// A Case is an arm's values in Go, and its field; nil: void.
type Case struct {
	Values []string
	Names  []string // in the file
	Nums   []int64
	Arm    *Field
}

// A Const is a constant.
type Const struct {
	Name, X string
	Lit     string // in Go
	Note    syntax.Note
}

// A Program is a program's version.
type Program struct {
	X       string // the program
	Version string // in the file
	Name    string // in Go, the start for its client's and server's names
	Number  string // in Go
	Vers    string // in Go
	Num     uint64
	Note    syntax.Note
	Procs   []*Proc
}

// A Proc is a procedure.
type Proc struct {
	X, Const, Method string
	Number           uint64
	Pos              syntax.Pos
	Args             []*Type
	Res              *Type // nil: void
	Idempotent       bool
	Note             syntax.Note
	MaxReply         uint64 // bytes, an item as its length word; the constant part, if there is a Limit
	Limit            *Limit // nil: MaxReply alone
	limit            *syntax.Limit
	plus             uint64 // the constant in limit
}

// ArgItem reports whether an argument may travel as a chunk.
func (p *Proc) ArgItem() bool {
	for _, a := range p.Args {
		if a.Under().Items > 0 {
			return true
		}
	}
	return false
}

// ResItem returns the bytes in the result's longest item; 0: it has no item.
func (p *Proc) ResItem() uint64 {
	if p.Res == nil || p.Res.Under().Items == 0 {
		return 0
	}
	return p.Res.Under().ItemMax
}

// A Model is a checked file.
type Model struct {
	Consts   []Const
	Types    []*Type // with a name in Go, in the file's order
	Programs []*Program
}
