// The claims of a run held against the rows, and the document that says so.

package conformance

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// Claims says for each row which tests have proven it, in order.
type Claims map[string][]string

// ReadClaims reads what the tests of a run have left in a directory.
func ReadClaims(dir string) (Claims, error) {
	files, err := filepath.Glob(filepath.Join(dir, "*"))
	if err != nil {
		return nil, err
	}
	c := make(Claims)
	for _, name := range files {
		b, err := os.ReadFile(name)
		if err != nil {
			return nil, err
		}
		for line := range strings.Lines(string(b)) {
			f := strings.Fields(line)
			if len(f) != 3 {
				return nil, fmt.Errorf("%s: %q is no claim", name, line)
			}
			c[f[0]] = append(c[f[0]], f[1]+" "+f[2])
		}
	}
	for id, tests := range c {
		slices.Sort(tests)
		c[id] = slices.Compact(tests)
	}
	return c, nil
}

// Faults lists what is wrong: an obligatory row that is neither proven nor
// excepted, one that is both, and claims and exceptions of rows that there are not.
func Faults(rows []Row, exceptions map[string]string, claims Claims) []string {
	var out []string
	known := make(map[string]bool)
	for _, r := range rows {
		if known[r.ID] {
			out = append(out, r.ID+" stands in the catalogue twice")
		}
		known[r.ID] = true
		reason, excepted := exceptions[r.ID]
		proven := len(claims[r.ID]) > 0
		switch {
		case excepted && proven:
			out = append(out, fmt.Sprintf("%s is proven by %s and needs no exception", r.ID, claims[r.ID][0]))
		case excepted && len(strings.Fields(reason)) < 3:
			out = append(out, r.ID+" is excepted without a reason")
		case r.Obligatory() && !excepted && !proven:
			out = append(out, fmt.Sprintf("%s (%s) is neither proven nor excepted: %s", r.ID, r.Level, r.Requirement))
		}
	}
	for id := range exceptions {
		if !known[id] {
			out = append(out, id+" is excepted, and is not in the catalogue")
		}
	}
	for id := range claims {
		if !known[id] {
			out = append(out, id+" is claimed, and is not in the catalogue")
		}
	}
	slices.Sort(out)
	return out
}

// titles are the RFCs of the catalogue in the order of the document.
var titles = []struct{ number, title string }{
	{"5044", "Marker PDU Aligned Framing (MPA)"},
	{"6581", "Enhanced RDMA Connection Establishment"},
	{"5041", "Direct Data Placement (DDP)"},
	{"5040", "Remote Direct Memory Access Protocol (RDMAP)"},
	{"8166", "RPC-over-RDMA Version 1"},
	{"8267", "NFS Binding to RPC-over-RDMA Version 1"},
	{"8797", "RPC-over-RDMA Connection Manager Private Data"},
	{"8167", "Bidirectional RPC-over-RDMA"},
	{"IBA", "InfiniBand architecture, volume 1, 9.8: Unreliable Connection and Unreliable Datagram, and what RoCEv2 (annex A17) makes of them"},
}

// heading is what the document calls a source, and anchor its link.
func heading(number string) string {
	if number == "IBA" {
		return number
	}
	return "RFC " + number
}

func anchor(number string) string {
	return strings.ToLower(strings.ReplaceAll(heading(number), " ", "-"))
}

const preface = `# Conformance

Every requirement of the RFCs (and of InfiniBand's unreliable services, for RoCE) that the wire protocols come from, in our own words,
with the tests that prove it. The rows are in ` + "`test/conformance/rows`" + `; a test claims
the rows it proves when it has passed. A MUST, a MUST NOT or a FACT (what the wire
looks like) has to be proven, or excepted with a reason. This page is generated:

    go run ./test/conformance/cmd/conformance -write

`

// Document is docs/conformance.md.
func Document(rows []Row, exceptions map[string]string, claims Claims) []byte {
	var b strings.Builder
	b.WriteString(preface)
	b.WriteString("| RFC | obligatory rows | proven | excepted | SHOULD and MAY | of them proven |\n|---|---|---|---|---|---|\n")
	for _, t := range titles {
		var must, proven, excepted, may, mayProven int
		for _, r := range rows {
			switch _, out := exceptions[r.ID]; {
			case r.RFC() != t.number:
			case !r.Obligatory():
				may++
				mayProven += min(1, len(claims[r.ID]))
			default:
				must++
				proven += min(1, len(claims[r.ID]))
				if out {
					excepted++
				}
			}
		}
		fmt.Fprintf(&b, "| [%s](#%s) | %d | %d | %d | %d | %d |\n", t.number, anchor(t.number), must, proven, excepted, may, mayProven)
	}
	for _, t := range titles {
		fmt.Fprintf(&b, "\n## %s\n\n%s.\n", heading(t.number), t.title)
		of := slices.DeleteFunc(slices.Clone(rows), func(r Row) bool { return r.RFC() != t.number })
		section(&b, of, "Proven", "proven by", func(r Row) string { return strings.Join(claims[r.ID], "<br>") })
		section(&b, of, "Excepted", "why", func(r Row) string { return exceptions[r.ID] })
		section(&b, of, "Not claimed (SHOULD and MAY)", "how it could be seen", func(r Row) string {
			if _, out := exceptions[r.ID]; out || len(claims[r.ID]) > 0 {
				return ""
			}
			return r.Check
		})
	}
	return []byte(b.String())
}

// section writes the rows for which last has something to say.
func section(b *strings.Builder, rows []Row, title, column string, last func(Row) string) {
	first := true
	for _, r := range rows {
		text := last(r)
		if text == "" {
			continue
		}
		if first {
			fmt.Fprintf(b, "\n### %s\n\n| row | § | level | requirement | %s |\n|---|---|---|---|---|\n", title+" ("+heading(r.RFC())+")", column)
			first = false
		}
		fmt.Fprintf(b, "| %s | %s | %s | %s | %s |\n", r.ID, cell(r.Section), r.Level, cell(r.Requirement), cell(text))
	}
}

// cell keeps a text inside its cell of a table.
func cell(s string) string { return strings.ReplaceAll(s, "|", `\|`) }
