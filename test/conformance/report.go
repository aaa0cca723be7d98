// Compares the claims of a run with the rows, and writes the document.

package conformance

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// Claims lists for each row the tests that have proven the row, in order.
type Claims map[string][]string

// ReadClaims reads the claims of a run from a directory.
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

// Faults lists mandatory rows that are neither proven nor excepted, or both, and claims and
// exceptions for unknown rows.
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

// titles are the RFCs of the catalogue in document order.
var titles = []struct{ number, title string }{
	{"5044", "Marker PDU Aligned Framing (MPA)"},
	{"6581", "Enhanced RDMA Connection Establishment"},
	{"5041", "Direct Data Placement (DDP)"},
	{"5040", "Remote Direct Memory Access Protocol (RDMAP)"},
	{"8166", "RPC-over-RDMA Version 1"},
	{"8267", "NFS Binding to RPC-over-RDMA Version 1"},
	{"8797", "RPC-over-RDMA Connection Manager Private Data"},
	{"8167", "Bidirectional RPC-over-RDMA"},
	{"2203", "RPCSEC_GSS Protocol Specification"},
	{"5403", "RPCSEC_GSS Version 2"},
	{"4121", "The Kerberos Version 5 GSS-API Mechanism: Version 2"},
	{"9289", "RPC-with-TLS"},
	{"IBA", "InfiniBand architecture, volume 1, 9.8: Unreliable Connection and Unreliable Datagram, and what RoCEv2 (annex A17) makes of them"},
}

// heading returns a source's name in the document; anchor returns its link.
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

Named tests prove %d of the %d obligatory requirements (MUST, MUST NOT, and FACT: how the wire looks) of the RFCs and of
InfiniBand's unreliable services. Each of the other %d has a reason: see [Exceptions](#exceptions).
Of %d requirements that are SHOULD or MAY, tests prove %d.

Requirements are in our own words, from ` + "`test/conformance/rows`" + `. A test claims the rows that it proves when it passes.
This page is generated:

    go run ./test/conformance/cmd/conformance -write

`

// counts has the numbers of rows of one source, or of all sources.
type counts struct{ must, proven, excepted, may, mayProven int }

// count counts the rows of a source, or all rows for "".
func count(rows []Row, number string, exceptions map[string]string, claims Claims) (n counts) {
	for _, r := range rows {
		switch _, out := exceptions[r.ID]; {
		case number != "" && r.RFC() != number:
		case !r.Obligatory():
			n.may++
			n.mayProven += min(1, len(claims[r.ID]))
		default:
			n.must++
			n.proven += min(1, len(claims[r.ID]))
			if out {
				n.excepted++
			}
		}
	}
	return n
}

// Document returns the content of docs/conformance.md.
func Document(rows []Row, exceptions map[string]string, claims Claims) []byte {
	var b strings.Builder
	n := count(rows, "", exceptions, claims)
	fmt.Fprintf(&b, preface, n.proven, n.must, n.excepted, n.may, n.mayProven)
	b.WriteString("| RFC | Obligatory rows | Proven | Excepted | SHOULD and MAY | Of them proven |\n|---|---|---|---|---|---|\n")
	for _, t := range titles {
		n := count(rows, t.number, exceptions, claims)
		fmt.Fprintf(&b, "| [%s](#%s) | %d | %d | %d | %d | %d |\n", t.number, anchor(t.number), n.must, n.proven, n.excepted, n.may, n.mayProven)
	}
	b.WriteString("\n## Exceptions\n")
	section(&b, rows, "", "Reason", func(r Row) string { return exceptions[r.ID] })
	for _, t := range titles {
		name := heading(t.number)
		fmt.Fprintf(&b, "\n## %s\n\n%s.\n", name, t.title)
		of := slices.DeleteFunc(slices.Clone(rows), func(r Row) bool { return r.RFC() != t.number })
		section(&b, of, "Proven ("+name+")", "Proven by", func(r Row) string { return strings.Join(claims[r.ID], "<br>") })
		section(&b, of, "Not claimed, SHOULD and MAY ("+name+")", "How it could be seen", func(r Row) string {
			if _, out := exceptions[r.ID]; out || len(claims[r.ID]) > 0 {
				return ""
			}
			return r.Check
		})
	}
	return []byte(b.String())
}

// section writes the rows for which last returns a text, under a title if title is not empty.
func section(b *strings.Builder, rows []Row, title, column string, last func(Row) string) {
	first := true
	for _, r := range rows {
		text := last(r)
		if text == "" {
			continue
		}
		if first {
			if title != "" {
				fmt.Fprintf(b, "\n### %s\n", title)
			}
			fmt.Fprintf(b, "\n| Row | § | Level | Requirement | %s |\n|---|---|---|---|---|\n", column)
			first = false
		}
		fmt.Fprintf(b, "| %s | %s | %s | %s | %s |\n", r.ID, cell(r.Section), r.Level, cell(r.Requirement), cell(text))
	}
}

// cell escapes a text for a table cell.
func cell(s string) string { return strings.ReplaceAll(s, "|", `\|`) }
