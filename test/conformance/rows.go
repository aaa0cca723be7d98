// The rows from the tables in rows/, and the exceptions.

package conformance

import (
	"embed"
	"fmt"
	"strings"
	"sync"
)

//go:embed rows/*.tsv exceptions.tsv
var tables embed.FS

// A Row is one requirement of an RFC or of the InfiniBand architecture, in our words.
type Row struct {
	ID          string
	Section     string
	Level       string // MUST, MUST-NOT, SHOULD, SHOULD-NOT, MAY, or FACT: wire format
	Role        string // the party that must comply
	Requirement string
	Check       string // a way to verify it
}

// Obligatory reports whether the row must be proven or excepted.
func (r Row) Obligatory() bool {
	return r.Level == "MUST" || r.Level == "MUST-NOT" || r.Level == "FACT"
}

// RFC returns the number in the row's id, and IBA for InfiniBand's unreliable services.
func (r Row) RFC() string {
	if strings.HasPrefix(r.ID, "IBU-") {
		return "IBA"
	}
	return r.ID[1:5]
}

// Catalogue returns the rows of all tables, in order.
var Catalogue = sync.OnceValue(func() []Row {
	var rows []Row
	for _, name := range []string{"rfc5044", "rfc5041", "rfc5040", "rfc8166", "rfc2203", "rfc5403", "rfc4121", "rfc9289", "ib-unreliable"} {
		for _, f := range table("rows/"+name+".tsv", 6) {
			rows = append(rows, Row{f[0], f[1], f[2], f[3], f[4], f[5]})
		}
	}
	return rows
})

var byID = sync.OnceValue(func() map[string]Row {
	m := make(map[string]Row)
	for _, r := range Catalogue() {
		m[r.ID] = r
	}
	return m
})

// Exceptions returns the rows without a proving test, each with the reason.
var Exceptions = sync.OnceValue(func() map[string]string {
	m := make(map[string]string)
	for _, f := range table("exceptions.tsv", 2) {
		m[f[0]] = f[1]
	}
	return m
})

// table parses a file with n tab-separated fields per line after a header line. The files are
// embedded, so an invalid file is a bug and panics.
func table(name string, n int) [][]string {
	b, err := tables.ReadFile(name)
	if err != nil {
		panic(err)
	}
	var out [][]string
	for i, line := range strings.Split(strings.TrimSuffix(string(b), "\n"), "\n") {
		f := strings.Split(line, "\t")
		if len(f) != n {
			panic(fmt.Sprintf("%s:%d: %d fields, want %d", name, i+1, len(f), n))
		}
		if i > 0 {
			out = append(out, f)
		}
	}
	return out
}
