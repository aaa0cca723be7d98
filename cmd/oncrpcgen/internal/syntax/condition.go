// Expressions after #if.

package syntax

// A condition is an expression that is being evaluated: the precedence climbs from || to !.
type condition struct {
	l     *lexer
	src   string
	at    Pos
	depth int
	err   *Error
}

// condition evaluates the expression after #if. Names that are no macros are 0, as in C.
func (l *lexer) condition(at Pos, src string) (int64, *Error) {
	c := &condition{l: l, src: src, at: at}
	v := c.or()
	if c.blank(); c.src != "" {
		c.fail()
	}
	return v, c.err
}

func (c *condition) fail() {
	if c.err == nil {
		c.err = Errorf(c.at, "#if: cannot evaluate %q; integers, names, defined, !, comparisons, && and || are known", c.src)
	}
	c.src = ""
}

func (c *condition) blank() {
	for c.src != "" && (c.src[0] == ' ' || c.src[0] == '\t') {
		c.src = c.src[1:]
	}
}

// takes moves over a sign if it is next.
func (c *condition) takes(sign string) bool {
	c.blank()
	if len(c.src) < len(sign) || c.src[:len(sign)] != sign {
		return false
	}
	c.src = c.src[len(sign):]
	return true
}

func truth(b bool) int64 {
	if b {
		return 1
	}
	return 0
}

func (c *condition) or() int64 {
	v := c.and()
	for c.takes("||") {
		w := c.and()
		v = truth(v != 0 || w != 0)
	}
	return v
}

func (c *condition) and() int64 {
	v := c.compare()
	for c.takes("&&") {
		w := c.compare()
		v = truth(v != 0 && w != 0)
	}
	return v
}

func (c *condition) compare() int64 {
	v := c.unary()
	switch {
	case c.takes("=="):
		return truth(v == c.unary())
	case c.takes("!="):
		return truth(v != c.unary())
	case c.takes("<="):
		return truth(v <= c.unary())
	case c.takes(">="):
		return truth(v >= c.unary())
	case c.takes("<"):
		return truth(v < c.unary())
	case c.takes(">"):
		return truth(v > c.unary())
	}
	return v
}

func (c *condition) unary() int64 {
	if c.depth++; c.depth > maxNesting {
		c.fail()
		return 0
	}
	defer func() { c.depth-- }()
	switch {
	case c.takes("!"):
		return truth(c.unary() == 0)
	case c.takes("("):
		v := c.or()
		if !c.takes(")") {
			c.fail()
		}
		return v
	}
	return c.word()
}

// word evaluates a number, a name or defined.
func (c *condition) word() int64 {
	c.blank()
	if c.src == "" {
		c.fail()
		return 0
	}
	t, n := scan(c.src, c.at)
	if n == 0 || t.kind != ident && t.kind != number {
		c.fail()
		return 0
	}
	c.src = c.src[n:]
	if t.kind == ident && t.text == "defined" {
		return c.defined()
	}
	for range maxExpand {
		if t.kind == number {
			break
		}
		m, ok := c.l.macros[t.text]
		if !ok {
			return 0
		}
		if len(m.body) != 1 || m.body[0].kind != ident && m.body[0].kind != number {
			c.fail()
			return 0
		}
		t = m.body[0]
	}
	v, err := parseNumber(&t)
	if err != nil || v.Num.Mag > 1<<62 {
		c.fail()
		return 0
	}
	if v.Num.Neg {
		return -int64(v.Num.Mag)
	}
	return int64(v.Num.Mag)
}

// defined evaluates what follows the word: a name, in brackets or not.
func (c *condition) defined() int64 {
	open := c.takes("(")
	c.blank()
	if c.src == "" {
		c.fail()
		return 0
	}
	t, n := scan(c.src, c.at)
	if n == 0 || t.kind != ident {
		c.fail()
		return 0
	}
	c.src = c.src[n:]
	if open && !c.takes(")") {
		c.fail()
	}
	_, ok := c.l.macros[t.text]
	return truth(ok)
}
