// The mark for a result whose length the arguments limit.

package syntax

import (
	"regexp"
	"slices"
	"strings"
)

var limitForm = regexp.MustCompile(`^: *([A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*)(?: *\+ *(\w+))?$`)

// limit returns the limit in a procedure's comments; nil: there is none.
func (p *parser) limit(n *Note) (l *Limit) {
	for _, c := range slices.Concat(n.Doc, n.Tail) {
		text, ok := strings.CutPrefix(c.words(), markLimit)
		if !ok {
			continue
		}
		parts := limitForm.FindStringSubmatch(text)
		switch {
		case parts == nil:
			p.fail(c.Pos, "expected %s: FIELD or %s: FIELD + CONSTANT", markLimit, markLimit)
			return nil
		case l != nil:
			p.fail(c.Pos, "a second %s", markLimit)
			return nil
		}
		l = &Limit{Pos: c.Pos, Field: strings.Split(parts[1], "."), Plus: Value{Pos: c.Pos}}
		if parts[2] == "" {
			continue
		}
		if t, _ := scan(parts[2], c.Pos); t.kind == ident {
			l.Plus.Name, l.Plus.Lit = t.text, t.text
		} else if v, err := parseNumber(&t); err == nil {
			l.Plus = v
		} else {
			p.fail(err.Pos, "%s", err.Msg)
		}
	}
	return l
}
