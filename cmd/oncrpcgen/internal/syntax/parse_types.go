// The parser: declarations, type specifiers and bodies (RFC 4506 §6.3).

package syntax

// declaration reads a declaration without the sign at its end.
func (p *parser) declaration() Decl {
	start := p.at
	if p.takes("void") {
		return Decl{Shape: Void, Name: Name{Pos: p.tokens[start].pos}}
	}
	d := Decl{Type: p.spec()}
	if p.takes("*") {
		d.Shape = Optional
	}
	d.Name = p.name()
	t := p.peek()
	switch {
	case p.takes("["):
		v := p.value()
		d.Size = &v
		p.want("]")
		p.shape(&d, t, Array)
	case p.takes("<"):
		if p.peek().kind != '>' {
			v := p.value()
			d.Size = &v
		}
		p.want(">")
		p.shape(&d, t, List)
	}
	p.bytesHaveSize(&d)
	return d
}

// shape sets a declaration's shape, which can be only one.
func (p *parser) shape(d *Decl, at *token, s Shape) {
	if d.Shape == Optional {
		p.fail(at.pos, "an optional array: give the array a name by typedef")
	}
	d.Shape = s
}

// bytesHaveSize refuses opaque and string in shapes that they do not have. A string without
// brackets has no limit.
func (p *parser) bytesHaveSize(d *Decl) {
	switch {
	case d.Type.Base == "opaque" && d.Shape != Array && d.Shape != List:
		p.fail(d.Name.Pos, "opaque %s needs a size: [n] or <n>", d.Name.Text)
	case d.Type.Base == "string" && d.Shape == Plain:
		d.Shape = List
	case d.Type.Base == "string" && d.Shape != List:
		p.fail(d.Name.Pos, "string %s can only have a limit: <n>", d.Name.Text)
	}
}

// spec reads a type specifier.
func (p *parser) spec() Spec {
	t := p.peek()
	s := Spec{Pos: t.pos}
	if t.kind != ident {
		p.fail(t.pos, "expected a type, found %v", t)
		return s
	}
	switch t.text {
	case "unsigned":
		p.at++
		s.Base = "unsigned " + p.integer("int")
	case "int", "hyper", "long", "short", "char":
		s.Base = p.integer("")
	case "float", "double", "quadruple", "bool", "opaque", "string":
		p.at++
		s.Base = t.text
	case "enum", "struct", "union":
		p.at++
		if n := p.peek(); n.kind == ident && n.text != "switch" {
			s.Ref = p.name().Text // a name that is defined elsewhere
		} else {
			p.body(t.text, &s)
		}
	default:
		s.Ref = p.name().Text
	}
	return s
}

// integer reads the word for an integer type and returns it, or otherwise if there is none.
func (p *parser) integer(otherwise string) string {
	t := p.peek()
	if t.kind == ident {
		switch t.text {
		case "int", "hyper", "char":
			p.at++
			return t.text
		case "long", "short":
			p.at++
			p.takes("int")
			return t.text
		}
	}
	return otherwise
}

// body reads an enum's, struct's or union's body.
func (p *parser) body(word string, s *Spec) {
	if p.depth++; p.depth > maxNesting {
		p.fail(s.Pos, "more than %d bodies within each other", maxNesting)
	}
	switch word {
	case "enum":
		p.enum(s)
	case "struct":
		for p.want("{"); p.err == nil && !p.takes("}"); {
			d := p.field()
			s.Struct = append(s.Struct, &d)
		}
		if p.err == nil && s.Struct == nil {
			p.fail(s.Pos, "a struct without fields")
		}
	case "union":
		s.Union = p.union()
	}
	p.depth--
}

// field reads a declaration with its semicolon and its comments.
func (p *parser) field() Decl {
	start := p.at
	d := p.declaration()
	p.want(";")
	if d.Note = p.noted(start); d.Type.Struct != nil || d.Type.Union != nil || d.Type.Enum != nil {
		d.Note = p.ends(start)
	}
	d.Item = d.marked(markItem)
	return d
}

func (p *parser) enum(s *Spec) {
	p.want("{")
	for p.err == nil {
		start := p.at
		m := &Member{Name: p.name()}
		if p.takes("=") {
			v := p.value()
			m.Value = &v
		}
		s.Enum = append(s.Enum, m)
		more := p.takes(",")
		m.Note = p.noted(start)
		if p.takes("}") {
			return
		}
		if !more {
			p.want(",")
		}
	}
}

func (p *parser) union() *Union {
	u := &Union{}
	p.want("switch")
	p.want("(")
	if u.Switch = p.declaration(); u.Switch.Shape != Plain {
		p.fail(u.Switch.Name.Pos, "a union needs an integer, an enum or a bool to switch on")
	}
	p.want(")")
	for p.want("{"); p.err == nil && !p.takes("}"); {
		p.arm(u)
	}
	if p.err == nil && u.Cases == nil && u.Default == nil {
		p.fail(u.Switch.Name.Pos, "a union without arms")
	}
	return u
}

// arm reads a union's arm.
func (p *parser) arm(u *Union) {
	at := p.peek().pos
	if p.takes("default") {
		p.want(":")
		d := p.field()
		if u.Default != nil {
			p.fail(at, "a second default")
		}
		u.Default = &d
		return
	}
	c := &Case{}
	for p.peek().kind == ident && p.peek().text == "case" {
		p.at++
		c.Values = append(c.Values, p.value())
		p.want(":")
	}
	if c.Values == nil {
		p.fail(at, "expected case or default, found %v", p.peek())
		return
	}
	c.Decl = p.field()
	u.Cases = append(u.Cases, c)
}
