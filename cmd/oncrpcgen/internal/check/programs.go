// Programs: numbers, methods' names, the longest replies.

package check

import "github.com/nfsrdma/nfsrdma/cmd/oncrpcgen/internal/syntax"

// maxProc is the largest number for a procedure, which is an index in a server's table.
const maxProc = 1<<16 - 1

// programs returns each program's versions.
func (c *checker) programs(f *syntax.File) (list []*Program) {
	count := map[string]int{}
	for _, g := range f.Programs {
		for _, v := range g.Versions {
			count[title(v.Name.Text)]++
		}
	}
	for _, g := range f.Programs {
		number := c.unsigned(g.Number, "the number of "+g.Name.Text)
		names, numbers := map[string]bool{}, map[uint64]bool{}
		if len(g.Versions) == 0 {
			c.fail(g.Name.Pos, "a program without versions")
		}
		for _, v := range g.Versions {
			n := c.unsigned(v.Number, "the number of "+v.Name.Text)
			if names[v.Name.Text] || numbers[n] {
				c.fail(v.Name.Pos, "%s, version %d, stands twice in %s", v.Name.Text, n, g.Name.Text)
			}
			names[v.Name.Text], numbers[n] = true, true
			name := title(v.Name.Text)
			if count[name] > 1 {
				name = title(g.Name.Text) + name
			}
			p := &Program{X: g.Name.Text, Version: v.Name.Text, Name: name, Number: c.rpcConst(g.Name.Text, number), Num: number, Vers: c.rpcConst(v.Name.Text, n), Note: v.Note}
			for _, made := range []string{name + "Client", name + "Server", "New" + name + "Client", "New" + name + "Program"} {
				c.scope.add(c, made, syntax.Name{Text: made + " of " + v.Name.Text, Pos: v.Name.Pos})
			}
			c.procs(p, v)
			list = append(list, p)
		}
	}
	return list
}

// procs sets a version's procedures.
func (c *checker) procs(p *Program, v *syntax.Version) {
	if len(v.Procs) == 0 {
		c.fail(v.Name.Pos, "a version without procedures")
	}
	names, numbers := scope{}, map[uint64]bool{}
	for i, method := range methods(v.Procs) {
		q := v.Procs[i]
		n := c.unsigned(q.Number, "the number of "+q.Name.Text)
		if n > maxProc {
			c.fail(q.Number.Pos, "the number of %s is %d; a server's table has procedures up to %d", q.Name.Text, n, maxProc)
		}
		if numbers[n] {
			c.fail(q.Name.Pos, "procedure %d stands twice in %s", n, v.Name.Text)
		}
		numbers[n] = true
		names.add(c, method, q.Name)
		proc := &Proc{X: q.Name.Text, Const: c.rpcConst(q.Name.Text, n), Method: method, Number: n, Pos: q.Name.Pos, Idempotent: q.Idempotent, Note: q.Note}
		for j := range q.Args {
			proc.Args = append(proc.Args, c.operand(&q.Args[j], q.Name.Text+"_args"))
		}
		if q.Res != nil {
			proc.Res = c.operand(q.Res, q.Name.Text+"_res")
		}
		p.Procs = append(p.Procs, proc)
		if proc.limit = q.Limit; q.Limit != nil {
			proc.plus = c.unsigned(q.Limit.Plus, "the constant in the reply-limit of "+q.Name.Text)
		}
	}
}

// operand returns an argument's or a result's type.
func (c *checker) operand(s *syntax.Spec, name string) *Type {
	if s.Base == "opaque" {
		c.fail(s.Pos, "opaque needs a size: give it a name by typedef")
	}
	t := c.spec(s, name)
	c.values[t] = true
	return t
}

// replies computes the longest results, and refuses several items in one message.
func (c *checker) replies(list []*Program) {
	for _, p := range list {
		for _, q := range p.Procs {
			items := 0
			for _, a := range q.Args {
				c.measure(a)
				items += a.Items
			}
			if items > 1 {
				c.fail(q.Pos, "the arguments of %s can have several ddp-eligible items; one is possible", q.X)
			}
			if q.Res == nil {
				if q.limit != nil {
					c.fail(q.limit.Pos, "reply-limit: %s has no result", q.X)
				}
				continue
			}
			if c.measure(q.Res); q.Res.Items > 1 {
				c.fail(q.Pos, "the result of %s can have several ddp-eligible items; one is possible", q.X)
			}
			q.MaxReply = min(c.longest(q.Res), roundUp(c.opts.Max))
			c.limit(q)
		}
	}
}
