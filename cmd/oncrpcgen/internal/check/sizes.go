// Sizes: bytes on the wire and in memory, and what follows from them.

package check

// unbounded stands for this size and more.
const unbounded = 1 << 40

func plus(a, b uint64) uint64 { return min(a+b, unbounded) }

func times(a, b uint64) uint64 {
	if a != 0 && b > unbounded/a {
		return unbounded
	}
	return a * b
}

func roundUp(n uint64) uint64 { return (n + 3) &^ 3 }

// Bounds on memory: the bytes in Go for each byte in a list on the wire, and those in a union whose
// arms are values.
const (
	maxRatio = 32
	maxUnion = 1024
	largeArm = 24 // bytes in an arm that stays a value

	// maxStatic bounds a value that is read and written in one step.
	maxStatic = 1024
)

// properties computes Props for all types.
func (c *checker) properties() {
	w := &values{state: map[*Type]int{}}
	for _, t := range c.all {
		w.visit(t)
	}
	c.measureAll()
	if c.err != nil {
		return
	}
	for _, t := range c.all {
		if t.Kind == Union && t.Size > maxUnion {
			box(t)
		}
	}
	c.measureAll()
	for _, t := range c.all {
		c.boxElements(t)
	}
	c.measureAll()
	c.recursion()
	borrows, items := c.spread((*Type).isBytes), c.spread((*Type).isItem)
	for _, t := range c.all {
		t.Borrows = borrows[t]
		t.each(func(u *Type) {
			if (u.Kind == Slice || u.Kind == List || u.Kind == Optional) && u.Elem.within(items, (*Type).isItem) {
				c.fail(u.Pos, "a ddp-eligible item in a list or an optional value: only one that is always there can be a chunk")
			}
		})
	}
}

// measureAll computes all sizes again.
func (c *checker) measureAll() {
	clearing := func(t *Type) { t.state = 0 }
	for _, t := range c.all {
		t.each(clearing)
	}
	for _, t := range c.all {
		c.measure(t)
	}
}

// each calls f with t and the types without a name within it.
func (t *Type) each(f func(*Type)) {
	f(t)
	next := func(u *Type) {
		if u.Name == "" {
			u.each(f)
		}
	}
	if t.Elem != nil {
		next(t.Elem)
	}
	if t.Switch != nil {
		next(t.Switch.Type)
	}
	for _, x := range t.Fields {
		next(x.Type)
	}
}

// measure computes a type's sizes, except Max, once. A type within itself is an error.
func (c *checker) measure(t *Type) {
	if t.state == 1 {
		c.fail(t.Pos, "%s contains itself: use a pointer", t.X)
	}
	if t.state != 0 || c.err != nil {
		return
	}
	t.state = 1
	switch t.Kind {
	case Bool:
		t.Min, t.Size = 4, 4
	case Int, Uint, Float, Enum:
		t.Min, t.Size, t.Static, t.Checked = 4, 4, true, t.Kind == Enum
	case Hyper, Uhyper, Double:
		t.Min, t.Size, t.Static = 8, 8, true
	case Fixed:
		t.Min, t.Size, t.Static = roundUp(t.N), t.N, t.N%4 == 0
	case Opaque, String:
		t.Min, t.Size = 4, 24
		if t.Item {
			t.Items, t.ItemMax = 1, roundUp(t.N)
		}
	case Slice, List, Optional:
		if t.Min, t.Size = 4, 24; t.Kind == Optional {
			t.Size = 8
		}
		if t.Elem.Name == "" {
			c.measure(t.Elem) // types with names are measured for themselves, as they can recur
		}
	case Alias, Named:
		c.measure(t.Elem)
		u := t.Elem.Props
		t.Min, t.Size, t.Static, t.Checked, t.Items, t.ItemMax = u.Min, u.Size, u.Static, u.Checked, u.Items, u.ItemMax
	case Array:
		c.measureArray(t)
	case Struct:
		c.measureStruct(t)
	case Union:
		c.measureUnion(t)
	}
	t.state = 2
}

func (c *checker) measureArray(t *Type) {
	c.measure(t.Elem)
	u := t.Elem.Props
	t.Min, t.Size = times(t.N, u.Min), times(t.N, u.Size)
	t.Static, t.Checked, t.Items, t.ItemMax = u.Static && t.Min <= maxStatic, u.Checked, u.Items*2, u.ItemMax
	if t.Size > 1<<20 {
		c.fail(t.Pos, "an array of %d bytes is too large for a value", t.Size)
	}
}

func (c *checker) measureStruct(t *Type) {
	t.Min, t.Size, t.Static, t.Checked, t.Items, t.ItemMax = 0, 0, true, false, 0, 0
	for _, f := range t.Fields {
		c.measure(f.Type)
		u := f.Type.Props
		t.Min, t.Size = plus(t.Min, u.Min), plus(t.Size, (u.Size+7)&^7)
		t.Static, t.Checked = t.Static && u.Static, t.Checked || u.Checked
		t.Items, t.ItemMax = t.Items+u.Items, max(t.ItemMax, u.ItemMax)
	}
	t.Static = t.Static && t.Min <= maxStatic
}

func (c *checker) measureUnion(t *Type) {
	least := uint64(unbounded)
	for _, k := range t.arms() {
		if k.Arm == nil {
			least = 0
		}
	}
	t.Size, t.Items, t.ItemMax = 8, 0, 0
	for _, f := range t.Fields {
		if f.cycle {
			f.Boxed, least, t.Size = true, 0, t.Size+8
			continue
		}
		c.measure(f.Type)
		u := f.Type.Props
		least = min(least, u.Min)
		t.Items, t.ItemMax = max(t.Items, u.Items), max(t.ItemMax, u.ItemMax)
		f.Boxed = t.Boxed && u.Size > largeArm && f.Type.HasMethods()
		if f.Boxed {
			t.Size = plus(t.Size, 8)
		} else {
			t.Size = plus(t.Size, (u.Size+7)&^7)
		}
	}
	t.Min = plus(4, least)
}

// longest returns the bytes in the longest value, without items. A recursive type is unbounded.
func (c *checker) longest(t *Type) uint64 {
	if t.Deep {
		return unbounded
	}
	if t.Max > 0 {
		return t.Max
	}
	switch t.Kind {
	case Opaque, String:
		if t.Max = plus(4, roundUp(t.N)); t.Item {
			t.Max = 4
		}
	case Optional:
		t.Max = plus(4, c.longest(t.Elem))
	case List:
		t.Max = roundUp(c.opts.Max)
	case Slice:
		t.Max = plus(4, times(t.N, c.longest(t.Elem)))
	case Alias, Named:
		t.Max = c.longest(t.Elem)
	case Array:
		t.Max = times(t.N, c.longest(t.Elem))
	case Struct:
		for _, f := range t.Fields {
			t.Max = plus(t.Max, c.longest(f.Type))
		}
	case Union:
		arm := uint64(0)
		for _, f := range t.Fields {
			arm = max(arm, c.longest(f.Type))
		}
		t.Max = plus(4, arm)
	default:
		t.Max = t.Min
	}
	return t.Max
}

// arms returns the cases and the default.
func (t *Type) arms() []Case {
	if t.Default == nil {
		return t.Cases
	}
	return append(t.Cases[:len(t.Cases):len(t.Cases)], *t.Default)
}

// box makes a union's large arms pointers.
func box(t *Type) { t.Boxed = true }

// boxElements makes union arms pointers within a list's elements, if the elements take many times
// their bytes on the wire. It also gives a slice without a limit its limit.
func (c *checker) boxElements(t *Type) {
	t.each(func(u *Type) {
		if u.Kind != Slice && u.Kind != List && u.Kind != Optional {
			return
		}
		e := u.Elem.Under()
		switch {
		case e.Min == 0:
			c.fail(u.Pos, "a list of elements without bytes")
		case e.Size/e.Min > maxRatio:
			boxWithin(e)
		}
		if u.Kind == Slice && u.Limit == "" {
			u.N = max(c.opts.Max/max(e.Min, 1), 1)
			u.Limit = literalOf(u.N)
		}
	})
}

// boxWithin boxes the unions that are values within t.
func boxWithin(t *Type) {
	switch t.Kind {
	case Union:
		if t.Boxed {
			return
		}
		box(t)
	case Struct:
	case Array, Named, Alias:
		boxWithin(t.Elem)
		return
	default:
		return
	}
	for _, f := range t.Fields {
		boxWithin(f.Type)
	}
}
