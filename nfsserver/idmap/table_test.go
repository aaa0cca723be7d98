// The table's grammar and its mistakes.

package idmap

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"unicode"
)

// show returns a table as sorted text.
func (t *Table) show() string {
	var b strings.Builder
	for _, p := range slices.Sorted(maps.Keys(t.targets)) {
		if to := t.targets[p]; to.name != "" {
			fmt.Fprintf(&b, "%s = %s\n", p, to.name)
		} else {
			fmt.Fprintf(&b, "%s = %d:%d\n", p, to.uid, to.gid)
		}
	}
	return b.String()
}

func TestTable(t *testing.T) {
	for text, want := range map[string]string{
		"":                            "",
		"# a@B = c\n \t\n\r\n  # x":   "",
		"a@B = c":                     "a@B = c\n",
		"\ta@B\t=\tc\t\r\n":           "a@B = c\n",
		"a@B=c#d":                     "a@B = c#d\n",
		"a@B=c #d":                    "a@B = c\n",
		"b/c@D = 0:4294967294\na@B=x": "a@B = x\nb/c@D = 0:4294967294\n",
		"a@B = user1 ":                "a@B = user1\n",
	} {
		table, err := ParseTable("f", []byte(text))
		if err != nil {
			t.Errorf("%q: %v", text, err)
			continue
		}
		if got := table.show(); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
		if got, want := table.Len(), strings.Count(want, "\n"); got != want {
			t.Errorf("%q: %d principals, want %d", text, got, want)
		}
	}
	if n := (*Table)(nil).Len(); n != 0 {
		t.Errorf("no table has %d principals, want 0", n)
	}
}

func TestTableMistakes(t *testing.T) {
	for text, want := range map[string]string{
		"a@B":                 "f:1:1: a line is PRINCIPAL = USER",
		"\n  a@B c":           "f:2:3: a line is PRINCIPAL = USER",
		"alice = alice":       `f:1:1: "alice" is not a principal with its realm`,
		" = c":                `f:1:2: "" is not a principal`,
		"a @B = c":            `f:1:1: "a @B" is not a principal`,
		"a@B@C = c":           `f:1:1: "a@B@C" is not a principal`,
		`a\@B@C = c`:          `f:1:1: "a\\@B@C" is not a principal`,
		"a@B = c\na@B = d":    "f:2:1: a@B is given before",
		"a@B =":               `f:1:6: "" is neither a user's name`,
		"a@B=#":               `f:1:5: "#" is neither a user's name`,
		"a@B = c d":           `f:1:7: "c d" is neither a user's name`,
		"a@B = c = d":         `f:1:7: "c = d" is neither a user's name`,
		"a@B = 1000":          `f:1:7: "1000" is neither a user's name`,
		"a@B = 1:":            `f:1:7: "1:": a user and a group are numbers`,
		"a@B = :1":            `f:1:7: ":1": a user and a group are numbers`,
		"a@B = 1:x":           `f:1:7: "1:x": a user and a group are numbers`,
		"a@B = -1:0":          `f:1:7: "-1:0": a user and a group are numbers`,
		"a@B = 4294967295:0":  `f:1:7: "4294967295:0": a user and a group are numbers`,
		"a@B = 0:4294967295":  `f:1:7: "0:4294967295": a user and a group are numbers`,
		"a@B = 4294967296:0":  `f:1:7: "4294967296:0": a user and a group are numbers`,
		"a@B = c\na@C = \x00": "f:2:7: a control byte",
		"a@B = c\ra@C = d":    "f:1:8: a control byte",
	} {
		_, err := ParseTable("f", []byte(text))
		if err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%q\n got %v\nwant %s", text, err, want)
		}
	}
}

// FuzzTable: a text gives an error with a position in it, or a table that stays equal when it is
// written and parsed again. No principal makes find panic, or gives a user without a rule.
func FuzzTable(f *testing.F) {
	for _, seed := range []string{"a@B = c\n", "# x\nnfs/a.b@C = 1:2 # y\r\n", "a@B=c#d", "a@B=#", "alice = alice", "a@B = 4294967295:0", "a\\@B@C=d", "\x00", "="} {
		f.Add([]byte(seed), "nfs/a.b@C")
		f.Add([]byte(seed), seed)
	}
	f.Fuzz(func(t *testing.T, text []byte, principal string) {
		table, err := ParseTable("f", text)
		if err != nil {
			e, ok := errors.AsType[*Error](err)
			if !ok {
				t.Fatalf("%q: %v, of type %T", text, err, err)
			}
			lines := strings.Split(string(text), "\n")
			if e.Line < 1 || e.Line > len(lines) {
				t.Fatalf("%q: %v: line %d of %d", text, err, e.Line, len(lines))
			}
			if e.Column < 1 || e.Column > len(lines[e.Line-1])+1 {
				t.Fatalf("%q: %v: column %d", text, err, e.Column)
			}
			if strings.ContainsFunc(err.Error(), unicode.IsControl) {
				t.Fatalf("%q: control bytes in %q", text, err)
			}
			return
		}
		again, err := ParseTable("g", []byte(table.show()))
		if err != nil {
			t.Fatalf("%q was taken, %q is not: %v", text, table.show(), err)
		}
		if got, want := again.show(), table.show(); got != want {
			t.Fatalf("%q is %q, written again %q", text, want, got)
		}
		c := Config{Table: table, Lookup: users}
		_, listed := table.of(principal)
		if id, err := c.find(principal); err == nil && id.UID != Anonymous && !listed {
			t.Fatalf("%q is user %d without a rule", principal, id.UID)
		}
	})
}
