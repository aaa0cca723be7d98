// Results whose length the arguments limit.

package check

// maxLimit is the largest limit in bytes that an argument can set.
const maxLimit = 1 << 30

// A Limit is a part of a result's longest size that is in the arguments.
type Limit struct {
	Field  string // in Go, after the argument: ".Count"
	Signed bool
	Most   uint64 // what the field can add
}

// limit sets Limit for a procedure with the mark reply-limit, and MaxReply to the constant part.
func (c *checker) limit(q *Proc) {
	mark := q.limit
	if mark == nil {
		return
	}
	if q.Res.Items > 0 {
		c.fail(mark.Pos, "reply-limit: the result of %s has a ddp-eligible item, whose length the caller's sink limits", q.X)
	}
	if len(q.Args) != 1 || q.Args[0].Under().Kind != Struct {
		c.fail(mark.Pos, "reply-limit: %s needs one argument, a struct", q.X)
		return
	}
	at := q.Args[0].Under()
	path := at.X
	l := &Limit{}
	for _, name := range mark.Field {
		f := at.field(name)
		if f == nil {
			c.fail(mark.Pos, "reply-limit: %s has no field %s", path, name)
			return
		}
		path, l.Field, at = path+"."+name, l.Field+"."+f.Name, f.Type.Under()
	}
	switch at.Kind {
	case Int, Hyper:
		l.Signed = true
	case Uint, Uhyper:
	default:
		c.fail(mark.Pos, "reply-limit: %s is no integer", path)
	}
	longest := min(c.longest(q.Res), maxLimit)
	q.MaxReply = min(q.plus, longest)
	l.Most = longest - q.MaxReply
	q.Limit = l
}

// field returns a struct's field; nil: there is none.
func (t *Type) field(name string) *Field {
	if t.Kind != Struct {
		return nil
	}
	for _, f := range t.Fields {
		if f.X == name {
			return f
		}
	}
	return nil
}
